from pathlib import Path

import pytest

from gram.config import Recipe, load_recipe
from gram.errors import GramError


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path, "good.yaml", "task: {options: {size: 4}}\ntrain: {steps: 5, lr: 1e-3}\n")


@pytest.mark.parametrize("text", ["[" * 2000, "{a: " * 2000 + "1" + "}" * 2000, "a: " + "[" * 2000 + "]" * 2000])
def test_thousands_of_levels_are_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text(text)
    with pytest.raises(GramError, match=r"is not valid YAML|does not fit|unknown key"):
        load_recipe(path)
    path.write_text("train: {steps: 3}")
    with pytest.raises(GramError):
        load_recipe(path, [f"train.steps={'[' * 2000}{']' * 2000}"])


@pytest.mark.parametrize("key", ["train.steps", "model.dim", "eval.width", "task.options.size"])
def test_numbers_that_do_not_fit_64_bits_are_named(tmp_path: Path, key: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("train: {steps: 3}")
    with pytest.raises(GramError, match=f"{key} is too large a number"):
        load_recipe(path, [f"{key}={2**63}"])


def test_what_a_recipe_does_not_say_is_the_default(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, "short.yaml", "task: {name: nqueens}")) == Recipe()


def test_overrides_win_over_the_file(good: Path) -> None:
    recipe = load_recipe(good, ["train.lr=3e-4", "model.log_sigma_range=[-3,1]", "task.options.seed=1"])
    assert recipe.train.lr == 3e-4
    assert recipe.train.steps == 5
    assert recipe.model.log_sigma_range == (-3.0, 1.0)
    assert recipe.task.options == {"size": 4, "seed": 1}


def test_null_takes_an_inherited_value_back(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", "objective: {beta: 2.0, beta_final: 1.0}\n")
    path = write(tmp_path, "child.yaml", "base: base.yaml\nobjective: {beta_final: null}\n")
    assert load_recipe(path).objective.beta_final is None
    assert load_recipe(tmp_path / "base.yaml", ["objective.beta_final=null"]).objective.beta_final is None


def test_a_chain_of_bases_merges_section_by_section(tmp_path: Path) -> None:
    (tmp_path / "family").mkdir()
    write(tmp_path, "first.yaml", "model: {dim: 32, layers: 3}\ntrain: {steps: 7}\ntask: {options: {size: 4}}\n")
    # The second stands elsewhere: a base is relative to the file that names it, not to where the command is run.
    write(tmp_path / "family", "second.yaml", "base: ../first.yaml\nmodel: {layers: 4}\ntask: {options: {seed: 3}}\n")
    recipe = load_recipe(write(tmp_path / "family", "third.yaml", "base: second.yaml\ntrain: {slots: 9}\n"))
    assert (recipe.model.dim, recipe.model.layers) == (32, 4)
    assert (recipe.train.steps, recipe.train.slots) == (7, 9)
    assert recipe.task.options == {"size": 4, "seed": 3}


def test_later_bases_of_a_list_win_over_earlier_ones_and_the_file_over_all(tmp_path: Path) -> None:
    write(tmp_path, "task.yaml", "task: {options: {size: 4}}\nmodel: {dim: 32, layers: 3}\ntrain: {steps: 7}\n")
    write(tmp_path, "kind.yaml", "model: {layers: 4, transitions: 3}\n")
    recipe = load_recipe(write(tmp_path, "both.yaml", "base: [task.yaml, kind.yaml]\nmodel: {transitions: 1}\n"))
    assert (recipe.model.dim, recipe.model.layers, recipe.model.transitions) == (32, 4, 1)
    assert (recipe.task.options, recipe.train.steps) == ({"size": 4}, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trian: {steps: 5}", "unknown key 'trian'"),
        ("train: {step: 5}", "unknown key 'train.step'"),
        ("train: {steps: many}", "train.steps must be a valid integer"),
        ("train: {steps: 1.5}", "train.steps must be a valid integer"),
        ("train: {steps: 0}", "train.steps must be greater than or equal to 1"),
        ("train: 5", "train must be a valid dictionary"),
        ("train: {betas: [0.9]}", "train.betas"),
        ("model: {guidance: gauss}", "model.guidance must be 'none', 'gaussian'"),
        ("model: {mixing: attention, dim: 60, heads: 8}", "dim 60 must be a multiple of 2 x heads"),
        ("model: {positions: rope}", "positions 'rope' needs mixing 'attention'"),
        ("model: {puzzles: 16}", "puzzles without puzzle_tokens"),
        ("- train", "must hold sections such as 'task:' and 'model:'"),
        ("train: [1", "is not valid YAML"),
        ("train: {steps: 1}\ntrain: {steps: 2}", "is not valid YAML"),
        ("train: {steps: '${nowhere}'}", "Interpolation key 'nowhere' not found"),
        ("base: nowhere.yaml", "There is no recipe at .*nowhere.yaml"),
        ("base: bad.yaml", "bad.yaml is its own base"),
    ],
)
def test_a_bad_recipe_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(GramError, match=message):
        load_recipe(write(tmp_path, "bad.yaml", text))


