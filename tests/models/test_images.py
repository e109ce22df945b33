"""Images: patches in, pixels out, everything in its place."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gram.config import ModelConfig
from gram.models.images import PatchDecoder, PatchEncoder
from gram.models.reasoner import Reasoner

ModelBuilder = Callable[..., Reasoner]


@pytest.mark.parametrize("patch", [2, 4])
def test_a_pixel_moves_the_patches_within_its_reach_only(patch: int) -> None:
    torch.manual_seed(0)
    encoder = PatchEncoder(8, (12, 16), patch)
    # Group norm looks at the whole image; without it the reach is that of two 5 x 5 convolutions: 4 pixels.
    for block in encoder.blocks:
        block[2] = torch.nn.Identity()
    black = torch.ones(1, 12 * 16, dtype=torch.long)
    dotted = black.clone()
    row, column = 6, 9
    dotted[0, row * 16 + column] = 2
    moved = (encoder(black) != encoder(dotted)).any(dim=-1).view(12 // patch, 16 // patch)
    for y, x in np.ndindex(*moved.shape):
        top, left, last = patch * y, patch * x, patch - 1
        near = top + last >= row - 4 and top <= row + 4 and left + last >= column - 4 and left <= column + 4
        assert bool(moved[y, x]) == near


def test_unlabelled_and_blank_pixels_are_neither_black_nor_white() -> None:
    encoder = PatchEncoder(8, (2, 2))
    codes = torch.tensor([[0] * 4, [-100] * 4, [1] * 4, [2] * 4])
    blank, unlabelled, black, white = encoder(codes)
    assert_close(blank, unlabelled)
    assert not torch.allclose(blank, black)
    assert not torch.allclose(blank, white)


def test_equal_inputs_are_encoded_once_with_the_same_result_and_gradient(tiny_model: ModelBuilder) -> None:
    torch.manual_seed(0)
    encoder = tiny_model(image=(4, 6), length=24, vocab_size=3).encoder
    image = torch.randint(1, 3, (1, 24))
    together, alone = encoder(image.expand(3, -1)), torch.cat([encoder(image) for _ in range(3)])
    assert_close(together, alone)
    weights = list(encoder.parameters())
    for a, b in zip(
        *(torch.autograd.grad(out.square().sum(), weights) for out in (together, alone)),
        strict=True,
    ):
        assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("patch", [2, 3])
def test_the_pixels_of_a_patch_come_from_its_state(patch: int) -> None:
    torch.manual_seed(0)
    decoder = PatchDecoder(8, 3, (2 * patch, 3 * patch), patch)
    h = torch.randn(2, 6, 8)
    changed = h.clone()
    changed[0, 4] += 1.0  # the second row of patches, its middle
    moved = (decoder(h) != decoder(changed)).any(dim=-1).view(2, 2 * patch, 3 * patch)
    inside = torch.zeros_like(moved)
    inside[0, patch:, patch : 2 * patch] = True
    assert torch.equal(moved, inside)


@pytest.mark.parametrize("guidance", ["gaussian", "none"])
def test_a_reasoner_over_images_has_a_quarter_of_the_positions(tiny_model: ModelBuilder, guidance: str) -> None:
    model = tiny_model(image=(4, 6), length=24, vocab_size=3, guidance=guidance)
    pixels = torch.randint(1, 3, (2, 24))
    e_y = model.guidance.embed_targets(pixels)
    state = model.initial_state(2)
    assert state.h.shape[1] == model.tokens == 6
    output = model.step(state, model.encoder(torch.zeros_like(pixels)), lambda _t: torch.randn(2, 6, 8), e_y=e_y)
    logits = model.decoder.logits(output.state.h)
    assert logits.shape == (2, 24, 3)
    logits.sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "lm" in name or "encoder" in name)


@pytest.mark.parametrize("shape", [(3, 4), (4, 0), (5, 5)])
def test_an_odd_image_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="2 x 2 patches"):
        ModelConfig(image=shape)
