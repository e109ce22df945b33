"""Import of the published HRM and TRM checkpoints: bare state dicts, as safetensors or torch files.

Widths, layers, vocabulary and puzzles are read off the tensors' shapes. What shapes do not tell (`Settings`) comes from
the `all_config.yaml` that a published run leaves beside its checkpoint, the file's own metadata, or overrides.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from omegaconf import OmegaConf
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import safe_open
from torch import Tensor

from gram.checkpoints.folder import save_model
from gram.checkpoints.weights import check_same_shapes
from gram.config import ModelConfig, ObjectiveConfig, Recipe, SampleOptions, TaskConfig, describe
from gram.errors import GramError
from gram.models.layers import NORM_EPSILON, ROPE_BASE
from gram.models.reasoner import Reasoner
from gram.tasks import make_task

WRAPPERS = re.compile(r"^((weights|_orig_mod|model)\.)+")
"""Left in the names by torch.compile, the loss module and the golden files of our tests."""

TOKENS = "inner.embed_tokens.embedding_weight"
POSITIONS = "inner.embed_pos.embedding_weight"
PUZZLES = "inner.puzzle_emb.weights"
NAMES = {
    "encoder.tokens": TOKENS,
    "encoder.positions": POSITIONS,
    "encoder.puzzles": PUZZLES,
    "decoder.lm.": "inner.lm_head.",
    "decoder.halt.": "inner.q_head.",
    "low.blocks.": "inner.L_level.layers.",
    "high.blocks.": "inner.H_level.layers.",
    "mixer.qkv.": "self_attn.qkv_proj.",
    "mixer.out.": "self_attn.o_proj.",
    "mixer.gate_up.": "mlp_t.gate_up_proj.",
    "mixer.down.": "mlp_t.down_proj.",
    "channels.gate_up.": "mlp.gate_up_proj.",
    "channels.down.": "mlp.down_proj.",
    "h_init": "inner.H_init",
    "l_init": "inner.L_init",
}
"""Part of one of our names -> the same part of the published name."""


class Settings(BaseModel):
    """Settings that do not follow from the shapes, under their published names; other keys are ignored."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    H_cycles: int | None = Field(None, ge=1)
    """Latent transitions per supervision step [T]."""
    L_cycles: int | None = Field(None, ge=1)
    """Low-level updates per transition [K]."""
    halt_max_steps: int | None = Field(None, ge=1)
    """Supervision steps [N_sup]."""
    num_heads: int | None = Field(None, ge=1)
    pos_encodings: Literal["rope", "learned", "none"] | None = None
    seq_len: int | None = Field(None, ge=1)
    """Content tokens; the published runs take it from their data, so their `all_config.yaml` lacks it."""
    puzzle_emb_len: int | None = Field(None, ge=0)
    """Puzzle tokens; 0 means as few as hold the embedding. HRM always does that."""
    no_ACT_continue: bool = True
    """TRM: halt by sigmoid(q_halt) alone, without Q-learning."""
    loss_type: Literal["stablemax_cross_entropy", "softmax_cross_entropy"] = "stablemax_cross_entropy"
    # Constants of the networks: any other value must be refused, because the results would be wrong without a word.
    rms_norm_eps: float = Field(NORM_EPSILON, ge=NORM_EPSILON, le=NORM_EPSILON)
    rope_theta: float = Field(ROPE_BASE, ge=ROPE_BASE, le=ROPE_BASE)


def import_checkpoint(
    path: Path, kind: str, out: Path, *, task: str = "none", overrides: Mapping[str, object] | None = None
) -> Path:
    """Turn a published checkpoint into the new model folder `out`; `task` is the task that it was trained on."""
    if out.exists():
        raise GramError(f"{out} already exists: choose another folder with --out, or remove it.")
    known = None if task == "none" else make_task(task)
    model, config, objective = import_published(path, kind, overrides=overrides)
    if known is not None and (known.vocab_size, known.length) != (model.vocab_size, model.length):
        raise GramError(f"{path} was not trained on {task}: its vocabulary or length differs.")
    # The published evaluation runs every example to the last step, and a deterministic model has one trajectory.
    evaluation = SampleOptions(depth=config.supervision_steps, width=1)
    recipe = Recipe(task=TaskConfig(name=task), model=config, objective=objective, eval=evaluation)
    save_model(out, model, recipe, extra={"imported": {"file": path.name, "as": kind}})
    return out


