"""The HTTP service and the playground page: requests share one queue and one batch per model."""
