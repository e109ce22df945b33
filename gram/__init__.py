"""Generative recursive reasoning: tiny networks refine a latent state, at random, until many answers stand."""

from typing import TYPE_CHECKING, Any

from gram.errors import GramError

__version__ = "0.1.0"
__all__ = ["GramError", "Result", "Solver", "__version__", "load"]

if TYPE_CHECKING:
    from gram.solver import Result, Solver, load


def __getattr__(name: str) -> Any:
    """Import torch only when a model is asked for, so that `gram --help` answers at once."""
    if name in ("Result", "Solver", "load"):
        from gram import solver

        return getattr(solver, name)
    raise AttributeError(f"module 'gram' has no attribute '{name}'")
