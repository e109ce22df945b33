"""Small models in folders, an app in this process, and servers in processes of their own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import torch

from gram.checkpoints.folder import save_model
from gram.config import Recipe
from gram.models.registry import build_model
from gram.serve.app import create_app
from gram.serve.service import Service
from gram.serve.settings import Limits, Settings, served_names
from gram.tasks import make_task

ROOT = Path(__file__).parents[2]


def save_random_model(recipe: Recipe, folder: Path, seed: int = 0) -> Path:
    """Write a model as it is before training: with heads that are drawn at random, so that some rows halt."""
    task = make_task(recipe.task.name, **recipe.task.options)
    torch.manual_seed(seed)
    model = build_model(recipe, vocab_size=task.vocab_size, length=task.length, structure=task.structure)
    torch.nn.init.normal_(model.decoder.halt.weight)
    torch.nn.init.normal_(model.decoder.value.weight)
    save_model(folder, model, recipe)
    return folder


@contextmanager
def running_service(
    *models: str | Path, token: str | None = None, limits: Limits | None = None
) -> Iterator[tuple[Service, object]]:
    """A service in this process with its app; all models are ready."""
    settings = Settings(served_names(map(str, models)), token=token, limits=limits or Limits())
    service = Service(settings)
    service.start()
    try:
        while service.loader.is_alive() and not service.is_ready:
            time.sleep(0.02)
        yield service, create_app(service)
    finally:
        service.stop()


def client_of(app: object, **headers: str) -> httpx.AsyncClient:
    """A client of an app in this process."""
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers, timeout=60)


@dataclass
class Running:
    """`gram serve` in a process of its own."""

    address: str
    process: subprocess.Popen[str]
    log: Path

    def memory(self) -> int:
        """Resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]

    def until_ready(self, seconds: float = 90) -> "Running":
        """Wait for the models."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text())
            if httpx.get(f"{self.address}/readyz").status_code == 200:
                return self
            time.sleep(0.1)
        raise TimeoutError(self.log.read_text())


@contextmanager
def served(folder: Path, *arguments: str | Path) -> Iterator[Running]:
    """Start `gram serve` on a free port; its log goes to `folder`."""
    command = [sys.executable, "-m", "gram", "serve", "--port", "0", *map(str, arguments)]
    log = folder / "serve.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found is not None, first + log.read_text()
        yield Running(found[0], process, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()
