"""Importing published checkpoints: what their files say, and what is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gram.checkpoints.folder import load_model
from gram.checkpoints.published import import_checkpoint, import_published
from gram.config import ObjectiveConfig
from gram.errors import GramError
from tests.checkpoints.helpers import (
    GOLDEN,
    MODELS,
    assert_same_logits,
    first_logits,
    golden,
    published_config,
    published_weights,
)


def test_configuration_is_read_off_the_shapes() -> None:
    model, config, objective = import_published(GOLDEN / "trm_mlp.safetensors", "trm")
    assert (model.vocab_size, model.length, model.tokens) == (6, 16, 20)
    assert (config.dim, config.layers, config.channel_hidden, config.token_hidden, config.puzzles) == (
        16,
        2,
        256,
        256,
        3,
    )
    assert (config.low_steps, config.transitions, config.supervision_steps) == (6, 3, 4)
    assert (config.shared, config.gradient, config.halting) == (True, "transition", "sigmoid")
    assert objective == ObjectiveConfig(cross_entropy="stablemax", value_weight=0.0, heads_reach_core=True)
    assert model.encoder.puzzles is not None
    # One token's worth of embedding, zeros up to the fourth token.
    assert not model.encoder.puzzles[:, 16:].any()
    assert model.encoder.puzzles[:, :16].equal(published_weights("trm_mlp")["inner.puzzle_emb.weights"])
    assert not model.decoder.value.weight.any()
    assert not model.decoder.value.bias.any()

    _, config, _ = import_published(GOLDEN / "hrm.safetensors", "hrm")
    assert (config.shared, config.layers, config.puzzle_tokens) == (False, 4, 1)
    assert (config.mixing, config.positions, config.gradient, config.halting) == (
        "attention",
        "rope",
        "call",
        "q_learning",
    )


@pytest.mark.parametrize("prefix", ["", "_orig_mod.", "model.", "_orig_mod.model.", "weights._orig_mod.model."])
@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ""])
def test_prefixes_and_formats(tmp_path: Path, prefix: str, suffix: str) -> None:
    path = tmp_path / f"step_100{suffix}"
    tensors = {prefix + key: tensor for key, tensor in published_weights("trm_attention").items()}
    if suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path)
    model, _, _ = import_published(path, "trm", overrides=published_config_of_interest("trm_attention"))
    numbers = golden("trm_attention")[2]
    assert_same_logits(model, numbers)


def published_config_of_interest(name: str) -> dict[str, object]:
    keys = ("H_cycles", "L_cycles", "halt_max_steps", "num_heads", "pos_encodings", "seq_len", "puzzle_emb_len")
    return {key: value for key, value in published_config(name).items() if key in keys}


def test_half_precision_becomes_single(tmp_path: Path) -> None:
    weights = {key: tensor.bfloat16() for key, tensor in published_weights("hrm").items()}
    torch.save(weights, tmp_path / "step_1")
    model, _, _ = import_published(tmp_path / "step_1", "hrm", overrides=published_config_of_interest("hrm"))
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}
    assert model.h_init.equal(weights["inner.H_init"].float())


def test_all_config_yaml_beside_the_checkpoint(tmp_path: Path) -> None:
    torch.save(published_weights("hrm"), tmp_path / "step_1")
    arch = {key: value for key, value in published_config("hrm").items() if key != "seq_len"}
    lines = [*(f"  {key}: {value}" for key, value in arch.items()), "  loss: {loss_type: softmax_cross_entropy}"]
    (tmp_path / "all_config.yaml").write_text("\n".join(["arch:", *lines, "lr: 1e-4", "data_paths: [data/sudoku]"]))
    with pytest.raises(GramError, match="does not specify seq_len:"):
        import_published(tmp_path / "step_1", "hrm")
    model, config, objective = import_published(tmp_path / "step_1", "hrm", overrides={"seq_len": "16"})
    assert (config.low_steps, config.transitions, config.heads, config.positions) == (2, 2, 2, "rope")
    assert objective.cross_entropy == "softmax"
    numbers = golden("hrm")[2]
    assert_same_logits(model, numbers)


def test_token_mixing_gives_the_lengths(tmp_path: Path) -> None:
    torch.save(published_weights("trm_mlp"), tmp_path / "step_1")
    cycles: dict[str, object] = {"H_cycles": 3, "L_cycles": 6, "halt_max_steps": 4}
    with pytest.raises(GramError, match="does not specify puzzle_emb_len:"):
        import_published(tmp_path / "step_1", "trm", overrides=cycles)
    for known in ({"seq_len": 16}, {"puzzle_emb_len": 4}):
        model, config, _ = import_published(tmp_path / "step_1", "trm", overrides=cycles | known)
        assert (model.length, config.puzzle_tokens, config.positions) == (16, 4, "none")
    model, config, _ = import_published(tmp_path / "step_1", "trm", overrides=cycles | {"puzzle_emb_len": 0})
    assert (model.length, config.puzzle_tokens) == (19, 1)  # 0 is published for "as few as hold the embedding"
    for wrong in ({"seq_len": 20}, {"seq_len": 30}, {"puzzle_emb_len": 20}, {"seq_len": 9, "puzzle_emb_len": 4}):
        with pytest.raises(GramError, match="do not fit"):
            import_published(tmp_path / "step_1", "trm", overrides=cycles | wrong)


def test_learned_positions_and_no_puzzles(tmp_path: Path) -> None:
    weights = published_weights("trm_attention")
    del weights["inner.puzzle_emb.weights"]
    weights["inner.embed_pos.embedding_weight"] = torch.randn(16, 16)
    torch.save(weights, tmp_path / "step_1")
    overrides = {"H_cycles": 1, "L_cycles": 1, "halt_max_steps": 2, "num_heads": 2}
    model, config, _ = import_published(tmp_path / "step_1", "trm", overrides=overrides)
    assert (model.length, config.positions, config.puzzle_tokens, config.puzzles) == (16, "learned", 0, 0)


def test_missing_settings_are_named(tmp_path: Path) -> None:
    torch.save(published_weights("hrm"), tmp_path / "step_1")
    everything = "H_cycles, L_cycles, halt_max_steps, num_heads, pos_encodings, seq_len"
    with pytest.raises(GramError, match=f"step_1 does not specify {everything}: put all_config.yaml next to it"):
        import_published(tmp_path / "step_1", "hrm")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"heads": 2}, "no setting 'heads'. The settings are H_cycles"),
        ({"num_heads": 3}, "dim 16 must be a multiple of 2 x heads"),
        ({"H_cycles": "many"}, "H_cycles must be a valid integer"),
        ({"rope_theta": 500.0}, "rope_theta must be greater than or equal to 10000"),
        ({"pos_encodings": "sinusoidal"}, "pos_encodings must be 'rope', 'learned' or 'none'"),
        ({"pos_encodings": "learned"}, "'inner.embed_pos.embedding_weight' has shape none"),
    ],
)
def test_settings_that_cannot_be(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(GramError, match=message):
        import_published(GOLDEN / "hrm.safetensors", "hrm", overrides=overrides)


@pytest.mark.parametrize("content", ["arch: [", "- 1\n- 2\n", "arch: 3", "\x00"])
def test_damaged_configuration(tmp_path: Path, content: str) -> None:
    torch.save(published_weights("hrm"), tmp_path / "step_1")
    (tmp_path / "all_config.yaml").write_text(content)
    with pytest.raises(GramError, match=r"all_config\.yaml is damaged, or has another format"):
        import_published(tmp_path / "step_1", "hrm")


def test_the_other_kind() -> None:
    with pytest.raises(GramError, match="import it as hrm"):
        import_published(GOLDEN / "hrm.safetensors", "trm")
    with pytest.raises(GramError, match="import it as trm"):
        import_published(GOLDEN / "trm_mlp.safetensors", "hrm")


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99])
def test_truncated_file(tmp_path: Path, suffix: str, share: float) -> None:
    whole, path = tmp_path / "whole", tmp_path / f"cut{suffix}"
    if suffix == ".pt":
        torch.save(published_weights("hrm"), whole)
    else:
        shutil.copy(GOLDEN / "hrm.safetensors", whole)
    path.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    with pytest.raises(GramError, match=f"cut{suffix} is truncated, or neither a safetensors nor a torch file"):
        import_published(path, "hrm")


class Unwelcome:
    """A pickled object that would run code when loaded."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return (print, ("this must never be printed",))


