"""D3PM: diffusion over tokens in T discrete steps (Austin et al., 2021), with the network predicting x_0.

    q(x_t | x_{t-1}) = (1 - beta_t) [x_t = x_{t-1}] + beta_t pi(x_t),      alpha_t = product of (1 - beta_s) for s <= t

with pi uniform over the vocabulary, or all on MASK (absorbing). Products of such matrices have the same form, so any
step from s to t is one of them, with 1 - beta = alpha_t / alpha_s: that is all that striding takes.
"""

import math
from functools import cached_property
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gram.config import D3pmConfig, SampleOptions
from gram.errors import GramError
from gram.models.base import Metrics
from gram.models.baselines.base import (
    FIRST,
    PADDING,
    Baseline,
    draw,
    hold_unlabelled,
    reveal,
    split_targets,
    spread_samples,
)
from gram.models.baselines.transformer import Denoiser
from gram.models.losses import labelled_count
from gram.models.noise import derive, spread, uniform
from gram.tasks.base import Tokens

Kind = Literal["uniform", "absorbing"]
COSINE_OFFSET = 0.008
LARGEST_BETA = 0.999
TINY = 1e-37
"""Stands for a probability of 0 inside a logarithm; about the smallest normal number of float32."""


def betas(kind: Kind, steps: int) -> Tensor:
    """Return beta_1..beta_T [steps] in float64, as published: cosine for uniform, 1 / (T - t + 1) for absorbing."""
    if kind == "absorbing":
        return 1 / torch.arange(steps, 0, -1, dtype=torch.float64)
    time = torch.arange(steps + 1, dtype=torch.float64) / steps
    alphas = torch.cos((time + COSINE_OFFSET) / (1 + COSINE_OFFSET) * math.pi / 2)
    return (1 - alphas[1:] / alphas[:-1]).clamp_max(LARGEST_BETA)


