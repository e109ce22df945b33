"""The one exception that a user is meant to read."""


class GramError(Exception):
    """Something the user can put right: the message is one sentence that says what is wrong and what to do."""
