"""The exceptions that a user is meant to read."""


class GramError(Exception):
    """Something the user can put right: the message is one sentence that says what is wrong and what to do."""


class Interrupted(GramError):
    """A run was asked to stop, has saved itself, and can go on."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
        """as a shell reports a process that a signal ended"""


class PeerDied(GramError):
    """Another process of the run is gone; those that are left say so."""


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether torch, which has no exception of its own for a CPU, says that there is not enough memory."""
    message = str(error).lower()
    return any(text in message for text in ("out of memory", "can't allocate memory", "not enough memory"))