def import_published(
    path: Path, kind: str, *, overrides: Mapping[str, object] | None = None
) -> tuple[Reasoner, ModelConfig, ObjectiveConfig]:
    """Read a published "trm" or "hrm": the model, and its sections of a recipe; `overrides` of `Settings` come last."""
    weights, embedded = _read(path)
    actual = "hrm" if any(name.startswith("inner.H_level.") for name in weights) else "trm"
    if TOKENS in weights and actual != kind:
        raise GramError(f"{path} holds a model of kind {actual}, not {kind}: import it as {actual}.")
    try:
        settings = _settings(path, embedded, overrides or {})
        config, length = _configure(weights, settings, path, hrm=kind == "hrm")
    except ValidationError as error:
        raise GramError(f"The configuration of {path} cannot be used: {describe(error)}.") from error
    model = Reasoner(config, vocab_size=len(weights[TOKENS]), length=length)
    _load(model, weights, path)
    loss: Literal["softmax", "stablemax"] = "softmax" if settings.loss_type.startswith("softmax") else "stablemax"
    # The published models have no value head, so there is nothing to teach it.
    objective = ObjectiveConfig(cross_entropy=loss, halt_weight=0.5, value_weight=0.0, heads_reach_core=True)
    return model.eval(), config, objective


def published_name(name: str) -> str | None:
    """Return the published name of one of our tensors; None for the value head, which the published models lack."""
    if name.startswith("decoder.value."):
        return None
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def _read(path: Path) -> tuple[dict[str, Tensor], str]:
    """Return the weights under their bare published names, and the file's own configuration as JSON."""
    if not path.is_file():
        raise GramError(f"There is no checkpoint file at {path}.")
    content, config = {}, "{}"
    try:
        with path.open("rb") as file:  # the published files have no suffix to go by
            is_safetensors = file.read(9)[8:] == b"{"  # eight bytes of length, then a JSON header
        if is_safetensors:
            with safe_open(path, framework="pt") as stored:
                content = {name: stored.get_tensor(name) for name in list(stored.keys())}
                config = (stored.metadata() or {}).get("config", config)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # both readers raise nearly anything on foreign bytes
        raise GramError(f"{path} is truncated, or neither a safetensors nor a torch file of weights alone.") from error
    pairs = content.items() if isinstance(content, dict) else [(None, content)]
    if not all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in pairs):
        raise GramError(f"{path} is not a published checkpoint, which maps names to tensors and holds nothing else.")
    # A file with `weights.` names keeps other things besides.
    chosen = [name for name in content if name.startswith("weights.")] or list(content)
    weights = {WRAPPERS.sub("", name): content[name].float() for name in chosen}
    if len(weights) < len(chosen):
        raise GramError(f"{path} holds some tensors twice, under different prefixes: keep one set of weights.")
    return weights, config


def _settings(path: Path, embedded: str, overrides: Mapping[str, object]) -> Settings:
    """Merge the configuration next to the checkpoint, the one in it, and the overrides, in this order."""
    unknown = sorted(overrides.keys() - Settings.model_fields.keys())
    if unknown:
        raise GramError(f"There is no setting '{unknown[0]}'. The settings are {', '.join(Settings.model_fields)}.")
    beside = [file for name in ("all_config.yaml", "config.json") if (file := path.parent / name).is_file()][:1]
    try:
        parts: list[Any] = [*(OmegaConf.to_container(OmegaConf.load(file)) for file in beside), json.loads(embedded)]
        merged: dict[str, Any] = {}
        for part in parts:
            arch = {**part, **part.get("arch", {})}
            merged |= {**arch, **arch.get("loss", {})}
    except Exception as error:  # those of YAML, OmegaConf, JSON and of wrong types have no narrower base
        raise GramError(f"The configuration in {[*beside, path][0]} is damaged, or has another format.") from error
    return Settings.model_validate(merged | dict(overrides))


