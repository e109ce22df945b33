"""The one recursive reasoner: its equations, the span of its gradient, and z_0, each against a plain version."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from gram.config import ModelConfig
from gram.models.carry import State
from gram.models.guidance import Gaussian
from gram.models.reasoner import Reasoner, StepOutput
from tests.models.helpers import example, noises, random_state

ModelBuilder = Callable[..., Reasoner]

ARCHITECTURES = {
    "shared": {},
    "two-networks": {"shared": False, "layers": 2},
    "flat": {"state": "flat"},
    "attention": {"mixing": "attention", "positions": "rope"},
}


def naive_step(model: Reasoner, state: State, e_x: Tensor, noise: Tensor, *, e_y: Tensor | None) -> StepOutput:
    """The paper's equations, one by one; `detach` marks where the configured span of the gradient begins."""
    c, (h, low) = model.config, state
    f_low = model.low
    f_high = model.low if model.high is None else model.high
    output = StepOutput(state)
    for t in range(c.transitions):
        early = t < c.transitions - 1 and c.gradient != "step"
        x = e_x.detach() if early else e_x
        if low is None:
            u = h
            for _ in range(c.low_steps):
                u = f_low(u + x, model.rope)
        else:
            for k in range(c.low_steps):
                if c.gradient == "call" and k == c.low_steps - 1:
                    low = low.detach()
                low = f_low(low + h + x, model.rope)
            u = f_high(h + low, model.rope)
        if early:
            u = u.detach()
        h = u
        if model.guidance.learned:
            prior = model.guidance.prior(u)
            output.priors.append(prior)
            chosen = prior
            if e_y is not None:
                chosen = model.guidance.posterior(u + e_y)
                output.posteriors.append(chosen)
            h = u + chosen.mean + chosen.log_sigma.exp() * noise[t]
        if early:
            h, low = h.detach(), None if low is None else low.detach()
    output.state = State(h, low)
    return output


def all_parts(output: StepOutput) -> list[Tensor]:
    parts = [output.state.h] + ([] if output.state.l is None else [output.state.l])
    for distribution in (*output.priors, *output.posteriors):
        parts += [distribution.mean, distribution.log_sigma]
    return parts


def gradients(model: Reasoner, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    return {name: torch.zeros_like(p) if g is None else g for name, p, g in zip(names, parameters, found, strict=True)}


def touched(model: Reasoner, loss: Tensor) -> set[str]:
    return {name for name, gradient in gradients(model, loss).items() if bool(gradient.abs().max() > 0)}


# --- the equations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("guided", ["none", "prior", "posterior"])
def test_step_is_the_equations(tiny_model: ModelBuilder, name: str, guided: str) -> None:
    guidance = "none" if guided == "none" else "gaussian"
    model = tiny_model(**ARCHITECTURES[name], guidance=guidance, low_steps=3, transitions=2).double()
    assert (model.high is None) == (name != "two-networks")
    inputs, targets = example(model)
    with torch.no_grad():
        e_x = model.encoder(inputs)
        e_y = model.guidance.embed_targets(targets) if guided == "posterior" else None
        noise, state = noises(model, 3, 2), random_state(model)
        output = model.step(state, e_x, noise.__getitem__, e_y=e_y)
        expected = naive_step(model, state, e_x, noise, e_y=e_y)
    assert len(output.priors) == (0 if guided == "none" else 2)
    assert len(output.posteriors) == (2 if guided == "posterior" else 0)
    assert_close(all_parts(output), all_parts(expected))


def test_posterior_sees_the_target_and_prior_does_not(tiny_model: ModelBuilder) -> None:
    model = tiny_model(transitions=1)
    inputs, targets = example(model)
    with torch.no_grad():
        e_x, state = model.encoder(inputs), model.initial_state(3)
        outputs = [
            model.step(state, e_x, noises(model, 3, 1).__getitem__, e_y=model.guidance.embed_targets(t))
            for t in (targets, (targets + 1) % model.vocab_size)
        ]
    assert torch.equal(outputs[0].priors[0].mean, outputs[1].priors[0].mean)
    assert not torch.allclose(outputs[0].posteriors[0].mean, outputs[1].posteriors[0].mean)


@pytest.mark.parametrize("step_embedding", [False, True])
def test_one_long_step_is_two_short_ones(tiny_model: ModelBuilder, step_embedding: bool) -> None:
    model = tiny_model(step_embedding=step_embedding)
    noise, e_x = noises(model, 3, 4), model.encoder(example(model)[0]).detach()
    start = torch.tensor([0, 2, 10])
    with torch.no_grad():
        long = model.step(random_state(model), e_x, noise.__getitem__, first_transition=start, transitions=4)
        half = model.step(random_state(model), e_x, noise[:2].__getitem__, first_transition=start)
        whole = model.step(half.state, e_x, noise[2:].__getitem__, first_transition=start + 2)
    assert len(long.priors) == 4
    assert_close(whole.state.h, long.state.h)


def test_rows_do_not_influence_each_other(tiny_model: ModelBuilder) -> None:
    model = tiny_model(mixing="attention", positions="rope").double()
    noise, e_x, state = noises(model, 3, 2), model.encoder(example(model)[0]).detach(), random_state(model)
    with torch.no_grad():
        together = model.step(state, e_x, noise.__getitem__).state
        alone = [
            model.step(state.rows(slice(i, i + 1)), e_x[i : i + 1], noise[:, i : i + 1].__getitem__) for i in range(3)
        ]
    assert_close(together.h, torch.cat([output.state.h for output in alone]))


# --- the span of the gradient -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gradient"),
    [(name, gradient) for name in ARCHITECTURES for gradient in ("transition", "call", "step")
     if (name, gradient) != ("flat", "call")],
)  # fmt: skip
@pytest.mark.parametrize("guidance", ["none", "gaussian"])
def test_gradient_is_that_of_the_hand_unrolled_graph(
    tiny_model: ModelBuilder, name: str, gradient: str, guidance: str
) -> None:
    model = tiny_model(**ARCHITECTURES[name], gradient=gradient, guidance=guidance, low_steps=3, transitions=3).double()
    inputs, targets = example(model)
    noise, state = noises(model, 3, 3), random_state(model)

    def loss(step: Callable[..., StepOutput], noise: object) -> Tensor:
        e_y = model.guidance.embed_targets(targets)  # None for a model without heads
        output = step(state, model.encoder(inputs), noise, e_y=e_y)
        generator = torch.Generator().manual_seed(5)  # random weights, so that no two errors cancel
        weighted = [
            (part * torch.randn(part.shape, generator=generator, dtype=part.dtype)).sum()
            for part in [model.decoder.logits(output.state.h), *all_parts(output)[1:]]
            if part.requires_grad
        ]
        return torch.stack(weighted).sum()

    ours = gradients(model, loss(model.step, noise.__getitem__))
    naive = gradients(model, loss(lambda *args, **kwargs: naive_step(model, *args, **kwargs), noise))
    assert_close(ours, naive)


