"""Exceptions with messages for the user."""


class GramError(Exception):
    """An error that the user can fix: the message is one sentence on what is wrong and what to do."""


class Interrupted(GramError):
    """A run was asked to stop; it is saved and can be resumed."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
        """the exit code of a process that a signal ended"""


class PeerDied(GramError):
    """Another process of the run has died."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error of torch means that there is not enough memory."""
    message = str(error).lower()
    return any(text in message for text in ("out of memory", "can't allocate memory", "not enough memory"))
