"""The errors of requests, with their HTTP status."""

import json

from gram.errors import GramError


class Refused(GramError):
    """A request that is answered with an error: one sentence and a status."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


class Overloaded(Refused):
    """The queue is full; try again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message, 503)
        self.retry_after = retry_after


class ModelFailed(Refused):
    """The model raised an exception; the log has the traceback."""

    def __init__(self) -> None:
        super().__init__("The model failed, and the log of the service says why.", 500)


def sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def error_body(text: str, request_id: str) -> bytes:
    """Return the body of an error response."""
    return json.dumps({"error": text, "request_id": request_id}).encode()