def test_the_spans_differ(tiny_model: ModelBuilder) -> None:
    found = []
    for span in ("call", "transition", "step"):
        model = tiny_model(gradient=span, guidance="none", low_steps=2, transitions=2)
        output = model.step(random_state(model), model.encoder(example(model)[0]), lambda t: None)
        found.append(gradients(model, model.decoder.logits(output.state.h)[..., 0].sum())["encoder.tokens"])
    assert not torch.allclose(found[0], found[1])
    assert not torch.allclose(found[1], found[2])


def test_earlier_transitions_train_the_guidance_heads_alone(tiny_model: ModelBuilder) -> None:
    model = tiny_model(transitions=3)
    inputs, targets = example(model)
    output = model.step(
        model.initial_state(3),
        model.encoder(inputs),
        noises(model, 3, 3).__getitem__,
        e_y=model.guidance.embed_targets(targets),
    )
    heads = {name for name, _ in model.named_parameters() if name.startswith("guidance.")}
    for t in range(3):
        loss = sum(part.sum() for part in (*output.priors[t], *output.posteriors[t]))
        reached = touched(model, loss)
        assert heads <= reached
        if t < 2:
            assert reached == heads
        else:
            assert {name.split(".")[0] for name in reached} == {"encoder", "low", "guidance"}


def test_no_gradient_when_it_is_off(tiny_model: ModelBuilder) -> None:
    for span in ("call", "transition", "step"):
        model = tiny_model(gradient=span)
        with torch.no_grad():
            output = model.step(
                model.initial_state(2), model.encoder(example(model, 2)[0]), noises(model, 2, 2).__getitem__
            )
        assert not any(part.requires_grad for part in all_parts(output))


# --- z_0 --------------------------------------------------------------------------------------------------------------


def test_initial_state_is_saved_but_never_trained(tiny_model: ModelBuilder) -> None:
    model, other = tiny_model(seed=1), tiny_model(seed=2)
    assert {"h_init", "l_init"} <= model.state_dict().keys()
    assert not {"h_init", "l_init"} & dict(model.named_parameters()).keys()
    assert not model.initial_state(2).h.requires_grad
    assert not torch.equal(model.h_init, other.h_init)
    other.load_state_dict(model.state_dict())
    for ours, theirs in zip(model.initial_state(2), other.initial_state(2), strict=True):
        assert torch.equal(ours, theirs)


