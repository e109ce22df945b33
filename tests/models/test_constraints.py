"""Networks with the puzzle's structure built in: what a symmetry does to the input it does to the output."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from gram.checkpoints.folder import CONFIG_FILE, load_model, save_model
from gram.config import ModelConfig, Recipe
from gram.errors import GramError
from gram.files import read_json, write_json
from gram.models import constraints
from gram.models.constraints import ConstraintBlock, Sets
from gram.models.layers import compiled_pays
from gram.models.reasoner import Reasoner
from gram.models.registry import build_model
from gram.solver import load
from gram.tasks.base import IGNORE, Structure, Task
from gram.tasks.nqueens import NQueens
from gram.tasks.sudoku.generated import SudokuHard
from gram.tasks.sudoku.symmetry import Symmetries, random_symmetries

ConfigBuilder = Callable[..., ModelConfig]
RecipeBuilder = Callable[..., Recipe]
BUILT_IN = {"mixing": "constraints", "positions": "none"}


def structured(config: ConfigBuilder, task: Task, **changes: object) -> Reasoner:
    torch.manual_seed(0)
    settings = config(**{**BUILT_IN, **changes})
    return Reasoner(settings, vocab_size=task.vocab_size, length=task.length, structure=task.structure).double()


def decoded(model: Reasoner, inputs: Tensor, targets: Tensor | None, cells: Tensor, symbols: Tensor) -> Tensor:
    """Logits [rows, length, vocabulary] after two steps; noise is that of (cells[cell], symbols[symbol])."""
    generator = torch.Generator().manual_seed(0)
    shape = (len(inputs), len(cells), len(symbols), model.config.dim)
    e_x = model.encoder(inputs)
    e_y = None if targets is None or model.guidance is None else model.guidance.embed_targets(targets)
    state = model.initial_state(len(inputs))
    for _step in range(2):
        drawn = torch.randn(model.config.transitions, *shape, generator=generator, dtype=torch.float64)
        noise = drawn[:, :, cells][:, :, :, symbols].flatten(2, 3)
        state = model.step(state, e_x, noise.__getitem__, e_y=e_y).state
    return model.decoder.logits(state.h)


def transposes(one: Symmetries) -> bool:
    """Whether rows become columns: these have weights of their own."""
    size = round(one.cells.shape[1] ** 0.5)
    return len(set((one.cells[0, :size] // size).tolist())) > 1


@settings(max_examples=15)
@given(
    seed=st.integers(0, 100), guidance=st.sampled_from(["none", "fixed", "gaussian"]), size=st.sampled_from([4, 6, 9])
)
def test_symmetries_of_a_sudoku_carry_over(tiny_config: ConfigBuilder, seed: int, guidance: str, size: int) -> None:
    task = SudokuHard(size=size)
    model = structured(tiny_config, task, symbols=True, guidance=guidance)
    generator = np.random.default_rng(seed)
    inputs = generator.integers(0, task.vocab_size, (2, task.length))
    targets = generator.integers(0, task.vocab_size, (2, task.length))
    targets[:, 3] = IGNORE
    one = next(one for _ in range(99) if not transposes(one := random_symmetries(size, 1, generator)))
    cells, tokens = torch.from_numpy(one.cells[0]), torch.from_numpy(one.tokens[0])

    def moved(rows: np.ndarray) -> np.ndarray:
        kept = np.where(rows == IGNORE, 0, rows)
        both = np.repeat(one.cells, 2, axis=0), np.repeat(one.tokens, 2, axis=0)
        result = type(one)(*both).apply(kept)
        result[np.take_along_axis(rows, both[0], axis=1) == IGNORE] = IGNORE
        return result

    same = torch.arange(task.length), torch.arange(size)
    plain = decoded(model, torch.from_numpy(inputs), torch.from_numpy(targets), *same)
    # Symbol token t of the moved puzzle was the token that the symmetry maps to t.
    renamed = tokens.argsort()
    other = decoded(model, torch.from_numpy(moved(inputs)), torch.from_numpy(moved(targets)), cells, renamed[2:] - 2)
    assert_close(other, plain[:, cells][:, :, renamed], rtol=0, atol=1e-9)


@settings(max_examples=10)
@given(seed=st.integers(0, 100))
def test_half_a_turn_of_a_queens_board_turns_the_output(tiny_config: ConfigBuilder, seed: int) -> None:
    task = NQueens(size=5)
    model = structured(tiny_config, task, guidance="none")
    # A quarter turn would exchange rows with columns and the diagonals with each other: each kind has its own weights.
    cells = torch.arange(25).flip(0)
    inputs = torch.from_numpy(np.random.default_rng(seed).integers(0, 3, (2, 25)))
    same, one = torch.arange(25), torch.arange(1)
    plain = decoded(model, inputs, None, same, one)
    assert_close(decoded(model, inputs[:, cells], None, cells, one), plain[:, cells], rtol=0, atol=1e-9)


def test_positions_meet_through_their_sets_only(tiny_config: ConfigBuilder) -> None:
    sets = Sets.of({"row": [0, 0, 1, 1], "column": [0, 1, 0, 1]})
    torch.manual_seed(0)
    block = ConstraintBlock(3, 5, sets).double()
    x = torch.randn(1, 4, 3, dtype=torch.float64)
    changed = x.clone()
    changed[0, 3] += 1
    differ = (block(x) != block(changed)).any(dim=-1)[0]
    assert differ.tolist() == [False, True, True, True]  # 3 shares no set with 0


LAYOUTS = {
    "sudoku": ({"row": [0, 0, 1, 1], "column": [0, 1, 0, 1], "box": [0, 1, 1, 0]}, 3),
    "uneven": ({"row": [0, 0, 0, 1], "diagonal": [0, 1, 2, 1], "other": [1, 1, 1, 1]}, 0),
    "one kind": ({"row": [0, 0, 0, 1]}, 0),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_compiled_loops_compute_the_same_layer(
    monkeypatch: pytest.MonkeyPatch, name: str, threads: int, rows: int
) -> None:
    positions = len(next(iter(LAYOUTS[name][0].values()))) * max(1, LAYOUTS[name][1])
    monkeypatch.setattr("gram.models.constraint_kernels.CACHED", rows * positions * 20)
    monkeypatch.setattr("gram.models.kernels.PART", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    torch.manual_seed(0)
    block = ConstraintBlock(6, 10, Sets.of(*LAYOUTS[name]))
    x = torch.randn(5, block.sets.index.shape[1], 6, requires_grad=True)
    found = []
    for least in (1, 10**9):
        monkeypatch.setattr(constraints, "COMPILED_LAYER", least)
        y = block(x)
        weight = torch.linspace(-1, 2, y.numel()).view(y.shape)
        found.append((y, *torch.autograd.grad((weight * y).sum(), [x, *block.parameters()])))
    for compiled, plain in zip(*found, strict=True):
        assert_close(compiled, plain, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(constraints, "COMPILED_LAYER", 1)
    with torch.no_grad():  # nothing is kept, and every block uses the same memory
        assert_close(block(x), found[1][0], rtol=1e-4, atol=1e-5)


def test_the_shipped_network_is_sampled_by_compiled_loops_in_groups_of_several_boards() -> None:
    model = load("sudoku-extreme", device="cpu").reasoner
    one_board = torch.zeros(1, *model.state_shape)
    assert compiled_pays(one_board, constraints.COMPILED_LAYER)
    assert min(len(group) for group in model.groups(20)) >= 5


def test_no_weight_depends_on_the_size_of_the_board(tiny_config: ConfigBuilder) -> None:
    small, large = (structured(tiny_config, NQueens(size=size)) for size in (5, 8))
    large.load_state_dict(small.state_dict())  # every tensor fits


def test_a_model_keeps_its_structure(tiny_config: ConfigBuilder, queens_recipe: RecipeBuilder, tmp_path: Path) -> None:
    task = SudokuHard(size=4)
    recipe = queens_recipe(model={**BUILT_IN, "symbols": True}, task={"name": "sudoku-4", "options": {}})
    structure = Structure(task.structure.constraints, tuple(task.structure.symbols))
    model = Reasoner(recipe.model, vocab_size=6, length=16, structure=structure)
    save_model(tmp_path, model, recipe)
    loaded, _, _ = load_model(tmp_path)
    assert dict(loaded.structure.constraints) == dict(structure.constraints)
    inputs = torch.from_numpy(task.split("test").inputs[:3])
    assert torch.equal(loaded.encoder(inputs), model.encoder(inputs))
    path = tmp_path / CONFIG_FILE
    write_json(path, read_json(path), sealed=False)
    whole = path.read_text()
    for damage in (
        ("[\n        0,", "[\n        -1,"),
        ('"symbols": [\n      2', '"symbols": [\n      77'),
        ('"row": [', '"row": ["x",'),
    ):
        assert damage[0] in whole
        path.write_text(whole.replace(*damage, 1))
        with pytest.raises(GramError, match="'structure'"):
            load_model(tmp_path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mixing": "constraints"}, "positions 'none'"),
        ({**BUILT_IN, "readout": "first"}, "readout 'pooled'"),
        ({"symbols": True}, "needs mixing 'constraints'"),
    ],
)
def test_what_would_break_the_symmetry_is_refused(
    tiny_config: ConfigBuilder, changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        tiny_config(**changes)


def test_a_model_without_the_structure_is_refused(tiny_config: ConfigBuilder) -> None:
    sizes = {"vocab_size": 3, "length": 4}
    for structure in (None, Structure()):
        with pytest.raises(GramError, match="declares no constraints"):
            Reasoner(tiny_config(**BUILT_IN), **sizes, structure=structure)
    queens = NQueens(size=5)
    with pytest.raises(GramError, match="no interchangeable symbols"):
        Reasoner(tiny_config(**BUILT_IN, symbols=True), vocab_size=3, length=25, structure=queens.structure)


def test_a_model_folder_without_the_structure_is_refused(
    queens_recipe: RecipeBuilder, queens: NQueens, tmp_path: Path
) -> None:
    recipe = queens_recipe(model=BUILT_IN)
    model = build_model(recipe, vocab_size=queens.vocab_size, length=queens.length, structure=queens.structure)
    save_model(tmp_path, model, recipe)
    load_model(tmp_path)
    config = read_json(tmp_path / CONFIG_FILE)
    del config["structure"]
    write_json(tmp_path / CONFIG_FILE, config)
    with pytest.raises(GramError, match="declares no constraints"):
        load_model(tmp_path)
