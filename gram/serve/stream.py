"""Answers that stop if their client leaves or does not read, so that its rows are freed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

WRITE_SECONDS = 20.0
"""A client that takes longer to read one event is given up."""
BEAT_SECONDS = 10.0
"""After as long a silence a comment is sent, so that proxies do not close the connection."""


class Left(Exception):
    """The client has disconnected."""


async def unless_left(request: Request, work: Awaitable[Any]) -> Any:
    """Wait for `work`; raise `Left` if the client disconnects."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_departure(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Left
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events; `on_end` is called whatever happens."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], on_end: Callable[[bool], None]) -> None:
        """Prepare to send `events`; `on_end` is told whether the client has left before their end."""
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self.events, self.on_end = events, on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client is gone."""
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_departure(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not isinstance(sending.exception(), TimeoutError | OSError | None):
                raise sending.exception() or RuntimeError
        finally:
            complete = sending.done() and not sending.cancelled() and sending.exception() is None
            self.on_end(not complete)
            for each in (sending, gone):
                each.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await each

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        events = aiter(self.events)
        coming = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                done, _ = await asyncio.wait({coming}, timeout=BEAT_SECONDS)
                body = coming.result() if done else b": waiting\n\n"
                if body is None:
                    break
                if done:
                    coming = asyncio.ensure_future(anext(events, None))
                async with asyncio.timeout(WRITE_SECONDS):
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            coming.cancel()
        await send({"type": "http.response.body", "body": b""})
