"""The HTTP interface: what it answers, what it refuses and how it says so."""

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gram.config import Recipe
from gram.errors import GramError
from gram.models.rollout import Batch
from gram.serve import schemas
from gram.serve.app import create_app
from gram.serve.server import serve
from gram.serve.service import Service
from gram.serve.settings import Limits, Settings, read_token, served_names
from gram.solver import load
from tests.serve.helpers import client_of, running_service, save_random_model

Call = Callable[..., httpx.Response]
QUEENS = "Q..../...../...../...../....."
SMALL = Limits(width=50, depth=20, body=2000, queue=2)


@pytest.fixture(scope="module")
def folders(
    queens_folder: Path, queens_recipe: Callable[..., Recipe], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("served")
    changes = {
        "digits": {"task": {"name": "digits", "options": {}}},
        "colouring": {"task": {"name": "colouring", "options": {"size": 4}}},
        "trm": {"model": {"guidance": "none"}},
    }
    made = {name: save_random_model(queens_recipe(**change), root / name) for name, change in changes.items()}
    return {"queens": queens_folder, **made}


@pytest.fixture(scope="module")
def app(folders: dict[str, Path]) -> Iterator[tuple[Service, object]]:
    with running_service(*folders.values(), limits=SMALL) as running:
        yield running


@pytest.fixture
def call(app: tuple[Service, object]) -> Call:
    """call("POST", "/v1/solve", model=..., ...): the answer."""

    def send(
        method: str, path: str, *, content: bytes | None = None, headers: Any = None, **body: Any
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with client_of(app[1]) as client:
                more = {"content": content} if content is not None else {"json": body} if body else {}
                return await client.request(method, path, headers=headers, **more)

        return asyncio.run(ask())

    return send


def events_of(response: httpx.Response) -> list[tuple[str, Any]]:
    parts = re.findall(r"event: (\w+)\ndata: (.*)\n\n", response.text)
    return [(name, json.loads(data)) for name, data in parts]


def test_models_and_tasks_are_described(call: Call, folders: dict[str, Path]) -> None:
    models = schemas.Models.model_validate(call("GET", "/v1/models").json())
    found = {model.name: model for model in models.models}
    assert list(found) == list(folders)
    assert {name: (model.kind, model.random) for name, model in found.items()} == {
        "queens": ("solve", True),
        "digits": ("generate", True),
        "colouring": ("solve", True),
        "trm": ("solve", False),
    }
    assert found["queens"].board == {"kind": "nqueens", "rows": 5, "columns": 5}
    assert models.limits["width"] == SMALL.width
    tasks = schemas.Tasks.model_validate(call("GET", "/v1/tasks").json()).tasks
    assert [task.name for task in tasks] == ["nqueens-5", "digits", "colouring-4"]
    assert len(tasks[0].models) == 2
    assert call("GET", "/readyz").json() == {"status": "ready"}
    assert call("GET", "/healthz").json() == {"status": "ok"}


def test_an_answer_is_the_solvers_result(call: Call, folders: dict[str, Path]) -> None:
    answer = call("POST", "/v1/solve", model="queens", puzzle=QUEENS, width=7, depth=3, seed=4)
    assert answer.status_code == 200
    found = schemas.Answer.model_validate(answer.json())
    alone = load(folders["queens"]).solve(QUEENS, width=7, depth=3, seed=4)
    assert [row.output for row in found.trajectories] == alone.trajectories.outputs[0].tolist()
    assert [row.valid for row in found.trajectories] == alone.valid.tolist()
    assert found.best.verified == alone.verified
    assert found.best.tokens == alone.best.tolist()
    assert found.settings == {"width": 7, "depth": 3, "temperature": 1.0, "seed": 4, "halt": False, "until": None}


def test_a_stream_has_every_step_and_ends_with_the_same_answer(call: Call, folders: dict[str, Path]) -> None:
    ask = {"model": "queens", "puzzle": QUEENS, "width": 5, "depth": 4}
    events = events_of(call("POST", "/v1/solve", **ask, stream=True, latent=True))
    assert [name for name, _ in events] == ["start"] + ["step"] * 4 + ["result"]
    assert [content["step"] for name, content in events if name == "step"] == [1, 2, 3, 4]
    assert all(len(row["latent"]) == 16 for _, content in events[1:-1] for row in content["rows"])
    whole = call("POST", "/v1/solve", **ask).json()
    own = events[-1][1]
    assert {key: own[key] for key in own if key not in ("request_id", "seconds")} == {
        key: whole[key] for key in whole if key not in ("request_id", "seconds")
    }


def test_generation_needs_no_puzzle_and_verifies_nothing_without_rules(call: Call, folders: dict[str, Path]) -> None:
    answer = schemas.Answer.model_validate(call("POST", "/v1/generate", model="digits", width=3, until="2").json())
    assert not answer.checked
    assert not answer.best.verified
    assert answer.solutions == []
    assert answer.estimate is None
    assert len(answer.trajectories) == 2


def test_a_deterministic_model_draws_one_trajectory(call: Call, folders: dict[str, Path]) -> None:
    answer = call("POST", "/v1/solve", model="trm", puzzle=QUEENS, width=9).json()
    assert len(answer["trajectories"]) == answer["settings"]["width"] == 1


@pytest.mark.parametrize(
    ("model", "changes", "sentence"),
    [
        ("queens", {"puzzle": "Q"}, "The board has 1 cells, but 25 are expected."),
        ("queens", {"puzzle": "QQ.../...../...../...../....."}, r"The queens at row 1.* attack each other.*\."),
        ("queens", {"width": 51}, "width must be at most 50 here, not 51."),
        ("queens", {"depth": 0}, r"Depth: .*greater than or equal to 1\."),
        ("queens", {"width": "many"}, r"Width: .*integer.*\."),
        ("queens", {"until": "soon"}, r"`until` must be first, all.*'soon'\."),
        ("queens", {"until": "51"}, r".*up to 50 here.*"),
        ("queens", {"until": "31s"}, r".*at most 30 seconds.*"),
        ("queens", {"colour": "red"}, r"Colour: Extra inputs are not permitted\."),
        ("trm", {"temperature": 1.0}, r".*temperature.*"),
        ("digits", {"puzzle": "7"}, r".*unconditionally and takes no puzzle.*"),
        ("digits", {"puzzle": "", "until": "all"}, r".*has no checker.*"),
        ("colouring", {"puzzle": "0-9"}, r"The graph has 10 vertices.*\."),
        ("colouring", {"puzzle": "/etc/passwd.col"}, r"A graph must be written as its edges.*\."),
        ("colouring", {"puzzle": "secret.col"}, r"A graph must be written as its edges.*\."),
    ],
)
def test_bad_input_is_422_with_one_sentence(
    call: Call, folders: dict[str, Path], model: str, changes: dict[str, Any], sentence: str
) -> None:
    answer = call("POST", "/v1/solve", **{"model": model, "puzzle": QUEENS, **changes})
    assert answer.status_code == 422
    error = schemas.Error.model_validate(answer.json())
    assert re.fullmatch(sentence, error.error, re.IGNORECASE), error.error
    assert error.request_id == answer.headers["x-request-id"]


def test_only_models_named_at_the_start_are_served(call: Call) -> None:
    answer = call("POST", "/v1/solve", model="nqueens-8", puzzle=QUEENS)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("There is no model 'nqueens-8'.")


def test_bodies_and_paths_that_make_no_sense(call: Call) -> None:
    as_json = {"content-type": "application/json"}
    assert call("POST", "/v1/solve", content=b"{", headers=as_json).json()["error"] == "The body is not JSON."
    assert call("POST", "/v1/solve", content=b"\xff\xfe", headers=as_json).status_code == 422
    for headers in (None, as_json):  # a form on another site can send the first, but never the second
        answer = call("POST", "/v1/solve", content=b"[]", headers=headers)
        assert answer.json()["error"] == "The body must be a JSON object, sent as application/json."
    large = call("POST", "/v1/solve", content=b" " * 3000)
    assert (large.status_code, large.json()["error"]) == (413, "The body must have at most 2000 bytes.")
    assert call("GET", "/v1/nothing").status_code == 404
    assert call("GET", "/static/../settings.py").status_code == 404
    assert call("GET", "/v1/solve").status_code == 405


def test_every_answer_has_safe_headers_and_names_no_other_host(call: Call) -> None:
    for path in ("/", "/docs", "/static/app.js", "/openapi.json", "/v1/models", "/nothing"):
        answer = call("GET", path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    for path in ("/", "/docs", "/static/style.css", "/static/app.js", "/static/docs.js"):
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//|@import|url\(", call("GET", path).text)


def test_assets_are_not_sent_twice(call: Call) -> None:
    first = call("GET", "/static/app.js")
    assert call("GET", "/static/app.js", headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_metrics_count_requests_and_steps(call: Call, folders: dict[str, Path]) -> None:
    call("POST", "/v1/solve", model="queens", puzzle=QUEENS)
    text = call("GET", "/metrics").text
    assert re.search(r'gram_requests_total\{path="/v1/solve",status="200"\} [1-9]', text)
    assert re.search(r'gram_row_steps_total\{model=".*queens"\} [1-9]', text)
    assert "gram_pending_requests 0.0" in text


def test_a_full_queue_is_503_and_says_when_to_come_back(app: tuple[Service, object], folders: dict[str, Path]) -> None:
    async def crowd() -> list[httpx.Response]:
        async with client_of(app[1]) as client:
            ask = {"model": "queens", "puzzle": QUEENS, "width": 50, "depth": 20}
            return await asyncio.gather(*(client.post("/v1/solve", json=ask) for _ in range(6)))

    answers = asyncio.run(crowd())
    assert sorted(answer.status_code for answer in answers) == [200] * 2 + [503] * 4
    full = next(answer for answer in answers if answer.status_code == 503)
    assert full.json()["error"] == "The service is full."
    assert 1 <= int(full.headers["retry-after"]) <= 60
    assert app[0].pending == 0


def test_a_model_that_raises_is_a_500_with_one_sentence(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Batch) -> None:
        raise RuntimeError("secret of the machine")

    ask = {"model": "queens", "puzzle": QUEENS}
    with monkeypatch.context() as patch:
        patch.setattr(Batch, "advance", broken)
        whole, streamed = call("POST", "/v1/solve", **ask), call("POST", "/v1/solve", **ask, stream=True)
    assert (whole.status_code, whole.json()["error"]) == (500, "The model failed, and the log of the service says why.")
    name, content = events_of(streamed)[-1]
    assert (name, content["status"]) == ("error", 500)
    assert "secret" not in whole.text + streamed.text
    assert call("POST", "/v1/solve", **ask).status_code == 200


def test_a_token_guards_the_api_but_not_the_page(folders: dict[str, Path]) -> None:
    async def ask(app: object, path: str, **headers: str) -> int:
        async with client_of(app, **headers) as client:
            return (await client.get(path)).status_code

    with running_service(folders["queens"], token="open-sesame") as (_, app):
        for authorization in ("", "Bearer", "Bearer no", "Basic open-sesame", "Bearer open-sesame2"):
            assert asyncio.run(ask(app, "/v1/models", authorization=authorization)) == 401
            assert asyncio.run(ask(app, "/metrics", authorization=authorization)) == 401
        assert asyncio.run(ask(app, "/v1/models", authorization="Bearer open-sesame")) == 200
        assert [asyncio.run(ask(app, path)) for path in ("/", "/healthz", "/readyz")] == [200, 200, 200]


def test_a_model_that_is_loading_or_a_service_that_stops_is_503(folders: dict[str, Path]) -> None:
    service = Service(Settings(served_names([str(folders["queens"])])))
    app = create_app(service)

    async def ask() -> list[httpx.Response]:
        async with client_of(app) as client:
            body = {"model": "queens", "puzzle": QUEENS}
            loading = [await client.post("/v1/solve", json=body), await client.get("/readyz"), await client.get("/")]
            service.stopping = True
            return [*loading, await client.post("/v1/solve", json=body)]

    solve, ready, page, stopping = asyncio.run(ask())
    assert (solve.status_code, solve.headers["retry-after"]) == (503, "1")
    assert solve.json()["error"].endswith("is still loading.")
    assert (ready.status_code, ready.json()) == (503, {"status": "loading"})
    assert page.status_code == 200
    assert (stopping.status_code, stopping.json()["error"]) == (503, "The service is stopping.")


def test_token_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    assert read_token(tmp_path / "token") == "secret"
    (tmp_path / "two").write_text("two words")
    for name in ("two", "missing"):
        with pytest.raises(GramError, match="token file"):
            read_token(tmp_path / name)


def test_a_service_that_cannot_start_says_why() -> None:
    with pytest.raises(GramError, match="Name at least one model"):
        serve(Settings({}), print)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(GramError, match=r"Cannot listen on 127\.0\.0\.1, port \d+ .*: choose another"):
            serve(Settings({"queens": "queens"}, port=taken.getsockname()[1]), print)
    with pytest.raises(GramError, match="limit 'queue' must be a number above 0"):
        Limits(queue=0)


def test_a_folder_is_served_by_its_own_name(tmp_path: Path) -> None:
    for place in ("a/queens", "b/queens"):
        (tmp_path / place).mkdir(parents=True)
    first, second = str(tmp_path / "a" / "queens"), str(tmp_path / "b" / "queens")
    assert served_names(["nqueens-8", first, first]) == {"nqueens-8": "nqueens-8", "queens": first}
    with pytest.raises(GramError, match="both be served as 'queens'"):
        served_names([first, second])
