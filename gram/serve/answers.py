"""Answers and events as JSON."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gram.inference.estimate import Estimate, estimate
from gram.inference.judge import judge
from gram.inference.select import distinct
from gram.models.base import Steps
from gram.serve.run import Order, Outcome
from gram.tasks.base import Task, Tokens

Floats = NDArray[np.floating[Any]]

DIGITS = 4
"""Digits after the point of values and latent states."""


def encode(content: Any) -> bytes:
    """Return compact JSON; not-a-number is an error and never sent."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def answer(order: Order, outcome: Outcome) -> dict[str, Any]:
    """Return the results in the form of `schemas.Answer`."""
    result, found = outcome.result, outcome.result.trajectories
    task = result.task
    judged = _judged(task, order, outcome.numbers, found.outputs[0], found.values[0], found.confidence[0])
    solutions = zip(result.distinct, result.counts.tolist(), strict=True) if task.has_rules else ()
    return {
        "request_id": order.request_id,
        "model": order.model,
        "task": task.name,
        "given": result.given.tolist(),
        "settings": settings_of(order) | {"width": len(outcome.numbers)},
        "checked": task.has_rules,
        "best": {
            "tokens": result.best.tolist(),
            "text": task.render(result.best, result.given),
            "verified": bool(result.verified and task.has_rules),
            "chosen_by": result.chosen_by,
        },
        "solutions": [
            {"tokens": tokens.tolist(), "text": task.render(tokens, result.given), "count": count}
            for tokens, count in solutions
        ],
        "estimate": None if result.estimate is None else as_json(result.estimate),
        "trajectories": _rows(judged | {"steps": found.steps[0]}),
        "stopped": result.stopped,
        "seconds": round(outcome.seconds, DIGITS),
    }


def settings_of(order: Order) -> dict[str, Any]:
    """Return the sampling options that determine the answer."""
    options = {name: getattr(order.options, name) for name in ("width", "depth", "temperature", "seed", "halt")}
    until = order.until
    if until is None:
        return {**options, "until": None}
    amounts = {"seconds": f"{until.amount:g}s", "samples": f"{until.amount:g}"}
    return {**options, "until": amounts.get(until.kind, until.kind)}


def as_json(found: Estimate) -> dict[str, Any]:
    """Return an estimate in the form of `schemas.EstimateOfSolutions`."""
    return {
        "seen": found.seen,
        "samples": found.samples,
        "solutions": round(found.chao1, DIGITS),
        "low": found.low,
        "high": found.high,
        "known_next": round(found.good_turing, DIGITS),
    }


class Watch:
    """Turns the steps of a streamed request into events, and counts the solutions as they appear."""

    def __init__(self, task: Task, order: Order) -> None:
        self.task, self.order = task, order
        self.solved: dict[int, Tokens] = {}
        """the verified output of each trajectory that has one now"""

    def start(self) -> bytes:
        """Return the first event, with the settings of the request."""
        content = {
            "request_id": self.order.request_id,
            "model": self.order.model,
            "task": self.task.name,
            "given": self.order.given.tolist(),
            "settings": settings_of(self.order),
        }
        return event("start", content)

    def step(self, made: Steps) -> bytes:
        """Return the event of one supervision step of a block of trajectories."""
        columns = _judged(self.task, self.order, made.trajectory, made.outputs, made.values, made.confidence)
        columns |= {"ended": made.ended, "halted": made.halted}
        if self.order.latent:
            columns["latent"] = _rounded(made.h.numpy())
        content = {"step": int(made.step[0]), "rows": _rows(columns)}
        if self.task.has_rules:
            content["estimate"] = as_json(self._estimate(made.trajectory, columns["output"], columns["valid"]))
        return event("step", content)

    def _estimate(self, numbers: Tokens, outputs: Tokens, valid: NDArray[np.bool_]) -> Estimate:
        for number, output, right in zip(numbers.tolist(), outputs, valid.tolist(), strict=True):
            if right:
                self.solved[number] = output
            else:
                self.solved.pop(number, None)
        if not self.solved:
            return estimate(np.zeros(0, dtype=np.int64))
        return estimate(distinct(np.stack(list(self.solved.values())))[1])


def event(name: str, content: Any) -> bytes:
    """Return a server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode(content))


def small(made: Steps) -> Steps:
    """Shrink a step that may wait for a slow client: tokens fit into 16 bits."""
    return replace(made, outputs=made.outputs.astype(np.int16))


def _judged(
    task: Task, order: Order, numbers: Tokens, outputs: Tokens, values: Floats, confidence: Floats
) -> dict[str, NDArray[Any]]:
    """Verify outputs [rows, length] of trajectories [rows]; return what the page shows of them, by column."""
    judged = judge(task, order.given, outputs)
    return {
        "trajectory": numbers,
        "output": judged.outputs,
        "value": _rounded(values),
        "confidence": _rounded(confidence),
        "valid": judged.valid,
        "conflicts": judged.conflicts,
    }


def _rounded(values: Floats) -> Floats:
    return np.round(values.astype(np.float64), DIGITS)


def _rows(columns: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Turn arrays, which share their first axis, into one dictionary per row."""
    lists = [array.tolist() for array in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
