"""What clients and machines do to a service: it answers, frees what it held, and stops when it is told to."""

import asyncio
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gram.serve.server import Server
from gram.serve.settings import Limits, Settings, served_names
from tests.serve.helpers import Running, served

PUZZLE = "Q..../...../...../...../....."
DRAIN = 2


@pytest.fixture(scope="module")
def server(queens_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = ("--max-depth", "1000000", "--max-seconds", "60")
    with served(tmp_path_factory.mktemp("faults"), queens_folder, *limits) as running:
        running.until_ready()
        for _ in range(3):  # what is allocated on first use is allocated
            ask(running, queens_folder)
        yield running


def ask(server: Running, folder: Path, **changes: object) -> httpx.Response:
    body = {"model": folder.name, "puzzle": PUZZLE, "width": 20, "depth": 10, **changes}
    return httpx.post(f"{server.address}/v1/solve", json=body, timeout=60)


def metric(server: Running, name: str) -> float:
    text = httpx.get(f"{server.address}/metrics").text
    return float(re.search(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)[1])  # type: ignore[index]


def wait_until(condition: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_rows(server: Running, queens_folder: Path, stream: bool) -> None:
    cancelled, memory = metric(server, "gram_cancelled_requests_total"), server.memory()
    body = json.dumps(
        {
            "model": queens_folder.name,
            "puzzle": PUZZLE,
            "width": 100,
            "depth": 1_000_000,
            "stream": stream,
            "latent": stream,
        }
    )
    host, port = server.address.removeprefix("http://").split(":")
    for _ in range(5):
        with socket.create_connection((host, int(port))) as client:
            head = (
                f"POST /v1/solve HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
            )
            client.sendall(f"{head}\r\n\r\n{body}".encode())
            if stream:
                assert b"200 OK" in client.recv(4096)
            wait_until(lambda: metric(server, "gram_batch_rows") > 0)
    wait_until(lambda: metric(server, "gram_cancelled_requests_total") == cancelled + 5)
    assert metric(server, "gram_pending_requests") == 0
    started = time.monotonic()
    assert ask(server, queens_folder).status_code == 200
    assert time.monotonic() - started < 10
    assert server.memory() < 1.1 * memory


def test_a_body_of_ten_megabytes_is_refused_without_being_read(server: Running, queens_folder: Path) -> None:
    memory = server.memory()
    for headers in ({}, {"transfer-encoding": "chunked"}):
        content = b" " * 10_000_000 if not headers else iter([b" " * 100_000] * 100)
        try:
            answer = httpx.post(f"{server.address}/v1/solve", content=content, headers=headers)
            assert answer.status_code == 413
        except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            pass  # the connection was closed while the client was still sending
    assert server.memory() < 1.1 * memory
    assert ask(server, queens_folder).status_code == 200


def test_a_thousand_idle_connections_keep_nobody_out(server: Running, queens_folder: Path) -> None:
    memory = server.memory()
    host, port = server.address.removeprefix("http://").split(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(1000)]
    try:
        assert ask(server, queens_folder).status_code == 200
    finally:
        for each in idle:
            each.close()
    assert ask(server, queens_folder).status_code == 200
    assert server.memory() < 1.1 * memory


def test_a_connection_that_asks_nothing_is_closed(queens_folder: Path) -> None:
    server = Server(Settings(served_names([str(queens_folder)]), limits=Limits(idle=1)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with socket.create_connection(listener.getsockname()) as silent:
                silent.settimeout(20)
                assert silent.recv(1) == b""  # closed by the server
        finally:
            server.should_exit = True
            thread.join(30)
    assert not thread.is_alive()


def test_sigterm_under_load_answers_what_is_under_way_and_ends(queens_folder: Path, tmp_path: Path) -> None:
    limits = ("--max-depth", "1000000", "--drain-seconds", str(DRAIN))
    with served(tmp_path, queens_folder, *limits) as server:
        server.until_ready()
        answers: list[httpx.Response] = []

        async def crowd() -> None:
            body = {"model": queens_folder.name, "puzzle": PUZZLE, "width": 5, "depth": 1_000_000}
            async with httpx.AsyncClient(timeout=60) as client:
                under_way = [
                    asyncio.create_task(client.post(f"{server.address}/v1/solve", json=body | {"stream": stream}))
                    for stream in (False, True) * 10
                ]
                while (await client.get(f"{server.address}/metrics")).text.count("gram_pending_requests 20.0") < 1:
                    await asyncio.sleep(0.05)
                server.process.send_signal(signal.SIGTERM)
                answers.extend(await asyncio.gather(*under_way))

        asyncio.run(crowd())
        assert server.process.wait(DRAIN + 10) == 0
    assert len(answers) == 20
    assert all(answer.status_code == 200 for answer in answers)
    for answer in answers:
        last = answer.json() if answer.text.startswith("{") else json.loads(answer.text.strip().rpartition("data: ")[2])
        assert "seconds are the limit" in last["stopped"]
        assert len(last["trajectories"]) == 5
    log = [json.loads(line) for line in (tmp_path / "serve.log").read_text().splitlines()]
    assert not [line for line in log if line["level"] == "error"]


def test_a_model_that_cannot_be_loaded_ends_the_command_with_one_sentence(tmp_path: Path) -> None:
    with served(tmp_path, "nowhere") as server:
        assert server.process.wait(60) == 1
    assert "Error: There is no model 'nowhere'" in (tmp_path / "serve.log").read_text()
