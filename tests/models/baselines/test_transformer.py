"""The backbone: causality, time modulation, patches, and the published numbers of parameters."""

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.testing import assert_close

from gram.config import ArConfig, D3pmConfig, DenoiserConfig, MdlmConfig, TransformerConfig
from gram.errors import GramError
from gram.models.baselines.ar import Autoregressive
from gram.models.baselines.d3pm import D3pm
from gram.models.baselines.mdlm import Mdlm
from gram.models.baselines.transformer import (
    Denoiser,
    Transformer,
    modulate,
    time_code,
)
from gram.models.layers import KeyValues

TINY = {"dim": 8, "layers": 2, "heads": 2, "hidden": 12}
PAPER_AR = {"dim": 384, "layers": 6, "heads": 6, "hidden": 1024}


def shaken(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with random weights everywhere: what starts at zero would hide mistakes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(0.4 * torch.randn(weight.shape, generator=generator))
    return model


@pytest.mark.parametrize("positions", ["learned", "rope", "both"])
def test_causal_states_depend_on_the_past_only(positions: str) -> None:
    model = shaken(Transformer(TransformerConfig(**TINY, positions=positions), 5, causal=True))
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    changed = x.clone()
    changed[:, 3] += 1
    before, after = model(x), model(changed)
    assert_close(before[:, :3], after[:, :3])
    assert not torch.isclose(before[:, 3:], after[:, 3:]).all(dim=-1).any()


def test_full_attention_sees_everything() -> None:
    model = shaken(Transformer(TransformerConfig(**TINY), 5))
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    changed = x.clone()
    changed[:, 4] += 1
    assert not torch.isclose(model(x), model(changed)).all(dim=-1).any()


@pytest.mark.parametrize("positions", ["learned", "rope", "both"])
def test_cache_gives_the_same_states(positions: str) -> None:
    model = shaken(Transformer(TransformerConfig(**TINY, positions=positions), 6, causal=True))
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(1))
    caches = model.empty_cache()
    parts = [model(part, caches=caches) for part in (x[:, :3], x[:, 3:4], x[:, 4:5], x[:, 5:])]
    assert_close(torch.cat(parts, dim=1), model(x))


def test_cache_refuses_several_tokens_later() -> None:
    cache, two = KeyValues(4), torch.zeros(1, 1, 2, 4)
    cache.extend(two, two)
    with pytest.raises(ValueError, match="one token at a time"):
        cache.extend(two, two)


def test_modulated_blocks_begin_as_the_identity() -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**TINY, positions="rope"), 5, condition=4)
    x, condition = torch.randn(2, 5, 8), torch.randn(2, 4)
    assert_close(model.blocks[0](x, model.rope, condition=condition), x)


def test_modulate_is_shift_and_scale() -> None:
    torch.manual_seed(0)
    x, shift, scale = torch.randn(2, 5, 8), torch.randn(2, 1, 8), torch.randn(2, 1, 8)
    assert_close(modulate(x, shift, scale), x * (1 + scale) + shift)


def test_time_codes_tell_neighbouring_steps_apart() -> None:
    codes = time_code(torch.arange(1001) / 1000)
    assert codes.shape == (1001, 256)
    assert (codes[1:] - codes[:-1]).norm(dim=-1).min() > 0.5


def test_denoiser_reads_input_noisy_output_and_time() -> None:
    model = shaken(Denoiser(DenoiserConfig(**TINY, time_dim=4), vocab_size=3, states=4, length=5))
    inputs, noisy, time = torch.zeros(1, 5).long(), torch.full((1, 5), 3), torch.zeros(1)
    first = model(inputs, noisy, time)
    assert first.shape == (1, 5, 3)
    for changed in ((inputs + 1, noisy, time), (inputs, noisy - 1, time), (inputs, noisy, time + 0.5)):
        assert not torch.isclose(first, model(*changed)).all()


def test_denoiser_begins_without_an_opinion() -> None:
    model = Denoiser(DenoiserConfig(**TINY), vocab_size=3, states=3, length=5)
    assert not model(torch.ones(2, 5).long(), torch.ones(2, 5).long(), torch.zeros(2)).any()


def test_image_denoiser_works_on_patches() -> None:
    config = DenoiserConfig(**TINY, time_dim=4, image=(4, 6))
    model = shaken(Denoiser(config, vocab_size=3, states=4, length=24))
    assert model.transformer.length == 6
    noisy = torch.randint(4, (2, 24), generator=torch.Generator().manual_seed(0))
    assert model(torch.zeros_like(noisy), noisy, torch.zeros(2)).shape == (2, 24, 3)


@pytest.mark.parametrize(
    ("build", "millions"),
    [
        (lambda: Autoregressive(ArConfig(**PAPER_AR), vocab_size=3, length=64), 10.6),
        (lambda: Mdlm(MdlmConfig(**PAPER_AR, time_dim=128), vocab_size=3, length=64), 12.6),
        (
            lambda: D3pm(D3pmConfig(dim=512, layers=3, heads=8, hidden=1536, time_dim=512), vocab_size=11, length=81),
            15.9,
        ),
        (
            lambda: D3pm(D3pmConfig(dim=768, layers=5, heads=12, hidden=2048, time_dim=768), vocab_size=11, length=81),
            55.1,
        ),
    ],
    ids=["AR", "MDLM", "D3PM small", "D3PM big"],
)
def test_paper_sizes(build: type[nn.Module], millions: float) -> None:
    with torch.device("meta"):  # shapes without numbers
        model = build()
    assert sum(weight.numel() for weight in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.parametrize(
    "changes", [{"dim": 10, "heads": 2}, {"layers": 0}, {"width": 3}, {"image": (3, 4)}, {"time_dim": -1}]
)
def test_config_refuses(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DenoiserConfig(**changes)


def test_image_of_another_size_is_refused() -> None:
    with pytest.raises(GramError, match="does not have 16 pixels"):
        Denoiser(DenoiserConfig(**TINY, image=(4, 6)), vocab_size=3, states=3, length=16)
