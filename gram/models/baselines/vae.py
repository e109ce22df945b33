"""Variational autoencoder for binary images: p(z) = N(0, I), p(pixel | z) Bernoulli, q(z | image) Gaussian."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gram.config import Section, VaeConfig
from gram.errors import GramError
from gram.models.base import Metrics
from gram.models.baselines.base import FIRST, Baseline, hold_unlabelled
from gram.models.guidance import Gaussian, kl_divergence
from gram.models.images import BLACK, WHITE
from gram.models.losses import labelled_count
from gram.models.noise import derive, normal, uniform
from gram.tasks.base import IGNORE, Examples, Task


def _perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs)
    )


class Vae(Baseline):
    """A VAE of images [rows, pixels] of the tokens BLACK and WHITE; of the input only the row count is used."""

    settings = VaeConfig
    config: VaeConfig
    supported = frozenset({"temperature", "width", "seed"})

    def __init__(self, config: VaeConfig, *, vocab_size: int, length: int) -> None:
        super().__init__(config, vocab_size=vocab_size, length=length)
        if vocab_size != WHITE + 1:
            raise GramError(f"A VAE is for images of tokens {BLACK} and {WHITE}, not for {vocab_size} tokens.")
        self.encoder = _perceptron(length, config.hidden, 2 * config.latent)
        self.decoder = _perceptron(config.latent, config.hidden, length)

    @classmethod
    def check_task(cls, config: Section, objective: Section, task: Task, examples: Examples) -> None:
        """Raise `GramError` for a task with inputs."""
        if task.scoring != "generation":
            raise GramError(f"A VAE is unconditional and cannot solve the puzzles of {task.name}.")

    def posterior(self, targets: Tensor) -> Gaussian:
        """Return q(z | image) [rows, latent] for targets [rows, pixels]; a pixel without label is grey."""
        pixels = (targets == WHITE).float() - (targets == BLACK).float()
        return Gaussian(*self.encoder(pixels).chunk(2, dim=-1))

    def elbo_terms(self, targets: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return -log p(image | z) and KL(q || N(0, I)) [rows] for targets [rows, pixels] and noise [rows, latent]."""
        q = self.posterior(targets)
        logits = self.decoder(q.sample(noise))
        costs = F.binary_cross_entropy_with_logits(logits, (targets == WHITE).float(), reduction="none")
        zeros = torch.zeros_like(q.mean)
        return torch.where(targets == IGNORE, 0.0, costs).sum(dim=-1), kl_divergence(q, Gaussian(zeros, zeros))

    def loss(self, inputs: Tensor, targets: Tensor, key: Tensor) -> tuple[Tensor, Metrics]:
        """Return reconstruction + beta KL per labelled pixel of targets [rows, pixels], mean over rows, and metrics."""
        reconstruction, kl = self.elbo_terms(targets, self._noise(key, 0))
        loss = ((reconstruction + self.config.beta * kl) / labelled_count(targets)).mean()
        nats = (reconstruction + kl).mean().detach()
        return loss, {"loss": loss.detach(), "nats": nats, "kl": kl.mean().detach()}

    @torch.no_grad()
    def log_likelihood_bound(self, inputs: Tensor, targets: Tensor, *, key: Tensor, samples: int = 16) -> Tensor:
        """Return the ELBO [rows] in nats, mean over `samples` draws of z."""
        total = torch.zeros(len(targets), device=targets.device)
        for number in range(samples):
            total -= sum(self.elbo_terms(targets, self._noise(key, number)))
        return total / samples

    @torch.no_grad()
    def draw_outputs(
        self, inputs: Tensor, *, key: Tensor, labelled: Tensor | None = None, temperature: float = 1.0
    ) -> Tensor:
        """Draw images [rows, pixels] for inputs [rows, pixels]: z from the prior, then every pixel by itself.

        The temperature is that of the pixels, given z; 0 takes the more probable colour.
        """
        logits = self.decoder(self._noise(key, FIRST))
        chance = uniform(derive(key, 0), self.length)
        white = logits > 0 if temperature == 0 else chance < (logits / temperature).sigmoid()
        return hold_unlabelled(torch.where(white, WHITE, BLACK), labelled)

    def _noise(self, key: Tensor, label: int) -> Tensor:
        return normal(derive(key, label), self.config.latent)