def test_every_wrong_key_is_named_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "bad.yaml", "model: {depth: 3}\ntrain: {rate: 1, steps: x}\n")
    with pytest.raises(GramError) as caught:
        load_recipe(path)
    for part in (str(path), "'model.depth'", "'train.rate'", "train.steps"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.rate=1", "unknown key 'train.rate'"),
        ("steps=1", "unknown key 'steps'"),
        ("train.steps=", "train.steps"),
        ("train.steps=x", "train.steps must be a valid integer"),
        ("train.steps", "'train.steps' is not of the form key=value"),
        ("train.steps=[1", "train.steps="),
    ],
)
def test_a_bad_override_says_what_is_wrong(good: Path, override: str, message: str) -> None:
    with pytest.raises(GramError, match=message):
        load_recipe(good, [override])


def test_bases_that_go_round_in_a_circle_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "one.yaml", "base: two.yaml\n")
    write(tmp_path, "two.yaml", "base: one.yaml\n")
    with pytest.raises(GramError, match="its own base"):
        load_recipe(tmp_path / "one.yaml")


def test_missing_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GramError, match=r"There is no recipe '.*none\.yaml'"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(GramError, match="There is no recipe '"):
        load_recipe(tmp_path)  # a folder
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(GramError, match="is not valid YAML"):
        load_recipe(tmp_path / "binary.yaml")


def test_a_recipe_cannot_be_changed_after_loading(good: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_recipe(good).train.steps = 6  # type: ignore[misc]


def test_a_shipped_recipe_is_found_by_name_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_recipe("nqueens-8/gram", ["train.steps=7"]).train.steps == 7
    write(tmp_path, "mine.yaml", "task: {name: colouring-8}\n")
    assert load_recipe("mine.yaml").task.name == "colouring-8"  # a path still works
    write(tmp_path, "variant.yaml", "base: nqueens-8/gram\nmodel: {guidance: none}\n")
    assert load_recipe("variant.yaml").train == load_recipe("nqueens-8/gram").train
    with pytest.raises(GramError, match=r"'nqueens-8/grim'; for nqueens-8 there are .*gram.*trm"):
        load_recipe("nqueens-8/grim")
    with pytest.raises(GramError, match=r"one of the folders .*nqueens-8"):
        load_recipe("chess")
    with pytest.raises(GramError, match="There is no recipe"):
        load_recipe("../../pyproject")


def test_another_task_does_not_inherit_the_options_of_the_base(tmp_path: Path) -> None:
    write(tmp_path, "queens.yaml", "task: {name: nqueens, options: {size: 8, seed: 3}}\ntrain: {steps: 7}\n")
    write(tmp_path, "other.yaml", "base: queens.yaml\ntask: {name: colouring, options: {size: 6}}\n")
    write(tmp_path, "same.yaml", "base: queens.yaml\ntask: {options: {size: 6}}\n")
    assert load_recipe(tmp_path / "other.yaml").task.options == {"size": 6}
    assert load_recipe(tmp_path / "other.yaml").train.steps == 7
    assert load_recipe(tmp_path / "same.yaml").task.options == {"size": 6, "seed": 3}
    assert load_recipe(tmp_path / "queens.yaml", ["task.name=sudoku-hard"]).task.options == {}
    assert load_recipe(tmp_path / "queens.yaml", ["task.name=nqueens"]).task.options == {"size": 8, "seed": 3}
