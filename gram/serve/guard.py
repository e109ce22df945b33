"""Middleware for every request: its id, the token, the size of its body, safe headers, a log line, metrics."""

import asyncio
import hashlib
import hmac
import logging
import re
import time
import uuid

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gram.serve.errors import Refused, error_body
from gram.serve.metrics import Metrics
from gram.serve.settings import Settings

BODY_SECONDS = 10.0
"""A body that takes longer to arrive is not waited for."""
GUARDED = ("/v1/", "/metrics")
"""What the token guards; the page, which asks for it, and the probes are open."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

log = logging.getLogger("gram.serve")


class Guard:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, paths: frozenset[str]) -> None:
        """Guard `app`; requests outside `paths` are counted together."""
        self.app, self.metrics, self.paths = app, metrics, paths
        self.most = settings.limits.body
        self.token = None if settings.token is None else _digest(settings.token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        headers = dict(scope["headers"])
        request_id = _request_id(headers.get(b"x-request-id", b""))
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *extra, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            try:
                body = await self._checked_body(scope, headers, receive)
            except Refused as error:
                await _refusal(error, request_id)(scope, receive, send_safely)
            else:
                await self.app(scope, _replay(body, receive), send_safely)
        except Exception as error:
            log.error("a request failed", exc_info=error, extra={"request_id": request_id})
            if not status:
                failure = Refused("The service failed, and its log says why.", 500)
                await _refusal(failure, request_id)(scope, receive, send_safely)
        finally:
            self._note(scope, request_id, status, time.perf_counter() - started)

    async def _checked_body(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Return the body; raise `Refused` for a request that must not reach the app."""
        if scope["path"].startswith(GUARDED) and not self._is_known(headers.get(b"authorization", b"")):
            raise Refused("This service wants a token: send it as 'Authorization: Bearer TOKEN'.", 401)
        too_large = Refused(f"The body must have at most {self.most} bytes.", 413)
        announced = headers.get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > self.most:
            raise too_large
        body, more = b"", True
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while more:
                    message = await receive()
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > self.most:
                        raise too_large
        except TimeoutError as error:
            raise Refused(f"The body did not arrive within {BODY_SECONDS:g} seconds.", 408) from error
        return body

    def _is_known(self, authorization: bytes) -> bool:
        if self.token is None:
            return True
        kind, _, token = authorization.partition(b" ")
        # Digests have one length, so that the time of the comparison says nothing about the token.
        return hmac.compare_digest(_digest(token.strip()), self.token) and kind.lower() == b"bearer"

    def _note(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self.paths else "other"
        self.metrics.requests.labels(path, status).inc()
        self.metrics.request_seconds.labels(path).observe(seconds)
        client = scope.get("client")
        details = {
            "request_id": request_id,
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": status,
            "seconds": round(seconds, 4),
            "client": client[0] if client else None,
            **scope["state"].get("details", {}),
        }
        log.info("request", extra=details)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _request_id(given: bytes) -> str:
    """Return the client's own id if it is harmless, else a new one."""
    if re.fullmatch(rb"[A-Za-z0-9_.-]{1,64}", given):
        return given.decode()
    return uuid.uuid4().hex[:16]


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return the body, which was already read, once; then the following messages, such as a disconnect."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return unread.pop() if unread else await receive()

    return replay


def _refusal(error: Refused, request_id: str) -> Response:
    headers = {"connection": "close"}  # what is left of a body must not be read as the next request
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(error_body(str(error), request_id), error.status, headers, "application/json")
