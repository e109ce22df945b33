"""The limits of the service, and its address."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gram.errors import GramError


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of all of them together."""

    width: int = 256
    """trajectories of one request"""
    depth: int = 64
    """supervision steps of one request"""
    body: int = 64 * 1024
    """bytes of a request's body"""
    queue: int = 256
    """waiting and active requests; further ones get a 503"""
    seconds: float = 30.0
    """a request that takes longer gets what has been found so far"""
    drain: float = 10.0
    """seconds that active requests have left after SIGTERM"""
    idle: float = 15.0
    """seconds after which a connection without a request is closed"""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < float("inf"):
                raise GramError(f"The limit '{name}' must be a number above 0, not {value}.")


@dataclass(frozen=True)
class Settings:
    """Settings of the service."""

    models: Mapping[str, str]
    """by the name under which each is served: a shipped name, a folder or a hub id; nothing else can be asked for"""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one"""
    token: str | None = None
    """required of every request to the API, if there is one"""
    threads: int = 1
    """of torch, in the one thread that runs the models"""
    device: str = "auto"
    limits: Limits = field(default_factory=Limits)


def served_names(models: Iterable[str]) -> dict[str, str]:
    """Return the name of each served model: that of its folder, so that no path is shown to clients."""
    found: dict[str, str] = {}
    for model in dict.fromkeys(models):
        name = Path(model).resolve().name if Path(model).is_dir() else model
        if name in found:
            raise GramError(f"{found[name]} and {model} would both be served as '{name}': rename a folder.")
        found[name] = model
    return found


def read_token(path: Path) -> str:
    """Read the token that guards the API: the only line of a file."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise GramError(f"The token file {path} cannot be read ({type(error).__name__}).") from error
    if not token or len(token.split()) != 1 or not token.isascii():
        raise GramError(f"The token file {path} must contain one word of ASCII characters.")
    return token