def _configure(weights: dict[str, Tensor], settings: Settings, path: Path, *, hrm: bool) -> tuple[ModelConfig, int]:
    """Shapes and settings -> the configuration, and the number of content tokens."""
    _, dim = _shape(weights, TOKENS, path)
    layer = "inner.L_level.layers.0."
    _, channel_hidden = _shape(weights, f"{layer}mlp.down_proj.weight", path)
    mixing = "tokens" if f"{layer}mlp_t.down_proj.weight" in weights else "attention"
    positions, heads = settings.pos_encodings, settings.num_heads
    total, token_hidden = None, 1  # total: puzzle tokens and content tokens
    if mixing == "tokens":
        total, token_hidden = _shape(weights, f"{layer}mlp_t.down_proj.weight", path)
        positions, heads = "none", 1  # rotary embeddings and heads exist inside attention only
    if POSITIONS in weights:
        positions, (total, _) = "learned", _shape(weights, POSITIONS, path)
    puzzles, width = _shape(weights, PUZZLES, path) if PUZZLES in weights else (0, 0)
    needed = -(-width // dim)
    front, length = _lengths(settings, total, needed, hrm=hrm)
    told = settings.model_dump(include={"H_cycles", "L_cycles", "halt_max_steps"})
    told |= {"num_heads": heads, "pos_encodings": positions, "puzzle_emb_len": front}
    if front is not None or total is None:  # otherwise the one will give the other
        told["seq_len"] = length
    missing = [name for name, value in told.items() if value is None]
    if missing or front is None or length is None:
        raise GramError(
            f"{path} does not specify {', '.join(missing)}: put all_config.yaml next to it, or give overrides."
        )
    if front < needed or length < 1 or total not in (None, front + length):
        shapes = f"{total or 'any number of'} tokens, at least {needed} of them for the puzzle's embedding"
        raise GramError(f"puzzle_emb_len {front} and seq_len {length} do not fit {path}: it has {shapes}.")
    content = {
        "dim": dim,
        "shared": not hrm,
        "layers": len({name.split(".")[3] for name in weights if name.startswith("inner.L_level.layers.")}),
        "mixing": mixing,
        "mixing_norm": "tokens" if mixing == "tokens" else "channels",
        "heads": heads,
        "channel_hidden": channel_hidden,
        "token_hidden": token_hidden,
        "positions": positions,
        "puzzle_tokens": front,
        "puzzles": puzzles,
        "low_steps": settings.L_cycles,
        "transitions": settings.H_cycles,
        "supervision_steps": settings.halt_max_steps,
        "gradient": "call" if hrm else "transition",
        "guidance": "none",
        "readout": "first",
        "halting": "q_learning" if hrm or not settings.no_ACT_continue else "sigmoid",
    }
    return ModelConfig.model_validate(content), length


def _lengths(settings: Settings, total: int | None, needed: int, *, hrm: bool) -> tuple[int | None, int | None]:
    """Puzzle tokens (`needed` at least) and content tokens, as far as they follow from their total and each other."""
    front, length = settings.puzzle_emb_len, settings.seq_len
    if hrm or needed == 0 or front == 0:
        front = needed
    elif front is None and total is not None and length is not None:
        front = total - length
    if length is None and total is not None and front is not None:
        length = total - front
    return front, length


def _load(model: Reasoner, weights: dict[str, Tensor], path: Path) -> None:
    """Fill the model; every published tensor must be there, with the right shape, and no other."""
    expected = model.state_dict()
    if PUZZLES in weights:
        # The published model pads each embedding with zeros up to its puzzle tokens; here the table itself is padded.
        spare = expected["encoder.puzzles"].shape[1] - weights[PUZZLES].shape[1]
        weights = weights | {PUZZLES: F.pad(weights[PUZZLES], (0, spare))}
    names = {ours: published_name(ours) for ours in expected}
    shapes = {theirs: tuple(expected[ours].shape) for ours, theirs in names.items() if theirs is not None}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    check_same_shapes(f"{path} does not fit the model", found, shapes)
    # What the published models lack, the value head, stays as it starts: zero.
    model.load_state_dict(expected | {ours: weights[theirs] for ours, theirs in names.items() if theirs is not None})


def _shape(weights: dict[str, Tensor], name: str, path: Path) -> tuple[int, int]:
    """Return the shape of a matrix; raise `GramError` if it is missing."""
    if name not in weights or weights[name].ndim != 2:
        raise GramError(f"{path} is not a published HRM or TRM checkpoint: it has no matrix '{name}'.")
    return weights[name].shape[0], weights[name].shape[1]
