"""A model folder: exact round trips, and one clear sentence for everything that can be wrong with it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from gram.checkpoints import weights
from gram.checkpoints.folder import CONFIG_FILE, FORMAT, WEIGHTS_FILE, change_eval_settings, load_model, save_model
from gram.config import Recipe
from gram.errors import GramError
from gram.files import CHECKSUM_KEY
from gram.models.reasoner import Reasoner

SEVERAL = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="session")
def recipe(queens_recipe: Callable[..., Recipe]) -> Recipe:
    return queens_recipe()


def build(recipe: Recipe, seed: int) -> Reasoner:
    torch.manual_seed(seed)
    return Reasoner(recipe.model, vocab_size=3, length=25)


@pytest.fixture
def saved(tmp_path: Path, recipe: Recipe) -> Path:
    save_model(tmp_path / "model", build(recipe, 0), recipe, extra={"steps": 7})
    return tmp_path / "model"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / CONFIG_FILE
    content = json.loads(path.read_text())
    del content[CHECKSUM_KEY]  # as the message tells those who change the file on purpose
    path.write_text(json.dumps({**content, **changes}))


def complaint(folder: Path) -> str:
    """The message of the one error, which must be one sentence on one line."""
    with pytest.raises(GramError) as caught:
        load_model(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


# --- round trips ------------------------------------------------------------------------------------------------------


def test_round_trip_is_exact(saved: Path, recipe: Recipe) -> None:
    assert sorted(contents(saved)) == [CONFIG_FILE, WEIGHTS_FILE]
    model, read, config = load_model(saved)
    original = build(recipe, 0)
    assert read == recipe
    assert (config["steps"], config["format"]) == (7, FORMAT)
    assert not model.training
    assert model.state_dict().keys() == original.state_dict().keys()
    for name, tensor in original.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_saving_again_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    model, recipe, _ = load_model(saved)
    save_model(tmp_path / "again", model, recipe, extra={"steps": 7})
    assert contents(tmp_path / "again") == contents(saved)


def test_files_are_readable_by_others(saved: Path) -> None:
    for path in saved.iterdir():
        assert path.stat().st_mode & 0o777 == 0o644


def test_eval_settings_can_be_changed(saved: Path) -> None:
    before = contents(saved)
    change_eval_settings(saved, depth=9, temperature=0.5)
    _, recipe, config = load_model(saved)
    assert (recipe.eval.depth, recipe.eval.temperature) == (9, 0.5)
    assert config["steps"] == 7
    assert contents(saved)[WEIGHTS_FILE] == before[WEIGHTS_FILE]


@pytest.mark.parametrize("settings", [{"depth": 0}, {"depht": 3}])
def test_bad_eval_settings_are_refused_and_nothing_is_written(saved: Path, settings: dict[str, int]) -> None:
    before = contents(saved)
    with pytest.raises(GramError):
        change_eval_settings(saved, **settings)
    assert contents(saved) == before


# --- what can be wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [CONFIG_FILE, WEIGHTS_FILE])
def test_a_missing_file_is_named(saved: Path, name: str) -> None:
    (saved / name).unlink()
    assert name in complaint(saved)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert "not a trained model" in complaint(tmp_path / "nothing")


@SEVERAL
@given(share=st.floats(0, 0.9999))
def test_truncated_weights(tmp_path: Path, recipe: Recipe, share: float) -> None:
    save_model(tmp_path, build(recipe, 0), recipe)
    path = tmp_path / WEIGHTS_FILE
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert "truncated" in complaint(tmp_path)


@SEVERAL
@given(share=st.floats(0, 0.99))
def test_truncated_config(tmp_path: Path, recipe: Recipe, share: float) -> None:
    save_model(tmp_path, build(recipe, 0), recipe)
    path = tmp_path / CONFIG_FILE
    path.write_text(path.read_text()[: int(share * path.stat().st_size)])
    assert "damaged" in complaint(tmp_path)


@pytest.mark.parametrize("content", [b"\x80\x02}q\x00.", b"not a model", b"\xff" * 100])
def test_foreign_weights(saved: Path, content: bytes) -> None:
    (saved / WEIGHTS_FILE).write_bytes(content)
    assert "not a safetensors file" in complaint(saved)


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"arch": {"name": "trm"}}'])
def test_foreign_config(saved: Path, content: str) -> None:
    (saved / CONFIG_FILE).write_text(content)
    assert "not written by gram" in complaint(saved)


def test_binary_config(saved: Path) -> None:
    (saved / CONFIG_FILE).write_bytes(b"\xff\xfe\x00\x80")
    assert "damaged" in complaint(saved)


def test_a_newer_format(saved: Path) -> None:
    edit_config(saved, format=FORMAT + 1)
    assert "upgrade gram" in complaint(saved)


@pytest.mark.parametrize("changes", [{"format": "one"}, {"vocab_size": "3"}, {"length": -1}, {"length": None}])
def test_a_config_of_the_wrong_types(saved: Path, changes: dict[str, object]) -> None:
    edit_config(saved, **changes)
    complaint(saved)


def test_an_unknown_key_in_the_recipe(saved: Path, recipe: Recipe) -> None:
    content = recipe.model_dump(mode="json")
    content["model"]["dimension"] = 3
    edit_config(saved, recipe=content)
    assert "model.dimension" in complaint(saved)


@pytest.mark.parametrize(
    ("changes", "named"), [({"dim": 24}, "has shape"), ({"guidance": "none"}, "guidance"), ({"shared": False}, "high")]
)
def test_weights_of_another_model(saved: Path, recipe: Recipe, changes: dict[str, object], named: str) -> None:
    content = recipe.model_dump(mode="json")
    content["model"] |= changes
    edit_config(saved, recipe=content)
    message = complaint(saved)
    assert "does not fit" in message
    assert named in message


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("model", "dim", 2**40),
        ("model", "layers", 10**9),
        ("model", "channel_hidden", 10**12),
        ("", "vocab_size", 10**12),
        ("", "length", 10**12),
        ("", "length", 10**6),
    ],
)
def test_huge_sizes_are_refused_before_anything_is_allocated(
    saved: Path, recipe: Recipe, section: str, key: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = recipe.model_dump(mode="json")
    if section:
        content[section][key] = value
        edit_config(saved, recipe=content)
    else:
        edit_config(saved, **{key: value})
    monkeypatch.setattr(Reasoner, "__init__", only_on_meta(Reasoner.__init__))
    assert "does not fit" in complaint(saved)


def only_on_meta(build: Callable[..., None]) -> Callable[..., None]:
    def checked(self: Reasoner, *arguments: object, **options: object) -> None:
        assert torch.get_default_device().type == "meta", "memory would be allocated"
        build(self, *arguments, **options)

    return checked


@SEVERAL
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_flipped_bit_of_the_weights_goes_unnoticed(tmp_path: Path, recipe: Recipe, place: float, bit: int) -> None:
    original = build(recipe, 0)
    save_model(tmp_path, original, recipe)
    path = tmp_path / WEIGHTS_FILE
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    path.write_bytes(content)
    try:
        model, _, _ = load_model(tmp_path)
    except GramError:
        return
    for name, tensor in original.state_dict().items():  # a blank of the header's padding
        assert torch.equal(model.state_dict()[name], tensor), name


def test_the_message_names_the_tensor_and_both_shapes(saved: Path) -> None:
    tensors = load_file(saved / WEIGHTS_FILE)
    save_file({**tensors, "h_init": torch.zeros(5)}, saved / WEIGHTS_FILE)
    message = complaint(saved)
    assert "'h_init' has shape (5,), expected (16,)" in message
    del tensors["h_init"]
    save_file(tensors, saved / WEIGHTS_FILE)
    assert "'h_init' has shape none (missing)" in complaint(saved)


# --- never half a file ------------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_files(saved: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(saved)

    def half_then_fail(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        path.write_bytes(before[WEIGHTS_FILE][:100])
        raise OSError("no space left on device")

    monkeypatch.setattr(weights, "save_file", half_then_fail)
    with pytest.raises(OSError, match="no space"):
        save_model(saved, build(recipe, 1), recipe)
    assert contents(saved) == before  # the same files, and no temporary one beside them


def test_a_failed_flush_leaves_the_old_files(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(saved)

    def fail(_: int) -> None:
        raise OSError("input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="input/output"):
        change_eval_settings(saved, depth=3)
    assert contents(saved) == before


def test_a_first_write_that_fails_leaves_no_file(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "save_file", fail)
    with pytest.raises(KeyboardInterrupt):
        save_model(tmp_path / "new", build(recipe, 0), recipe)
    assert contents(tmp_path / "new") == {}


def test_a_new_temperature_replaces_one_that_falls(saved: Path) -> None:
    change_eval_settings(saved, temperature=1.0, temperature_final=0.3)
    assert load_model(saved)[1].eval.temperatures == (1.0, 0.3)
    change_eval_settings(saved, temperature=0.5)
    assert load_model(saved)[1].eval.temperatures == (0.5, 0.5)
