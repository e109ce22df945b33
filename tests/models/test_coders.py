"""What stands around the recursion: the encoder, the decoder, and the halt and value heads."""

import math
from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close

from gram.config import ModelConfig
from gram.models.coders import HALT_BIAS, Decoder, Encoder, Readout, sinusoid
from gram.models.reasoner import Reasoner
from tests.models.helpers import example, noises

ModelBuilder = Callable[..., Reasoner]


def test_encoder_is_the_scaled_embedding(tiny_config: Callable[..., ModelConfig]) -> None:
    inputs = torch.tensor([[0, 4, 4], [1, 2, 3]])
    plain = Encoder(tiny_config(positions="none"), vocab_size=5, length=3)
    assert_close(plain(inputs), math.sqrt(8) * plain.tokens[inputs])
    learned = Encoder(tiny_config(positions="learned"), vocab_size=5, length=3)
    assert_close(learned(inputs), math.sqrt(8) * math.sqrt(0.5) * (learned.tokens[inputs] + learned.positions))


@pytest.mark.parametrize("positions", ["none", "learned"])
def test_encoder_gives_unit_variance(tiny_config: Callable[..., ModelConfig], positions: str) -> None:
    torch.manual_seed(0)
    encoder = Encoder(tiny_config(dim=256, positions=positions), vocab_size=50, length=50)
    assert float(encoder(torch.arange(50)[None]).detach().std()) == pytest.approx(1, abs=0.03)


def test_a_narrow_puzzle_embedding_fills_its_tokens_with_zeros(tiny_model: ModelBuilder) -> None:
    model = tiny_model(puzzle_tokens=3, puzzles=4, puzzle_width=10)
    torch.nn.init.normal_(model.encoder.puzzles)
    torch.nn.init.zeros_(model.encoder.positions)
    front = model.encoder(torch.zeros(2, model.length, dtype=torch.long), torch.tensor([1, 3]))[:, :3].flatten(1)
    assert front[:, :10].abs().min() > 0
    assert not front[:, 10:].any()


def test_puzzle_tokens_stand_in_front_and_are_not_decoded(tiny_model: ModelBuilder) -> None:
    model = tiny_model(puzzle_tokens=2, puzzles=3)
    torch.nn.init.normal_(model.encoder.puzzles)
    inputs, targets = example(model, 2)
    with pytest.raises(ValueError, match="puzzle_ids"):
        model.encoder(inputs)
    first, second = (model.encoder(inputs, torch.tensor(ids)).detach() for ids in ([0, 1], [2, 1]))
    assert first.shape == (2, 2 + 6, 8)
    assert torch.equal(first[:, 2:], second[:, 2:])
    assert torch.equal(first[1], second[1])
    assert not torch.allclose(first[0, :2], second[0, :2])
    h = model.step(
        model.initial_state(2), first, noises(model, 2, 2).__getitem__, e_y=model.guidance.embed_targets(targets)
    ).state.h
    assert model.decoder.logits(h).shape == (2, 6, model.vocab_size)
    changed = h.clone()
    changed[:, :2] = 0
    assert torch.equal(model.decoder.logits(changed), model.decoder.logits(h))


@pytest.mark.parametrize("image", [None, (4, 4)])
def test_puzzle_tokens_without_puzzles_are_zeros_that_the_heads_read(
    tiny_config: Callable[..., ModelConfig], image: tuple[int, int] | None
) -> None:
    config = tiny_config(dim=64, heads=1, puzzle_tokens=2, positions="none", readout="first", image=image)
    length, positions = (16, 4) if image else (6, 6)
    model = Reasoner(config, vocab_size=3, length=length)
    assert model.encoder.puzzles is None
    inputs = torch.ones(3, length, dtype=torch.long)
    e_x = model.encoder(inputs)
    assert e_x.shape == (3, 2 + positions, 64)
    assert not e_x[:, :2].any()
    assert e_x[:, 2:].detach().abs().amin(dim=(1, 2)).gt(0).all()
    noise = torch.zeros(config.transitions, *e_x.shape)
    e_y = model.guidance.embed_targets(inputs)
    h = model.step(model.initial_state(3), e_x, noise.__getitem__, e_y=e_y).state.h
    assert model.decoder.logits(h).shape == (3, length, 3)
    torch.nn.init.normal_(model.decoder.halt.weight)
    content, first = h.clone(), h.clone()
    content[:, 1:] = 0
    first[:, 0] = 0
    assert torch.equal(model.decoder.readout(content).q_halt, model.decoder.readout(h).q_halt)
    assert not torch.equal(model.decoder.readout(first).q_halt, model.decoder.readout(h).q_halt)


@pytest.mark.parametrize("readout", ["first", "pooled"])
def test_readout_of_a_new_model_says_not_solved(tiny_config: Callable[..., ModelConfig], readout: str) -> None:
    decoder = Decoder(tiny_config(readout=readout), vocab_size=5)
    with torch.no_grad():
        found = decoder.readout(torch.randn(4, 6, 8))
    assert torch.equal(found.q_halt, torch.full((4,), HALT_BIAS))
    assert torch.equal(found.value, torch.zeros(4))


def test_readout_reads_the_first_token_or_all_of_them(tiny_model: ModelBuilder) -> None:
    for readout, reads_last in (("first", False), ("pooled", True)):
        decoder = tiny_model(readout=readout).decoder
        h = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
        (gradient,) = torch.autograd.grad(sum(part.sum() for part in decoder.readout(h)), h)
        assert bool(gradient[:, 0].abs().max() > 0)
        assert bool(gradient[:, 1:].abs().max() > 0) == reads_last


def test_halt_decision_in_both_forms(tiny_model: ModelBuilder) -> None:
    readout = Readout(torch.tensor([-1.0, 0.5, 2.0]), torch.tensor([-2.0, 1.0, 1.0]), torch.zeros(3))
    assert tiny_model(halting="sigmoid").wants_to_halt(readout).tolist() == [False, True, True]
    assert tiny_model(halting="q_learning").wants_to_halt(readout).tolist() == [True, False, True]


@pytest.mark.parametrize("dim", [2, 7, 16])
def test_sinusoid_is_bounded_and_different_at_every_depth(dim: int) -> None:
    codes = sinusoid(torch.arange(300), dim)
    assert codes.shape == (300, dim)
    assert float(codes.abs().max()) <= 1
    distances = torch.cdist(codes.double(), codes.double(), compute_mode="donot_use_mm_for_euclid_dist")
    assert float((distances + torch.eye(300)).min()) > 1e-3
    for k in range((dim + 1) // 2):
        frequency = 10000 ** (-k / ((dim + 1) // 2))
        assert float(codes[17, k]) == pytest.approx(math.sin(17 * frequency), abs=1e-5)
