"""The base class of all sections of a recipe: typed, frozen and strict."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Section(BaseModel):
    """A part of a recipe; it is frozen and rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def describe(error: ValidationError) -> str:
    """Summarise the errors of pydantic in one sentence."""
    problems = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] in ("extra_forbidden", "unexpected_keyword_argument"):  # of a section, and of a dataclass
            problems.append(f"unknown key '{key}'")
        else:
            message = item["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            problems.append(f"{key} {message}" if message.startswith("must ") else f"{key or 'recipe'}: {message}")
    return "; ".join(problems)