FOREIGN: dict[str, tuple[object, str]] = {
    "other_tensors": ({"weight": torch.zeros(2, 2)}, "it has no matrix 'inner.embed_tokens.embedding_weight'"),
    "empty": ({}, "it has no matrix"),
    "list": ([torch.zeros(2)], "which maps names to tensors"),
    "nested": ({"model": {"weight": torch.zeros(2)}, "step": 3}, "which maps names to tensors"),
    "numbered": ({0: torch.zeros(2)}, "which maps names to tensors"),
    "code": ({"weight": Unwelcome()}, "neither a safetensors nor a torch file of weights alone"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_torch_file(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    content, message = FOREIGN[name]
    torch.save(content, tmp_path / name)
    with pytest.raises(GramError, match=message):
        import_published(tmp_path / name, "trm")
    assert capsys.readouterr().out == ""


def test_foreign_safetensors_and_other_files(tmp_path: Path) -> None:
    save_file({"encoder.weight": torch.zeros(2, 2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(GramError, match="not a published HRM or TRM checkpoint"):
        import_published(tmp_path / "foreign.safetensors", "trm")
    (tmp_path / "notes.txt").write_text("these are not weights")
    with pytest.raises(GramError, match="neither a safetensors nor a torch file"):
        import_published(tmp_path / "notes.txt", "trm")
    for nothing in (tmp_path / "absent", tmp_path):
        with pytest.raises(GramError, match="There is no checkpoint file"):
            import_published(nothing, "trm")


def test_tensors_missing_added_or_doubled(tmp_path: Path) -> None:
    path, overrides = tmp_path / "step_1", published_config_of_interest("hrm")
    weights = published_weights("hrm")
    lost = "inner.H_level.layers.3.mlp.down_proj.weight"
    variants = {
        f"'{lost}' has shape none": {key: tensor for key, tensor in weights.items() if key != lost},
        r"'inner.extra' has shape \(3,\), expected none": weights | {"inner.extra": torch.zeros(3)},
        r"'inner.H_init' has shape \(8,\), expected \(16,\)": weights | {"inner.H_init": torch.zeros(8)},
        "some tensors twice": weights | {"model.inner.H_init": torch.zeros(16)},
    }
    for message, tensors in variants.items():
        torch.save(tensors, path)
        with pytest.raises(GramError, match=message):
            import_published(path, "hrm", overrides=overrides)


@pytest.mark.parametrize("name", MODELS)
def test_folder_loads_and_gives_the_same_logits(tmp_path: Path, name: str) -> None:
    path, kind, numbers = golden(name)
    out = import_checkpoint(path, kind, tmp_path / "model", overrides={})
    model, recipe, config = load_model(out)
    assert (recipe.task.name, recipe.eval.depth, recipe.eval.width) == ("none", 4, 1)
    assert config["imported"] == {"file": path.name, "as": kind}
    assert first_logits(model, numbers).equal(first_logits(import_published(path, kind)[0], numbers))


def test_out_must_be_new_and_failure_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(GramError, match="there already exists"):
        import_checkpoint(GOLDEN / "hrm.safetensors", "hrm", tmp_path / "there")
    with pytest.raises(GramError):
        import_checkpoint(GOLDEN / "hrm.safetensors", "trm", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    _, recipe, _ = load_model(import_checkpoint(GOLDEN / "hrm.safetensors", "hrm", tmp_path / "new"))
    assert recipe.task.name == "none"


@pytest.mark.parametrize("task", ["sudoku", "nqueens-4"])
def test_a_task_that_cannot_be_the_models_is_refused(task: str, tmp_path: Path) -> None:
    with pytest.raises(GramError, match=task):
        import_checkpoint(GOLDEN / "trm_mlp.safetensors", "trm", tmp_path / "model", task=task)
    assert not (tmp_path / "model").exists()
