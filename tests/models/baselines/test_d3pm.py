"""D3PM against brute-force matrix products and enumeration of whole chains."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence
from torch.testing import assert_close

from gram.config import D3pmConfig
from gram.errors import GramError
from gram.models.baselines import d3pm
from gram.models.baselines.d3pm import D3pm, Kind, Transitions, betas
from gram.tasks.base import IGNORE
from tests.models.baselines.helpers import keys, reveal_eagerly

VOCABULARY, LENGTH, STEPS = 2, 2, 6
INPUT = torch.tensor([1, 0])
TINY = {"dim": 16, "layers": 2, "heads": 2, "hidden": 24, "time_dim": 8}
KINDS: list[Kind] = ["uniform", "absorbing"]
Denoisers = Callable[..., nn.Module]


def toy(table_denoiser: Denoisers, kind: Kind) -> D3pm:
    model = D3pm(D3pmConfig(**TINY, noise=kind, steps=STEPS), vocab_size=VOCABULARY, length=LENGTH)
    model.denoiser = table_denoiser(vocab_size=VOCABULARY, states=model.transitions.states, length=LENGTH)
    return model


def matrices(kind: Kind, vocab_size: int, steps: int) -> Tensor:
    """[steps, states, states] Q_1..Q_T, written out: row = before, column = after."""
    result = []
    for beta in betas(kind, steps).tolist():
        states = vocab_size + (kind == "absorbing")
        matrix = (1 - beta) * torch.eye(states, dtype=torch.float64)
        if kind == "absorbing":
            matrix[:, -1] += beta
        else:
            matrix += beta / states
        result.append(matrix)
    return torch.stack(result)


def product(steps: Tensor) -> Tensor:
    total = torch.eye(steps.shape[-1], dtype=torch.float64)
    for matrix in steps:
        total = total @ matrix
    return total


def test_schedules_are_the_published_ones() -> None:
    absorbing = Transitions("absorbing", vocab_size=3, steps=1000).alphas
    assert_close(absorbing, 1 - torch.arange(1001, dtype=torch.float64) / 1000)
    uniform = Transitions("uniform", vocab_size=3, steps=1000).alphas
    time = torch.arange(1001, dtype=torch.float64) / 1000
    cosine = torch.cos((time + 0.008) / 1.008 * torch.pi / 2)
    assert_close(uniform[:-1], (cosine / cosine[0])[:-1])
    assert uniform[-1] == pytest.approx(0.001 * float(uniform[-2]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [7, 1000])
def test_marginals(kind: Kind, steps: int) -> None:
    transitions, brute = Transitions(kind, vocab_size=4, steps=steps), matrices(kind, 4, steps)
    tokens = torch.arange(4)[None]
    for t in {0, 1, 2, steps // 2, steps - 1, steps}:
        assert_close(transitions.marginal(tokens, torch.tensor([t]))[0], product(brute[:t])[:4].float())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "stride"), [(7, 1), (12, 3), (12, 12), (1000, 1), (1000, 50)])
def test_posteriors(kind: Kind, steps: int, stride: int) -> None:
    transitions, brute = Transitions(kind, vocab_size=4, steps=steps), matrices(kind, 4, steps)
    for t in {stride, steps // stride // 2 * stride or stride, steps}:
        s = t - stride
        between, before, until = product(brute[s:t]), product(brute[:s]), product(brute[:t])
        for x_0, x_t in itertools.product(range(4), range(transitions.states)):
            if until[x_0, x_t] == 0:
                continue  # cannot happen, so there is nothing to know about it
            expected = between[:, x_t] * before[x_0] / until[x_0, x_t]
            known = transitions.known(torch.tensor([[x_0]]))
            found = transitions.log_posterior(torch.tensor([[x_t]]), known, torch.tensor([s]), torch.tensor([t]))
            assert_close(found[0, 0].exp(), expected.float(), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("s", "t"), [(0, 1), (2, 3), (0, 6), (3, 6)])
def test_predicted_posteriors(kind: Kind, s: int, t: int, generator: torch.Generator) -> None:
    """p(x_s | x_t) is proportional to the sum over x_0 of q(x_s, x_t | x_0) p(x_0)."""
    transitions, brute = Transitions(kind, vocab_size=4, steps=6), matrices(kind, 4, 6)
    log_x0 = torch.randn(4, generator=generator).log_softmax(dim=0)
    before, between = product(brute[:s]), product(brute[s:t])
    for x_t in range(transitions.states):
        joint = sum(log_x0[x_0].exp() * before[x_0] * between[:, x_t] for x_0 in range(4))
        if joint.sum() == 0:
            continue
        found = transitions.log_posterior(
            torch.tensor([[x_t]]), log_x0[None, None], torch.tensor([s]), torch.tensor([t])
        )
        assert_close(found[0, 0].exp(), (joint / joint.sum()).float(), atol=1e-6, rtol=1e-4)


# --- whole chains, enumerated -----------------------------------------------------------------------------------------


class Chain:
    """Everything about a toy model with LENGTH tokens, by enumeration; a state is a whole row."""

    def __init__(self, model: D3pm, stride: int) -> None:
        kind, states = model.config.noise, model.transitions.states
        self.rows = list(itertools.product(range(states), repeat=LENGTH))
        self.times = list(range(0, STEPS + 1, stride))
        self.model, self.states, self.brute = model, states, matrices(kind, VOCABULARY, STEPS)
        pi = torch.full((states,), 1 / states) if kind == "uniform" else torch.eye(states)[-1]
        self.start = torch.stack([pi[list(row)].prod() for row in self.rows]).double()
        self.reverse = {t: self._reverse(s, t) for s, t in itertools.pairwise(self.times)}

    def _reverse(self, s: int, t: int) -> Tensor:
        """[rows at t, rows at s] p(x_s | x_t)."""
        before, between = product(self.brute[:s])[:VOCABULARY], product(self.brute[s:t])
        result = []
        for row in self.rows:
            x_t = torch.tensor([row])
            chances = self.model.denoiser(INPUT[None], x_t, torch.tensor([t / STEPS]))[0].double().softmax(dim=-1)
            tokens = [(chances[i] @ before) * between[:, row[i]] for i in range(LENGTH)]
            tokens = [token / token.sum().clamp_min(1e-300) for token in tokens]
            result.append(torch.outer(*tokens).flatten())
        return torch.stack(result)

    def noise(self, x: tuple[int, ...], s: int, t: int) -> Tensor:
        """[rows] q(x_t = row | x_s = x)."""
        between = product(self.brute[s:t])
        return torch.outer(*(between[token] for token in x)).flatten()

    def likelihood(self, tokens: tuple[int, ...]) -> float:
        """p(x_0), over all paths."""
        chances = self.start
        for t in reversed(self.times[1:]):
            chances = chances @ self.reverse[t]
        return float(chances[self.rows.index(tokens)])

    def bound(self, tokens: tuple[int, ...]) -> float:
        """E_q [log p(x_0..x_T) - log q(x_1..x_T | x_0)], path by path."""
        total = 0.0
        first = self.rows.index(tokens)
        for path in itertools.product(range(len(self.rows)), repeat=len(self.times) - 1):
            places = [first, *path]
            log_q, log_p = 0.0, self.start[places[-1]].log()
            for i, (s, t) in enumerate(itertools.pairwise(self.times)):
                chance = self.noise(self.rows[places[i]], s, t)[places[i + 1]]
                log_q += chance.log()
                log_p += self.reverse[t][places[i + 1], places[i]].log()
            if log_q > -torch.inf:
                total += float(log_q.exp() * (log_p - log_q))
        return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 3, STEPS])
def test_bound_is_the_enumerated_one(table_denoiser: Denoisers, kind: Kind, steps: int) -> None:
    model = toy(table_denoiser, kind)
    chain = Chain(model, STEPS // steps)
    tokens = (1, 0)
    clean = torch.tensor([tokens])
    total = -LENGTH * model.transitions.prior_divergence
    for s, t in itertools.pairwise(chain.times):
        before, now = torch.tensor([s]), torch.tensor([t])
        for row, chance in zip(chain.rows, chain.noise(tokens, 0, t).tolist(), strict=True):
            if chance:
                noisy = torch.tensor([row])
                log_x0 = model.log_x0(INPUT[None], noisy, now)
                total -= chance * float(model.bound_term(clean, noisy, log_x0, before, now).sum())
    if steps == STEPS:  # all steps of the model, which its own bound is of; too many chains to enumerate
        some = (INPUT.expand(500, -1), clean.expand(500, -1))
        estimate = model.log_likelihood_bound(*some, key=keys(500), samples=60)
        assert float(estimate.mean()) == pytest.approx(total, rel=0.03)
        return
    expected = chain.bound(tokens)
    assert total == pytest.approx(expected, rel=1e-4)
    assert expected <= torch.tensor(chain.likelihood(tokens)).log()


def test_the_bound_pays_for_noise_that_is_not_complete(table_denoiser: Denoisers) -> None:
    model = toy(table_denoiser, "uniform")
    targets = torch.tensor([[1, 0], [IGNORE, 1]])

    def bound() -> Tensor:
        return model.log_likelihood_bound(INPUT.expand(2, -1), targets, key=keys(2), samples=6)

    before = bound() + torch.tensor([2, 1]) * model.transitions.prior_divergence
    model.transitions.prior_divergence = 5.0
    assert_close(bound(), before - torch.tensor([10.0, 5.0]))
    assert Transitions("absorbing", vocab_size=3, steps=7).prior_divergence == 0
    half = Transitions("uniform", vocab_size=4, steps=1)
    half.alphas = torch.tensor([1.0, 0.5], dtype=torch.float64)
    last, uniform = Categorical(torch.tensor([0.625, 0.125, 0.125, 0.125])), Categorical(torch.ones(4))
    assert half.prior_divergence == pytest.approx(float(kl_divergence(last, uniform)))


@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_bound_and_cross_entropy(table_denoiser: Denoisers, kind: Kind) -> None:
    model = toy(table_denoiser, kind)
    inputs, targets = INPUT.expand(120_000, -1), torch.tensor([1, 0]).expand(120_000, -1)
    loss, metrics = model.loss(inputs, targets, keys(len(inputs)))
    bound = model.log_likelihood_bound(inputs[:2400], targets[:2400], key=keys(2400), samples=60)
    assert float(metrics["nats"]) == pytest.approx(-float(bound.mean()), rel=0.03)
    expected = metrics["nats"] / LENGTH - model.transitions.prior_divergence + 0.001 * STEPS * metrics["cross_entropy"]
    assert_close(loss, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 3, 6])
def test_samples_follow_the_chain(table_denoiser: Denoisers, kind: Kind, steps: int) -> None:
    model = toy(table_denoiser, kind)
    chain = Chain(model, STEPS // steps)
    drawn = model.draw_outputs(INPUT.expand(20_000, -1), key=keys(20_000), steps=steps)
    for row in itertools.product(range(VOCABULARY), repeat=LENGTH):
        share = (drawn == torch.tensor(row)).all(dim=1).float().mean()
        assert float(share) == pytest.approx(chain.likelihood(row), abs=0.015)


def test_lazy_sampling_is_sampling(table_denoiser: Denoisers, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, looked_up = [], []
    for reveal in (d3pm.reveal, reveal_eagerly):
        monkeypatch.setattr(d3pm, "reveal", reveal)
        model = toy(table_denoiser, "absorbing")
        outputs.append(model.draw_outputs(INPUT.expand(30, -1), key=keys(30, 2)))
        looked_up.append(model.denoiser.rows)
    assert torch.equal(*outputs)
    assert looked_up[0] <= 30 * LENGTH < looked_up[1]


@pytest.mark.parametrize("kind", KINDS)
def test_unlabelled_positions(table_denoiser: Denoisers, kind: Kind) -> None:
    model = toy(table_denoiser, kind)
    labelled = torch.tensor([True, False])
    seen: list[Tensor] = []
    model.denoiser.register_forward_hook(lambda _module, arguments, _result: seen.append(arguments[1]))
    targets = torch.tensor([1, IGNORE]).expand(40, -1)
    model.loss(INPUT.expand(40, -1), targets, keys(40))
    model.log_likelihood_bound(INPUT.expand(40, -1), targets, key=keys(40), samples=3)
    drawn = model.draw_outputs(INPUT.expand(40, -1), key=keys(40), labelled=labelled)
    assert not torch.cat([*seen, drawn])[:, 1].any()


@pytest.mark.parametrize("steps", [0, -2, 4, 7])
def test_steps_that_do_not_divide_are_refused(table_denoiser: Denoisers, steps: int) -> None:
    model = toy(table_denoiser, "uniform")
    with pytest.raises(GramError, match="do not divide the 6 steps"):
        model.draw_outputs(INPUT[None], key=keys(1), steps=steps)


@pytest.mark.parametrize("kind", KINDS)
def test_learns(kind: Kind, generator: torch.Generator, learns: Callable[..., tuple[float, float]]) -> None:
    torch.manual_seed(0)
    model = D3pm(D3pmConfig(**TINY, noise=kind, steps=20), vocab_size=3, length=4)
    inputs = torch.randint(1, 3, (64, 4), generator=generator)
    first, last = learns(model, inputs, inputs.flip(1))
    assert last < 0.25 * first
    assert (model.draw_outputs(inputs, key=keys(len(inputs))) == inputs.flip(1)).float().mean() > 0.95


def test_learns_an_image(generator: torch.Generator, learns: Callable[..., tuple[float, float]]) -> None:
    torch.manual_seed(0)
    model = D3pm(D3pmConfig(**TINY, noise="absorbing", steps=20, image=(4, 4)), vocab_size=3, length=16)
    images = torch.randint(1, 3, (2, 16), generator=generator).repeat(16, 1)
    first, last = learns(model, torch.zeros_like(images), images)
    assert last < 0.5 * first


@pytest.mark.parametrize("kind", ["uniform", "absorbing"])
def test_the_process_is_that_of_the_sampler(kind: Kind) -> None:
    torch.manual_seed(0)
    config = D3pmConfig(noise=kind, steps=6, dim=8, layers=1, heads=2, hidden=8, time_dim=8)
    model = D3pm(config, vocab_size=3, length=4)
    inputs = torch.zeros(3, 4, dtype=torch.long)
    steps = model.process(inputs, seed=5)
    assert list(steps) == list(range(7))
    drawn = model.draw_outputs(inputs, key=model.process_keys(inputs, 5), labelled=model.labelled)
    assert (steps[6] == drawn.numpy()).all()
    if kind == "absorbing":
        assert (steps[0] == 0).all()  # MASK, shown as padding
