"""The metrics of GET /metrics, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The service's own registry, so that several services can live in one process (in tests, for example)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        ProcessCollector(registry=registry)
        self.requests = Counter("gram_requests", "HTTP requests", ["path", "status"], registry=registry)
        self.request_seconds = Histogram(
            "gram_request_seconds", "Time to answer", ["path"], buckets=SECONDS, registry=registry
        )
        self.pending = Gauge("gram_pending_requests", "Waiting and active requests", registry=registry)
        self.cancelled = Counter("gram_cancelled_requests", "Requests whose client left", registry=registry)
        self.rows = Gauge("gram_batch_rows", "Trajectories in the batch", ["model"], registry=registry)
        self.row_steps = Counter("gram_row_steps", "Supervision steps of trajectories", ["model"], registry=registry)
        self.step_seconds = Histogram(
            "gram_step_seconds", "Time of one step of the batch", ["model"], buckets=SECONDS, registry=registry
        )
        self.model_errors = Counter("gram_model_errors", "Times that a model raised", ["model"], registry=registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)
