"""Autoregressive Transformer: p(output | input) = product over positions of p(token | input, tokens before it).

Input and output form one sequence, in this order; the last input token predicts the first output token.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gram.config import ArConfig
from gram.models.base import Metrics
from gram.models.baselines.base import Baseline, draw, hold_unlabelled, split_targets
from gram.models.baselines.transformer import Transformer, embedding
from gram.models.layers import Linear
from gram.models.losses import labelled_count, token_accuracy, token_cross_entropy
from gram.models.noise import derive, uniform


def sharpen(logits: Tensor, temperature: float, top_p: float) -> Tensor:
    """Turn logits [..., vocabulary] into probabilities: divided by the temperature, then cut to the nucleus.

    The nucleus is the smallest set of most probable tokens whose probability reaches `top_p`; of equally probable
    ones the first count first.
    """
    if temperature == 0:
        return F.one_hot(logits.argmax(dim=-1), logits.shape[-1]).to(logits.dtype)
    # The largest one becomes 0, so that no temperature is too small.
    probabilities = ((logits - logits.amax(dim=-1, keepdim=True)) / temperature).softmax(dim=-1)
    if top_p >= 1:
        return probabilities
    ranked, order = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ranked.cumsum(dim=-1) - ranked
    kept = ranked * (before < top_p)
    kept[..., 0] = ranked[..., 0]  # also if rounding left nothing
    return torch.zeros_like(kept).scatter_(-1, order, kept / kept.sum(dim=-1, keepdim=True))


class Autoregressive(Baseline):
    """A decoder-only Transformer over input, then output tokens."""

    settings = ArConfig
    config: ArConfig
    supported = frozenset({"temperature", "top_p", "width", "seed"})
    likelihood_meaning = (True, "chain rule")

    def __init__(self, config: ArConfig, *, vocab_size: int, length: int) -> None:
        super().__init__(config, vocab_size=vocab_size, length=length)
        # Two tables: the same token means one thing as a given and another as an answer.
        self.inputs, self.outputs = embedding(vocab_size, config.dim), embedding(vocab_size, config.dim)
        # The last output token predicts nothing, so it is never read.
        self.transformer = Transformer(config, 2 * length - 1, causal=True)
        self.head = Linear(config.dim, vocab_size)

    def forward(self, inputs: Tensor, tokens: Tensor) -> Tensor:
        """Map inputs [rows, length], tokens [rows, n < length] to logits [rows, n + 1, vocabulary], the last one of the
        token that comes next."""
        x = torch.cat((self.inputs[inputs], self.outputs[tokens]), dim=1)
        states = self.transformer(math.sqrt(self.config.dim) * x)
        return self.head(states[:, self.length - 1 :])  # type: ignore[no-any-return]

    def loss(self, inputs: Tensor, targets: Tensor, key: Tensor) -> tuple[Tensor, Metrics]:
        """Return -log p(output | input) per labelled token, mean over rows, and metrics; both arguments [rows, length].

        The key is not used; other models need one.
        """
        tokens, _ = split_targets(targets)
        logits = self(inputs, tokens[:, :-1])
        nats = token_cross_entropy(logits, targets, "softmax").sum(dim=-1)
        loss = (nats / labelled_count(targets)).mean()
        accuracy = token_accuracy(logits.argmax(dim=-1), targets).mean()
        return loss, {"loss": loss.detach(), "nats": nats.mean().detach(), "token_accuracy": accuracy}

    @torch.no_grad()
    def log_likelihood_bound(
        self, inputs: Tensor, targets: Tensor, *, key: Tensor | None = None, samples: int = 1
    ) -> Tensor:
        """Return log p(output | input) in nats, which is exact here: [rows]. Nothing is drawn."""
        tokens, _ = split_targets(targets)
        return -token_cross_entropy(self(inputs, tokens[:, :-1]), targets, "softmax").sum(dim=-1)

    @property
    def steps_per_output(self) -> int:
        """One step for each token."""
        return self.length

    @torch.no_grad()
    def draw_outputs(
        self,
        inputs: Tensor,
        *,
        key: Tensor,
        labelled: Tensor | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> Tensor:
        """Draw outputs [rows, length] for inputs [rows, length], token by token."""
        caches = self.transformer.empty_cache()  # of all tokens but the last
        tokens, x = inputs.new_empty(len(inputs), 0), self.inputs[inputs]
        for position in range(self.length):
            logits = self.head(self.transformer(math.sqrt(self.config.dim) * x, caches=caches)[:, -1])
            token = draw(sharpen(logits.float(), temperature, top_p), uniform(derive(key, position)))
            here = None if labelled is None else labelled[..., position]
            tokens = torch.cat((tokens, hold_unlabelled(token, here)[:, None]), dim=1)
            x = self.outputs[tokens[:, -1:]]
        return tokens
