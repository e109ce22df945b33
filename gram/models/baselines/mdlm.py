"""MDLM: masked diffusion (Sahoo et al., 2024), in its substitution (SUBS) parametrisation and continuous time.

Forward: at time t in [0, 1] every token of the output is MASK with probability 1 - alpha_t = t (the log-linear
schedule). Backward: the network predicts the clean tokens; it never predicts MASK (zero masking probabilities) and
leaves a token that is not MASK as it is (carry-over). The bound is then

    -log p(x) <= E_t [ 1/t * sum over masked positions of -log p(x_i | x_t) ],      1/t = -alpha'_t / (1 - alpha_t).
"""

import torch
from torch import Tensor, nn

from gram.config import MdlmConfig
from gram.errors import GramError
from gram.models.base import Metrics
from gram.models.baselines.base import Baseline, hold_unlabelled, reveal, split_targets, spread_samples
from gram.models.baselines.transformer import Denoiser
from gram.models.losses import labelled_count
from gram.models.noise import derive, spread, uniform


class Mdlm(Baseline):
    """A denoiser that fills in masked tokens, a few at a time."""

    settings = MdlmConfig
    config: MdlmConfig
    supported = frozenset({"steps", "width", "seed"})

    def __init__(self, config: MdlmConfig, *, vocab_size: int, length: int) -> None:
        super().__init__(config, vocab_size=vocab_size, length=length)
        self.mask = vocab_size
        self.denoiser: nn.Module = Denoiser(config, vocab_size=vocab_size, states=vocab_size + 1, length=length)

    @property
    def sampling_steps(self) -> int:
        """The default number of sampling steps."""
        return self.config.sample_steps

    def log_probabilities(self, inputs: Tensor, noisy: Tensor, time: Tensor) -> Tensor:
        """Return log p(token) [rows, length, vocabulary], without MASK; inputs, noisy [rows, length], time [rows]."""
        seen = time if self.config.time_conditioning else torch.zeros_like(time)
        predicted = self.denoiser(inputs, noisy, seen).float().log_softmax(dim=-1)
        masked = (noisy == self.mask)[..., None]
        kept = torch.full_like(predicted, -torch.inf)
        kept.scatter_(-1, torch.where(masked, 0, noisy[..., None]), 0.0)
        return torch.where(masked, predicted, kept)

    def add_noise(self, tokens: Tensor, labelled: Tensor, time: Tensor, key: Tensor) -> Tensor:
        """Turn each labelled one of tokens [rows, length] into MASK with probability time [rows]."""
        masked = uniform(key, self.length) < time[:, None]
        return torch.where(masked & labelled, self.mask, tokens)

    def weighted_loss(self, inputs: Tensor, tokens: Tensor, noisy: Tensor, time: Tensor) -> Tensor:
        """Return the bound's integrand [rows]: 1/t times the sum over masked positions of -log p(token), in nats."""
        chosen = self.log_probabilities(inputs, noisy, time).gather(-1, tokens[..., None])[..., 0]
        # A token that is not masked costs nothing: it is carried over.
        return -torch.where(noisy == self.mask, chosen, 0.0).sum(dim=-1) / time

    def loss(self, inputs: Tensor, targets: Tensor, key: Tensor) -> tuple[Tensor, Metrics]:
        """Return the bound per labelled token at one time per row, and metrics; inputs, targets [rows, length].

        Successive examples see all times evenly.
        """
        tokens, labelled = split_targets(targets)
        least = self.config.smallest_time
        time = least + (1 - least) * spread(key)
        nats = self.weighted_loss(inputs, tokens, self.add_noise(tokens, labelled, time, derive(key, 0)), time)
        loss = (nats / labelled_count(targets)).mean()
        return loss, {"loss": loss.detach(), "nats": nats.mean().detach()}

    @torch.no_grad()
    def log_likelihood_bound(self, inputs: Tensor, targets: Tensor, *, key: Tensor, samples: int = 128) -> Tensor:
        """Return -NELBO [rows] in nats, from `samples` times per row, spread evenly over all of (0, 1]."""
        tokens, labelled = split_targets(targets)
        total = torch.zeros(len(inputs), device=inputs.device)
        for number, lower in enumerate(spread_samples(key, samples)):
            time = 1 - lower  # in (0, 1]: nothing is divided by 0
            noisy = self.add_noise(tokens, labelled, time, derive(key, number))
            total += self.weighted_loss(inputs, tokens, noisy, time)
        return -total / samples

    @torch.no_grad()
    def draw_outputs(
        self,
        inputs: Tensor,
        *,
        key: Tensor,
        labelled: Tensor | None = None,
        steps: int | None = None,
    ) -> Tensor:
        """Draw outputs [rows, length] for inputs [rows, length] by ancestral sampling.

        From time t to s a MASK is replaced with probability (t - s) / t.
        """
        steps = self.config.sample_steps if steps is None else steps
        if steps < 1:
            raise GramError(f"A sampler needs at least one step, not {steps}.")
        noisy = hold_unlabelled(torch.full_like(inputs, self.mask), labelled)
        for step in range(steps, 0, -1):

            def predict(index: Tensor, noisy: Tensor = noisy, time: float = step / steps) -> Tensor:
                times = torch.full((len(index),), time, device=inputs.device)
                return self.log_probabilities(inputs[index], noisy[index], times).exp()

            noisy = reveal(noisy, self.mask, 1 / step, predict, derive(key, step))
        return noisy
