"""The HTTP interface: routes and error responses."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gram import __version__
from gram.serve import schemas
from gram.serve.errors import Overloaded, Refused, error_body, sentence
from gram.serve.guard import Guard
from gram.serve.page import Asset, read_assets
from gram.serve.service import Service
from gram.serve.stream import EventStream, Left, unless_left

ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": schemas.Error, "description": "The token is missing or wrong"},
    413: {"model": schemas.Error, "description": "The body is too large"},
    422: {"model": schemas.Error, "description": "The request cannot be understood: one sentence says why"},
    500: {"model": schemas.Error, "description": "The model failed"},
    503: {"model": schemas.Error, "description": "Full, loading or stopping: see Retry-After"},
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": schemas.Answer,
        "description": "The answer; with `stream`, events `start`, `step` ... and `result`, which has this form",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    **ERRORS,
}
LEFT = 499
"""What the log says of a client that did not wait (nginx's number)."""


def create_app(service: Service) -> Guard:
    """Build the app around a service, which it starts and stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(
        title="gram",
        version=__version__,
        description="Generative recursive reasoning as a service: puzzles in, verified solutions out.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    _add_errors(app)
    _add_models(app, service)
    _add_probes(app, service)
    for path, asset in read_assets().items():
        app.add_api_route(path, _asset_route(asset), methods=["GET", "HEAD"], include_in_schema=False)
    paths = frozenset({str(getattr(route, "path", "")) for route in app.routes})
    return Guard(app, service.settings, service.metrics, paths)


def _add_models(app: FastAPI, service: Service) -> None:
    @app.post("/v1/solve", responses=ANSWERS, response_class=Response, tags=["reasoning"])
    async def solve(ask: schemas.SolveRequest, request: Request) -> Response:
        """Sample trajectories for a puzzle, verify their answers, and return the distinct solutions."""
        return await _respond(service, ask, request)

    @app.post("/v1/generate", responses=ANSWERS, response_class=Response, tags=["reasoning"])
    async def generate(ask: schemas.GenerateRequest, request: Request) -> Response:
        """Sample boards or images from a blank input."""
        return await _respond(service, ask, request)

    @app.get("/v1/models", response_model=schemas.Models, responses={401: ERRORS[401]}, tags=["models"])
    async def models() -> Any:
        """List the models that are served, and the limits of a request."""
        limits = service.settings.limits
        allowed = {"width": limits.width, "depth": limits.depth, "seconds": limits.seconds, "body": limits.body}
        return {"models": service.models(), "limits": allowed}

    @app.get("/v1/tasks", response_model=schemas.Tasks, responses={401: ERRORS[401]}, tags=["models"])
    async def tasks() -> Any:
        """List the tasks of the models that are ready, and how their puzzles are written."""
        return {"tasks": service.tasks()}


def _add_probes(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", response_model=schemas.Status, tags=["operation"])
    async def healthz() -> Any:
        """Return that the process is alive."""
        return {"status": "ok"}

    @app.get("/readyz", response_model=schemas.Status, responses={503: {"model": schemas.Status}}, tags=["operation"])
    async def readyz(response: Response) -> Any:
        """Return whether all models are loaded and requests are accepted."""
        if not service.is_ready:
            response.status_code = 503
            return {"status": "stopping" if service.stopping else "loading"}
        return {"status": "ready"}

    metrics_text = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, 401: ERRORS[401]}

    @app.get("/metrics", response_class=Response, responses=metrics_text, tags=["operation"])  # type: ignore[arg-type]
    async def metrics() -> Response:
        """Return the metrics in Prometheus's text format."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


async def _respond(service: Service, ask: schemas.Ask, request: Request) -> Response:
    """Answer a request as JSON or as events; its place is freed when the answer is complete or the client has left."""
    state = request.scope["state"]
    state["details"] = {"model": ask.model, "stream": ask.stream}
    with ExitStack() as stack:
        stack.enter_context(service.place())
        conversation = await service.open(ask, state["request_id"])
        stack.callback(conversation.cancelled.set)
        if ask.stream:
            held = stack.pop_all()

            def end(left: bool) -> None:
                held.close()
                service.metrics.cancelled.inc(left)

            return EventStream(conversation.events(), end)
        try:
            body = await unless_left(request, conversation.answer())
        except Left:
            service.metrics.cancelled.inc()
            return Response(status_code=LEFT)
        return Response(body, media_type="application/json")


def _add_errors(app: FastAPI) -> None:
    def told(request: Request, status: int, text: str, **headers: str) -> Response:
        body = error_body(text, request.scope["state"]["request_id"])
        return Response(body, status, headers=headers, media_type="application/json")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        if first["type"] == "json_invalid":
            return told(request, 422, "The body is not JSON.")
        if not place:
            return told(request, 422, "The body must be a JSON object, sent as application/json.")
        return told(request, 422, sentence(f"{place}: {first['msg']}"))

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        waiting = {"Retry-After": str(error.retry_after)} if isinstance(error, Overloaded) else {}
        return told(request, error.status, sentence(str(error)), **waiting)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        if error.status_code == 400:  # FastAPI's answer to a body that is not even text
            return told(request, 422, "The body is not JSON.")
        texts = {404: f"There is nothing at {request.url.path[:100]}.", 405: "This path takes another method."}
        text = texts.get(error.status_code, sentence(str(error.detail)))
        return told(request, error.status_code, text, **(error.headers or {}))


def _asset_route(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        headers = {"etag": asset.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == asset.etag:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, media_type=asset.media_type, headers=headers)

    return route
