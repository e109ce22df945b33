"""The engine: requests share a batch, and none can tell."""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gram.errors import GramError
from gram.inference.anytime import Until
from gram.models.base import Steps
from gram.serve.engine import Engine
from gram.serve.errors import ModelFailed, Overloaded
from gram.serve.metrics import Metrics
from gram.serve.run import BLOCK, Order, Outcome
from gram.solver import Solver, load

MODEL = "queens"


@pytest.fixture(scope="module")
def solver(queens_folder: Path) -> Solver:
    return load(queens_folder)


@pytest.fixture
def engine(solver: Solver) -> Iterator[Engine]:
    engine = Engine(Metrics())
    engine.add_model(MODEL, solver)
    engine.start()
    yield engine
    engine.stop()


@pytest.fixture
def puzzles(solver: Solver) -> np.ndarray:
    return solver.task.split("train").distinct(12).inputs


@pytest.fixture
def ask(engine: Engine, solver: Solver) -> Callable[..., tuple[threading.Event, queue.SimpleQueue[Any]]]:
    """Hand in a request, and get its cancelled and what comes back."""

    def submit(
        given: np.ndarray, until: str | None = None, seconds: float = 60, stream: bool = False, **options: Any
    ) -> tuple[threading.Event, queue.SimpleQueue[Any]]:
        news: queue.SimpleQueue[Any] = queue.SimpleQueue()
        goal = None if until is None else Until.parse(until)
        order = Order("id", MODEL, given, solver.with_options(**options), goal, seconds, stream, stream)
        return engine.submit(order, news.put), news

    return submit


def last(news: "queue.SimpleQueue[Any]") -> Any:
    while isinstance(item := news.get(timeout=60), Steps):
        pass
    return item


def test_each_answer_is_what_the_solver_alone_would_give(solver: Solver, puzzles: np.ndarray, ask: Any) -> None:
    wishes = [
        {
            "width": 1 + 9 * number,
            "depth": 1 + number % 5,
            "seed": number,
            "temperature": number / 4,
            "halt": number % 3 == 0,
        }
        for number in range(len(puzzles))
    ]
    coming = [ask(given, **wish)[1] for given, wish in zip(puzzles, wishes, strict=True)]
    for given, wish, news in zip(puzzles, wishes, coming, strict=True):
        outcome: Outcome = last(news)
        alone = solver.solve(given, **wish)
        if wish["temperature"] == 0:  # all trajectories are the same, so one was drawn
            alone = solver.solve(given, **{**wish, "width": 1})
        assert np.array_equal(outcome.result.trajectories.outputs, alone.trajectories.outputs)
        assert np.array_equal(outcome.result.trajectories.steps, alone.trajectories.steps)
        assert np.array_equal(outcome.result.best, alone.best)
        assert outcome.result.stopped == ""


@pytest.mark.parametrize("until", ["first", "all"])
def test_a_search_ends_alike_alone_and_in_company(puzzles: np.ndarray, ask: Any, until: str) -> None:
    alone = last(ask(puzzles[0], until, depth=3)[1]).result
    crowd = [ask(given, width=40, depth=7, seed=5)[1] for given in puzzles]
    beside = last(ask(puzzles[0], until, depth=3)[1]).result
    assert np.array_equal(alone.trajectories.outputs, beside.trajectories.outputs)
    assert alone.stopped == beside.stopped != ""
    for news in crowd:
        last(news)


def test_a_stream_reports_every_step_of_a_block_in_order(solver: Solver, puzzles: np.ndarray, ask: Any) -> None:
    crowd = [ask(given, width=30, depth=3) for given in puzzles]
    _, news = ask(puzzles[0], width=BLOCK + 8, depth=5, seed=3, stream=True)
    kept = solver.solve(puzzles[0], width=BLOCK + 8, depth=5, seed=3, keep_steps=True).trajectories
    reports = []
    while isinstance(item := news.get(timeout=60), Steps):
        reports.append(item)
    assert len(reports) == 2 * 5  # two blocks
    for made in reports:
        assert len(set(made.step.tolist())) == 1
        assert list(made.trajectory) == sorted(made.trajectory)
        assert made.h.shape == (len(made.trajectory), 16)  # a sketch of the states
        for number, step, output in zip(made.trajectory, made.step, made.outputs, strict=True):
            assert np.array_equal(output, kept.step_outputs[0, number, step - 1])
    for _, others in crowd:
        last(others)


def test_a_cancelled_request_frees_its_rows(engine: Engine, puzzles: np.ndarray, ask: Any) -> None:
    cancelled, news = ask(puzzles[0], width=200, depth=100_000, stream=True)
    news.get(timeout=60)
    assert len(engine.lanes[MODEL].runs) == 1
    cancelled.set()
    assert isinstance(last(ask(puzzles[1], width=2)[1]), Outcome)
    assert not engine.lanes[MODEL].runs
    assert not engine.lanes[MODEL].batch.puzzles
    assert not len(engine.lanes[MODEL].batch.puzzle)


def test_a_request_out_of_time_gets_what_there_is(puzzles: np.ndarray, ask: Any) -> None:
    outcome: Outcome = last(ask(puzzles[0], seconds=0.3, width=5, depth=1_000_000)[1])
    assert outcome.result.stopped == "0.3 seconds are the limit"
    assert list(outcome.numbers) == [0, 1, 2, 3, 4]
    assert isinstance(last(ask(puzzles[0], seconds=1e-9)[1]), Overloaded)


def test_a_large_request_does_not_hold_up_a_small_one(puzzles: np.ndarray, ask: Any) -> None:
    cancelled, large = ask(puzzles[0], width=4000, depth=50)
    assert isinstance(last(ask(puzzles[1], width=1, depth=2)[1]), Outcome)
    assert large.empty()
    cancelled.set()


def test_a_model_that_raises_fails_its_requests_and_goes_on(
    engine: Engine, puzzles: np.ndarray, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = engine.lanes[MODEL]
    assert isinstance(last(ask(puzzles[0])[1]), Outcome)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(type(lane.batch), "advance", broken)
        assert all(isinstance(last(ask(given)[1]), ModelFailed) for given in puzzles[:3])
    assert isinstance(last(ask(puzzles[0])[1]), Outcome)
    assert lane.metrics.registry.get_sample_value("gram_model_errors_total", {"model": MODEL}) >= 1


def test_a_budget_too_small_for_a_step_is_refused(
    engine: Engine, puzzles: np.ndarray, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = last(ask(puzzles[0], "0.0000001s")[1])
    assert isinstance(error, GramError)
    assert "too small" in str(error)
    assert not engine.lanes[MODEL].runs


def test_options_that_a_batch_must_share_are_the_models_own(solver: Solver, ask: Any, puzzles: np.ndarray) -> None:
    outcome = last(ask(puzzles[0])[1])
    assert replace(outcome.result.options, width=solver.options.width) == solver.options
