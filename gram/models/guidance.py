"""Stochastic guidance: epsilon ~ N(mu(u), sigma(u)^2 I), its prior, its posterior, and the KL between them."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gram.config import ModelConfig
from gram.models.images import PatchEncoder
from gram.models.layers import Embedding, SwiGLU
from gram.models.symbols import Symbols

OUTPUT_SCALE = 0.1
"""The heads start near mean 0 and the initial sigma, so that early training resembles the deterministic model."""


class Gaussian(NamedTuple):
    """A diagonal Gaussian over epsilon."""

    mean: Tensor
    """[batch, tokens, dim]"""
    log_sigma: Tensor
    """[batch, tokens, dim]"""

    def sample(self, noise: Tensor) -> Tensor:
        """Draw epsilon, reparameterised, from standard-normal `noise`."""
        return self.mean + self.log_sigma.exp() * noise

    def scale_gradient(self, factor: float) -> "Gaussian":
        """Return the same distribution with its gradient multiplied by `factor`."""
        return Gaussian(*(torch.lerp(p.detach(), p, factor) for p in self))


def kl_divergence(q: Gaussian, p: Gaussian) -> Tensor:
    """Return KL(q || p), summed over the channels: [batch, tokens]."""
    log_ratio = p.log_sigma - q.log_sigma
    precision = torch.exp(-2 * p.log_sigma)
    variance_ratio = torch.exp(-2 * log_ratio)
    return (log_ratio + 0.5 * (variance_ratio + (q.mean - p.mean).square() * precision - 1)).sum(dim=-1)


class GaussianHead(nn.Module):
    """Two SwiGLU MLPs: mu and log sigma."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.mean = SwiGLU(config.dim, config.guidance_hidden)
        self.log_sigma = SwiGLU(config.dim, config.guidance_hidden)
        self.mechanism = config.guidance
        self.offset = config.log_sigma_init
        self.range = config.log_sigma_range
        with torch.no_grad():
            self.mean.down.weight *= OUTPUT_SCALE
            self.log_sigma.down.weight *= OUTPUT_SCALE

    def forward(self, x: Tensor) -> Gaussian:
        """Return the distribution of epsilon for x [batch, tokens, dim]; the ablations of the mechanism are here."""
        if self.mechanism == "guide_only":
            # Variance 0 has no finite KL: unit sigma makes the KL half the squared distance of the means, and
            # `Guidance` adds no noise.
            mean = self.mean(x)
            return Gaussian(mean, torch.zeros_like(mean))
        log_sigma = (self.log_sigma(x) + self.offset).clamp(*self.range)
        mean = torch.zeros_like(log_sigma) if self.mechanism == "stochasticity_only" else self.mean(x)
        return Gaussian(mean, log_sigma)


class Transition(NamedTuple):
    """The end of a latent transition: the new h, and the distributions of epsilon."""

    h: Tensor
    """[batch, tokens, dim]"""
    prior: Gaussian | None = None
    """p(epsilon | u); None for models without guidance heads"""
    posterior: Gaussian | None = None
    """q(epsilon | u, y), if targets were given"""


class NoGuidance(nn.Module):
    """A deterministic transition: h = u."""

    noisy = False
    learned = False

    def embed_targets(self, targets: Tensor) -> None:
        """Return nothing: there is no posterior that could see the targets."""

    def forward(self, u: Tensor, e_y: None, noise: Tensor | None) -> Transition:
        """Return u [batch, tokens, dim] itself."""
        return Transition(u)


class FixedNoise(NoGuidance):
    """Guidance without heads: epsilon ~ N(0, sigma^2 I) with a constant sigma."""

    noisy = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.sigma = math.exp(config.log_sigma_init)

    def forward(self, u: Tensor, e_y: None, noise: Tensor | None) -> Transition:
        """Return h = u + epsilon; without noise, u itself."""
        return Transition(u if noise is None else torch.add(u, noise, alpha=self.sigma))


class Guidance(nn.Module):
    """Prior p(epsilon | u) and posterior q(epsilon | u, y)."""

    learned = True

    def __init__(self, config: ModelConfig, vocab_size: int, symbols: Symbols | None = None) -> None:
        super().__init__()
        self.mechanism = config.guidance
        self.noisy = config.guidance != "guide_only"
        self.puzzle_tokens = config.puzzle_tokens
        self.symbols = symbols
        self.prior = GaussianHead(config)
        self.posterior = GaussianHead(config)
        self.targets: Embedding | PatchEncoder
        if config.image is not None:
            self.targets = PatchEncoder(config.dim, config.image, config.patch)
        else:
            # One row more than the vocabulary: the last one stands for "no label here".
            self.targets = Embedding((vocab_size if symbols is None else symbols.kinds) + 1, config.dim)

    def embed_targets(self, targets: Tensor) -> Tensor:
        """Embed targets [batch, length], negative where unlabelled, as e_y [batch, positions, dim]."""
        if isinstance(self.targets, PatchEncoder):
            return F.pad(self.targets(targets), (0, 0, self.puzzle_tokens, 0))
        unlabelled = self.targets.num_embeddings - 1
        known = targets.clamp_min(0)
        if self.symbols is not None:
            known, targets = self.symbols.relative(known), targets.repeat_interleave(self.symbols.count, dim=1)
        e_y = self.targets(torch.where(targets < 0, unlabelled, known))
        if self.puzzle_tokens:
            front = self.targets.weight[unlabelled].expand(len(targets), self.puzzle_tokens, -1)
            e_y = torch.cat((front, e_y), dim=1)
        return e_y  # type: ignore[no-any-return]

    def forward(self, u: Tensor, e_y: Tensor | None, noise: Tensor | None) -> Transition:
        """Return h = u + epsilon, with epsilon from the posterior if e_y is given, else from the prior.

        Without noise epsilon is the mean. The ablation `direct` takes epsilon itself as the new state.
        """
        prior = self.prior(u)
        posterior = None if e_y is None else self.posterior(u + e_y)
        chosen = prior if posterior is None else posterior
        epsilon = chosen.mean if noise is None or not self.noisy else chosen.sample(noise)
        return Transition(epsilon if self.mechanism == "direct" else u + epsilon, prior, posterior)


def build_guidance(config: ModelConfig, vocab_size: int, symbols: Symbols | None) -> NoGuidance | Guidance:
    """Build the guidance that the configuration selects."""
    if config.guidance == "none":
        return NoGuidance()
    return FixedNoise(config) if config.guidance == "fixed" else Guidance(config, vocab_size, symbols)
