"""The process: a socket, uvicorn, signals."""

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

from gram.errors import GramError
from gram.serve.app import create_app
from gram.serve.logs import set_up
from gram.serve.service import Service
from gram.serve.settings import Settings

log = logging.getLogger("gram.serve")

HEADER_BYTES = 16 * 1024
BACKLOG = 2048
"""Connections that may wait to be accepted."""
CLEAN_UP_SECONDS = 2
"""Time that answers have to be written after the last request has ended."""


class Server(uvicorn.Server):
    """Uvicorn that lets the engine know of SIGTERM at once, and stops if a model cannot be loaded."""

    def __init__(self, settings: Settings) -> None:
        self.service = Service(settings, self._give_up)
        self.failure: GramError | None = None
        config = uvicorn.Config(
            create_app(self.service),
            http=_protocol(settings.limits.idle),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=int(settings.limits.idle),
            timeout_graceful_shutdown=int(settings.limits.drain) + CLEAN_UP_SECONDS,
            h11_max_incomplete_event_size=HEADER_BYTES,
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Accept no new requests, finish the active ones, then stop."""
        self.service.drain()
        super().handle_exit(sig, frame)

    def _give_up(self, error: GramError) -> None:
        self.failure, self.should_exit = error, True


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until a signal arrives; `announce` is called with the address once it can be opened."""
    if not settings.models:
        raise GramError("Name at least one model to serve, or use --demo.")
    set_up()
    _allow_many_connections()
    listener = _listen(settings.host, settings.port)
    if settings.token is None and not _is_loopback(settings.host):
        log.warning("anybody who reaches this address can use it: consider --token-file")
    server = Server(settings)
    host, port = listener.getsockname()[:2]
    announce(f"http://{'[' + host + ']' if ':' in host else host}:{port}")
    # Uvicorn raises the signal again when it has stopped: the process has done what it asked for, so it ends with 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.run(sockets=[listener])
    if server.failure is not None:
        raise server.failure


def _protocol(idle: float) -> type[H11Protocol]:
    class ClosesUnusedConnections(H11Protocol):
        """Closes connections that never send a request, which uvicorn keeps forever."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(idle, self._close_unless_used)

        def _close_unless_used(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

    return ClosesUnusedConnections


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GramError(f"Cannot listen on {host}, port {port} ({reason}): choose another --host or --port.") from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _allow_many_connections() -> None:
    """Raise the limit of open files, each connection being one, as far as the system lets a process."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
