"""The variational autoencoder against torch.distributions."""

from collections.abc import Callable

import pytest
import torch
from torch.distributions import Bernoulli, Independent, Normal, kl_divergence
from torch.testing import assert_close

from gram.config import VaeConfig
from gram.errors import GramError
from gram.models.baselines.vae import Vae
from gram.models.images import BLACK, WHITE
from gram.tasks.base import IGNORE
from tests.models.baselines.helpers import keys

PIXELS = 16


@pytest.fixture
def model() -> Vae:
    torch.manual_seed(0)
    return Vae(VaeConfig(hidden=32, latent=4), vocab_size=3, length=PIXELS)


@pytest.fixture
def images(generator: torch.Generator) -> torch.Tensor:
    return torch.randint(BLACK, WHITE + 1, (8, PIXELS), generator=generator)


def test_terms_are_those_of_torch(model: Vae, images: torch.Tensor) -> None:
    noise = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    reconstruction, kl = model.elbo_terms(images, noise)
    mean, log_sigma = model.encoder(torch.where(images == WHITE, 1.0, -1.0)).chunk(2, dim=-1)
    q = Independent(Normal(mean, log_sigma.exp()), 1)
    assert_close(kl, kl_divergence(q, Independent(Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)))
    pixels = Independent(Bernoulli(logits=model.decoder(mean + log_sigma.exp() * noise)), 1)
    assert_close(reconstruction, -pixels.log_prob((images == WHITE).float()))


def test_loss_is_the_negative_elbo_per_pixel(model: Vae, images: torch.Tensor) -> None:
    loss, metrics = model.loss(images, images, keys(len(images), 1))
    bound = model.log_likelihood_bound(images, images, key=keys(len(images), 1), samples=1)
    assert_close(loss.detach(), -bound.mean() / PIXELS)
    assert_close(metrics["nats"], -bound.mean())


def test_beta_weighs_the_kl(images: torch.Tensor) -> None:
    losses = []
    for beta in (0.0, 1.0, 3.0):
        torch.manual_seed(0)
        model = Vae(VaeConfig(hidden=32, latent=4, beta=beta), vocab_size=3, length=PIXELS)
        loss, metrics = model.loss(images, images, keys(len(images), 1))
        losses.append(loss.detach())
    assert_close(losses[2] - losses[0], 3 * metrics["kl"] / PIXELS)
    assert_close(losses[1] - losses[0], metrics["kl"] / PIXELS)


def test_elbo_is_below_the_likelihood(model: Vae, images: torch.Tensor, generator: torch.Generator) -> None:
    bound = model.log_likelihood_bound(images, images, key=keys(len(images)), samples=500)
    logits = model.decoder(torch.randn(20_000, 4, generator=generator))
    for image, elbo in zip(images, bound, strict=True):
        given_z = Independent(Bernoulli(logits=logits), 1).log_prob((image == WHITE).float())
        assert elbo < given_z.logsumexp(dim=0) - torch.tensor(20_000.0).log()


def test_pixels_without_label_cost_nothing(model: Vae, images: torch.Tensor) -> None:
    noise = torch.zeros(8, 4)
    hidden = images.clone()
    hidden[:, 3] = IGNORE
    logits = model.decoder(model.posterior(hidden).mean)
    costs = -Bernoulli(logits=logits).log_prob((images == WHITE).float())
    costs[:, 3] = 0
    assert_close(model.elbo_terms(hidden, noise)[0], costs.sum(dim=1))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_samples_are_black_and_white(temperature: float) -> None:
    torch.manual_seed(0)
    model = Vae(VaeConfig(hidden=32, latent=4), vocab_size=3, length=PIXELS)
    labelled = torch.ones(PIXELS, dtype=torch.bool)
    labelled[2] = False
    drawn = model.draw_outputs(torch.zeros(50, PIXELS).long(), key=keys(50), labelled=labelled, temperature=temperature)
    assert set(drawn[:, labelled].unique().tolist()) == {BLACK, WHITE}
    assert not drawn[:, 2].any()


def test_samples_follow_the_decoder(model: Vae, generator: torch.Generator) -> None:
    drawn = model.draw_outputs(torch.zeros(20_000, PIXELS).long(), key=keys(20_000))
    expected = model.decoder(torch.randn(20_000, 4, generator=generator)).sigmoid().mean(dim=0)
    assert_close((drawn == WHITE).float().mean(dim=0), expected.detach(), atol=0.015, rtol=0)


def test_other_vocabularies_are_refused() -> None:
    with pytest.raises(GramError, match="images"):
        Vae(VaeConfig(), vocab_size=11, length=81)


def test_learns(model: Vae, generator: torch.Generator, learns: Callable[..., tuple[float, float]]) -> None:
    images = torch.randint(BLACK, WHITE + 1, (2, PIXELS), generator=generator).repeat(32, 1)
    first, last = learns(model, torch.zeros_like(images), images, steps=300)
    assert last < 0.4 * first  # two images: the best possible is log 2 = 0.7 nats of about 11