def test_initial_state_is_the_same_for_every_row_and_token(tiny_model: ModelBuilder) -> None:
    model = tiny_model()
    h, low = model.initial_state(3)
    assert h.shape == low.shape == (3, model.tokens, model.config.dim)
    assert torch.equal(h, model.h_init.expand_as(h))
    assert torch.equal(low, model.l_init.expand_as(low))
    assert not torch.equal(h, low)
    assert tiny_model(state="flat").initial_state(3).l is None


def test_initial_state_is_standard_normal(tiny_model: ModelBuilder) -> None:
    model = tiny_model(dim=4096, heads=1, channel_hidden=1, guidance="none", readout="first")
    for part in (model.h_init, model.l_init):
        assert float(part.mean()) == pytest.approx(0, abs=0.05)
        assert float(part.std()) == pytest.approx(1, abs=0.05)


# --- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [False, True])
def test_state_rows_cat_and_where(tiny_model: ModelBuilder, flat: bool) -> None:
    model = tiny_model(state="flat" if flat else "hierarchical")
    first, second = random_state(model, seed=1), random_state(model, seed=2)
    joined = State.cat([first, second])
    mask = torch.tensor([True, False, True])
    mixed = State.where(mask, first, second)
    for part in ("h",) if flat else ("h", "l"):
        assert torch.equal(getattr(joined.rows(slice(3, None)), part), getattr(second, part))
        for i, yes in enumerate(mask):
            assert torch.equal(getattr(mixed, part)[i], getattr(first if yes else second, part)[i])
    if flat:
        assert joined.l is None
        assert mixed.l is None


# --- the step embedding -----------------------------------------------------------------------------------------------


def test_step_embedding_changes_with_depth(tiny_model: ModelBuilder) -> None:
    for embedded in (True, False):
        model = tiny_model(state="flat", guidance="none", step_embedding=embedded)
        e_x = model.encoder(example(model, 1)[0]).expand(4, -1, -1).detach()
        first = torch.tensor([0, 2, 4, 1000])
        h = model.step(model.initial_state(4), e_x, lambda t: None, first_transition=first).state.h.detach()
        same = torch.stack([torch.stack([(a - b).abs().max() < 1e-6 for a in h]) for b in h])
        assert torch.equal(same, torch.eye(4).bool() if embedded else torch.ones(4, 4).bool())


def test_step_embedding_needs_the_depth(tiny_model: ModelBuilder) -> None:
    model = tiny_model(step_embedding=True)
    with pytest.raises(ValueError, match="first_transition"):
        model.step(model.initial_state(1), model.encoder(example(model, 1)[0]), lambda t: 0)


# --- size -------------------------------------------------------------------------------------------------------------


def parameters_of(**changes: object) -> dict[str, int]:
    config = ModelConfig(
        **{
            "dim": 512,
            "layers": 2,
            "mixing": "attention",
            "heads": 8,
            "positions": "rope",
            "channel_hidden": 1536,
            "guidance_hidden": 512,
            "readout": "first",
            **changes,
        }
    )
    with torch.device("meta"):
        model = Reasoner(config, vocab_size=11, length=81)
    parts: dict[str, int] = {"all": 0}
    for name, parameter in model.named_parameters():
        for key in ("all", name.split(".")[0]):
            parts[key] = parts.get(key, 0) + parameter.numel()
    return parts


def test_the_papers_size_is_ten_million_parameters() -> None:
    gram = parameters_of()
    assert gram["low"] == 2 * (4 * 512**2 + 3 * 512 * 1536)  # 6.8M: TRM's one network
    assert gram["guidance"] == 4 * 3 * 512**2 + 12 * 512  # four heads of 0.79M, and the embedded target
    assert gram["all"] == pytest.approx(10.0e6, rel=0.01)
    assert parameters_of(guidance="none")["all"] == pytest.approx(6.8e6, rel=0.01)
    hrm = parameters_of(guidance="none", shared=False, layers=4)
    assert hrm["high"] == hrm["low"]
    assert hrm["all"] == pytest.approx(27e6, rel=0.02)


def test_a_shared_network_is_stored_once(tiny_model: ModelBuilder) -> None:
    assert not any(name.startswith("high") for name in tiny_model(shared=True).state_dict())
    names = tiny_model(shared=False).state_dict().keys()
    assert {f"high.{name[4:]}" for name in names if name.startswith("low.")} <= names


def test_mechanisms_keep_one_shape_of_distribution(tiny_model: ModelBuilder) -> None:
    for mechanism in ("gaussian", "stochasticity_only", "guide_only", "direct"):
        model = tiny_model(guidance=mechanism)
        with torch.no_grad():
            output = model.step(
                model.initial_state(2), model.encoder(example(model, 2)[0]), noises(model, 2, 2).__getitem__
            )
        assert isinstance(output.priors[0], Gaussian)
        assert output.priors[0].mean.shape == output.priors[0].log_sigma.shape == output.state.h.shape
