"""What a GPU run switches on (bfloat16, torch.compile, fused AdamW), tried for correctness on the CPU."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from gram.config import Recipe
from gram.errors import GramError
from gram.machine import check_precision, multiplies_bfloat16
from gram.tasks.nqueens import NQueens
from gram.training import step as training
from gram.training.launch import make_fabric
from gram.training.step import Trainer

RecipeBuilder = Callable[..., Recipe]


def after_steps(recipe: Recipe, steps: int = 3) -> tuple[Trainer, list[Tensor]]:
    task = NQueens(size=5)
    trainer = Trainer(recipe, task, task.split("train"), make_fabric("cpu", recipe.train.precision))
    return trainer, [trainer.step()["loss"].detach() for _ in range(steps)]


@pytest.mark.skipif(not multiplies_bfloat16(), reason="this CPU cannot multiply in bfloat16")
def test_bfloat16_follows_float32(queens_recipe: RecipeBuilder) -> None:
    trainer, mixed = after_steps(queens_recipe(train={"precision": "bf16-mixed"}))
    _, plain = after_steps(queens_recipe())
    assert_close(torch.stack(mixed), torch.stack(plain), rtol=0.03, atol=0.03)
    assert not torch.equal(torch.stack(mixed), torch.stack(plain))  # it was really used
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}


@pytest.mark.filterwarnings("ignore")  # of torch, about itself
def test_compiled_networks_give_the_same_weights_under_the_same_names(
    queens_recipe: RecipeBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = after_steps(queens_recipe())
    graphs = []

    def backend(graph: torch.fx.GraphModule, _inputs: list[Tensor]) -> Callable[..., object]:
        graphs.append(graph)
        return graph.forward

    # torch's own backend needs a C++ compiler; what the networks are traced into does not.
    monkeypatch.setattr(
        training.Network, "compile", lambda self, **options: torch.nn.Module.compile(self, backend=backend, **options)
    )
    compiled, _ = after_steps(queens_recipe(train={"compile": True}))
    assert graphs
    assert_close(compiled.model.state_dict(), plain.model.state_dict())


def test_fused_adamw_is_adamw() -> None:
    weights = [torch.nn.Parameter(torch.linspace(-1, 1, 12)) for _ in range(2)]
    optimizers = [
        torch.optim.AdamW([weight], lr=0.1, weight_decay=0.1, fused=fused)
        for weight, fused in zip(weights, (True, False), strict=True)
    ]
    for step in range(5):
        for weight, optimizer in zip(weights, optimizers, strict=True):
            weight.grad = torch.sin(weight.detach() * step)
            optimizer.step()
    assert_close(*weights)


def test_a_cpu_without_bfloat16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check_precision("32-true", "cpu")
    monkeypatch.setattr("gram.machine.multiplies_bfloat16", lambda: False)
    check_precision("bf16-mixed", "cuda")
    with pytest.raises(GramError, match="cannot multiply in bfloat16"):
        check_precision("bf16-mixed", "cpu")
