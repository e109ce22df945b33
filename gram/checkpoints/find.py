"""Find a trained model: one that ships with the package, a folder, or a repository on the Hugging Face hub."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gram.checkpoints.card import CARD_FILE, read_card
from gram.errors import GramError
from gram.files import CONFIG_FILE, shipped_models


@dataclass(frozen=True)
class ModelInfo:
    """The contents of a shipped model's card."""

    name: str
    task: str
    parameters: int
    settings: str
    """sampling options of the results"""
    results: dict[str, float]
    """metrics on the test split, as fractions"""

    def as_json(self) -> dict[str, Any]:
        """Return everything as a dictionary."""
        return asdict(self)


def list_models() -> dict[str, ModelInfo]:
    """Return the models that ship with the package, by name."""
    return {name: ModelInfo(name, **read_card(folder)) for name, folder in shipped_models().items()}


def find_model(name: str | Path) -> Path:
    """Resolve a name to a folder; a hub id is downloaded."""
    shipped = shipped_models()
    if str(name) in shipped:
        return shipped[str(name)]
    path = Path(name)
    if path.exists():
        return path
    if isinstance(name, str) and name.count("/") == 1 and not name.startswith((".", "/")) and not name.endswith("/"):
        return _download(name)
    raise GramError(
        f"There is no model '{name}': give a folder, a hub id (owner/name), or one of {', '.join(shipped)}."
    )


def own_folder(name: str | Path) -> Path:
    """Return the folder of a model that may be changed; raise `GramError` for a shipped model or a hub id."""
    shipped = shipped_models().get(str(name))
    if shipped is not None:
        raise GramError(
            f"'{name}' is a shipped model and cannot be changed: copy its folder first, with "
            f"`cp -r {shipped} my-{name}`, and give my-{name}."
        )
    if not (Path(name) / CONFIG_FILE).is_file():
        raise GramError(f"{name} is not the folder of a trained model: {CONFIG_FILE} is missing.")
    return Path(name).resolve()


def _download(repo_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo_id, allow_patterns=["*.json", "*.safetensors", CARD_FILE]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise GramError(
            f"'{repo_id}' is not a folder, and the hub has no such model ({type(error).__name__})."
        ) from error