class Transitions:
    """The noise: q(x_t | x_0) and q(x_s | x_t, x_0) for any steps s < t, in closed form."""

    def __init__(self, kind: Kind, *, vocab_size: int, steps: int) -> None:
        self.kind, self.steps, self.vocab_size = kind, steps, vocab_size
        self.states = vocab_size + (kind == "absorbing")
        # In float64: near t = 0 the uniform kind's beta is a difference of two numbers close to 1.
        self.alphas = torch.cat((torch.ones(1, dtype=torch.float64), (1 - betas(kind, steps)).cumprod(dim=0)))
        """[steps + 1] the chance that nothing has happened to a token up to step t"""

    def stationary(self, like: Tensor) -> Tensor:
        """Return pi [states], on the device of `like`."""
        if self.kind == "uniform":
            return torch.full((self.states,), 1 / self.states, device=like.device)
        return F.one_hot(torch.tensor(self.vocab_size, device=like.device), self.states).float()

    def marginal(self, tokens: Tensor, t: Tensor) -> Tensor:
        """Return q(x_t | x_0) [rows, length, states] for tokens x_0 [rows, length] and t [rows]."""
        kept, moved = self._chances(torch.zeros_like(t), t)
        return kept * F.one_hot(tokens, self.states) + moved * self.stationary(tokens)

    def log_posterior(self, noisy: Tensor, log_x0: Tensor, s: Tensor, t: Tensor) -> Tensor:
        """Return log q(x_s | x_t, x_0) [rows, length, states], x_0 known or predicted.

        noisy x_t [rows, length], log_x0 [rows, length, vocabulary] log-probabilities of x_0, s < t [rows]. For a
        predicted x_0 this is the paper's p(x_s | x_t), proportional to the sum over x_0 of q(x_s, x_t | x_0) p(x_0).
        """
        pi = self.stationary(noisy)
        kept, moved = self._chances(s, t)
        likelihood = kept * F.one_hot(noisy, self.states) + moved * pi[noisy][..., None]  # q(x_t | x_s) for all x_s
        kept, moved = self._chances(torch.zeros_like(s), s)
        log_x0 = F.pad(log_x0, (0, self.states - self.vocab_size), value=math.log(TINY))
        log_prior = torch.logaddexp(_log(kept) + log_x0, _log(moved * pi))  # q(x_s | x_0)
        return (_log(likelihood) + log_prior).log_softmax(dim=-1)

    def known(self, tokens: Tensor) -> Tensor:
        """Return the log-probabilities [rows, length, vocabulary] of an x_0 that is these tokens [rows, length]."""
        return _log(F.one_hot(tokens, self.vocab_size).float())

    @cached_property
    def prior_divergence(self) -> float:
        """Return KL(q(x_T | x_0) || pi) of one token in nats: what the bound pays for starting from pure noise."""
        first = torch.zeros(1, 1, dtype=torch.long)
        last = self.marginal(first, torch.tensor([self.steps]))[0, 0].double()
        return float((last * (_log(last) - _log(self.stationary(last).double()))).sum())

    def _chances(self, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return the chances [rows, 1, 1] that a token is kept from s to t [rows], and that it is redrawn from pi."""
        kept = (self.alphas[t.cpu()] / self.alphas[s.cpu()])[:, None, None]
        return kept.float().to(t.device), (1 - kept).float().to(t.device)


def _log(x: Tensor) -> Tensor:
    return x.clamp_min(TINY).log()


class D3pm(Baseline):
    """A denoiser trained on the variational bound and a little cross-entropy, sampled step by step."""

    settings = D3pmConfig
    config: D3pmConfig
    supported = frozenset({"steps", "width", "seed"})

    def __init__(self, config: D3pmConfig, *, vocab_size: int, length: int) -> None:
        super().__init__(config, vocab_size=vocab_size, length=length)
        self.transitions = Transitions(config.noise, vocab_size=vocab_size, steps=config.steps)
        self.denoiser: nn.Module = Denoiser(
            config, vocab_size=vocab_size, states=self.transitions.states, length=length
        )

    @property
    def sampling_steps(self) -> int:
        """The default number of sampling steps."""
        return self.config.steps

    @property
    def checkpoint_type(self) -> str:
        """The type of the checkpoint; the two kinds of noise have tensors of the same names and shapes."""
        return f"d3pm {self.config.noise}"

    def check(self, options: SampleOptions) -> None:
        """Raise `GramError` for a number of steps that does not divide that of the training."""
        super().check(options)
        self.stride(options.steps)

    def log_x0(self, inputs: Tensor, noisy: Tensor, t: Tensor) -> Tensor:
        """Return log p(x_0) [rows, length, vocabulary] of every token; inputs, noisy [rows, length], t [rows]."""
        return self.denoiser(inputs, noisy, t / self.config.steps).float().log_softmax(dim=-1)  # type: ignore[no-any-return]

    def add_noise(self, tokens: Tensor, labelled: Tensor, t: Tensor, key: Tensor) -> Tensor:
        """Draw from q(x_t | x_0) for tokens [rows, length], t [rows]; positions without label stay as they are."""
        return torch.where(labelled, draw(self.transitions.marginal(tokens, t), uniform(key, self.length)), tokens)

    def bound_term(self, tokens: Tensor, noisy: Tensor, log_x0: Tensor, s: Tensor, t: Tensor) -> Tensor:
        """Return KL(q(x_s | x_t, x_0) || p(x_s | x_t)) of every token [rows, length]: -log p(x_0 | x_t) for s = 0."""
        log_q = self.transitions.log_posterior(noisy, self.transitions.known(tokens), s, t)
        log_p = self.transitions.log_posterior(noisy, log_x0, s, t)
        return (log_q.exp() * (log_q - log_p)).sum(dim=-1)

    def loss(self, inputs: Tensor, targets: Tensor, key: Tensor) -> tuple[Tensor, Metrics]:
        """Return T * (term of the bound + lambda * cross-entropy) per labelled token, and metrics.

        One step per row; successive examples see all of them evenly. The published code adds lambda times the
        cross-entropy to a single term, not to the whole bound; T times that is in nats and has the same gradient up to
        its scale.
        """
        tokens, labelled = split_targets(targets)
        steps = self.config.steps
        t = 1 + (spread(key) * steps).long()
        noisy = self.add_noise(tokens, labelled, t, derive(key, 0))
        log_x0 = self.log_x0(inputs, noisy, t)
        terms = self.bound_term(tokens, noisy, log_x0, t - 1, t)
        costs = -log_x0.gather(-1, tokens[..., None])[..., 0]
        term, cross_entropy = ((x * labelled).sum(dim=-1) / labelled_count(targets) for x in (terms, costs))
        loss = steps * (term + self.config.cross_entropy * cross_entropy).mean()
        per_token = steps * term + self.transitions.prior_divergence
        nats = (per_token * labelled_count(targets)).mean()
        metrics = {"loss": loss, "nats": nats, "cross_entropy": cross_entropy.mean()}
        return loss, {name: metric.detach() for name, metric in metrics.items()}

    @torch.no_grad()
    def log_likelihood_bound(self, inputs: Tensor, targets: Tensor, *, key: Tensor, samples: int = 128) -> Tensor:
        """Return the variational bound [rows] in nats, from `samples` steps per row, spread evenly over all of them."""
        tokens, labelled = split_targets(targets)
        steps = self.config.steps
        total = torch.zeros(len(inputs), device=inputs.device)
        for number, place in enumerate(spread_samples(key, samples)):
            t = 1 + (place * steps).long()
            noisy = self.add_noise(tokens, labelled, t, derive(key, number))
            terms = self.bound_term(tokens, noisy, self.log_x0(inputs, noisy, t), t - 1, t)
            total += (terms * labelled).sum(dim=-1)
        return -total * steps / samples - self.transitions.prior_divergence * labelled.sum(dim=-1)

    @torch.no_grad()
    def draw_outputs(
        self,
        inputs: Tensor,
        *,
        key: Tensor,
        labelled: Tensor | None = None,
        steps: int | None = None,
        history: list[Tensor] | None = None,
    ) -> Tensor:
        """Draw outputs [rows, length] for inputs [rows, length], in all T steps or in `steps` longer ones.

        A list for the `history` is filled with the noisy outputs [rows, length], from pure noise to the last; MASK is
        the token after the vocabulary.
        """
        stride = self.stride(steps)
        shape = (*inputs.shape, self.transitions.states)
        noisy = draw(self.transitions.stationary(inputs).expand(shape), uniform(derive(key, FIRST), self.length))
        noisy = hold_unlabelled(noisy, labelled)
        history = [] if history is None else history  # references only: 1000 small tensors at most
        for t in range(self.config.steps, 0, -stride):
            history.append(noisy)
            step_key = derive(key, t)
            if self.config.noise == "absorbing":
                noisy = self._reveal(inputs, noisy, t - stride, t, step_key)
                continue
            before, now = (torch.full((len(inputs),), time, device=inputs.device) for time in (t - stride, t))
            log_p = self.transitions.log_posterior(noisy, self.log_x0(inputs, noisy, now), before, now)
            noisy = hold_unlabelled(draw(log_p.exp(), uniform(step_key, self.length)), labelled)
        history.append(noisy)
        return noisy

    def process(self, inputs: Tensor, *, seed: int = 0) -> dict[int, Tokens]:
        """Return the noisy outputs [rows, length] after every step, from pure noise (0) on; MASK becomes padding."""
        history: list[Tensor] = []
        self.draw_outputs(inputs, key=self.process_keys(inputs, seed), labelled=self.labelled, history=history)
        seen = [torch.where(noisy < self.vocab_size, noisy, PADDING) for noisy in history]
        return {step: noisy.cpu().numpy() for step, noisy in enumerate(seen)}

    def _reveal(self, inputs: Tensor, noisy: Tensor, s: int, t: int, key: Tensor) -> Tensor:
        """Make a step of the absorbing kind from t to s: a MASK becomes a draw from p(x_0), or stays."""
        alphas = self.transitions.alphas

        def predict(index: Tensor) -> Tensor:
            now = torch.full((len(index),), t, device=inputs.device)
            return self.log_x0(inputs[index], noisy[index], now).exp()

        fraction = float((alphas[s] - alphas[t]) / (1 - alphas[t]))
        return reveal(noisy, self.vocab_size, fraction, predict, key)

    def stride(self, steps: int | None) -> int:
        """Return how many of `total` steps one of `steps` covers; raise `GramError` if they do not divide evenly."""
        total = self.config.steps
        if steps is None:
            return 1
        if steps < 1 or total % steps:
            raise GramError(f"{steps} steps do not divide the {total} steps of this D3PM: choose a divisor of {total}.")
        return total // steps
