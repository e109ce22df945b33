"""Files of the user's, downloads and builds: found, checked, and never half there."""

import functools
import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gram.errors import GramError
from gram.tasks.store import cache_folder, cached_arrays, check_sum, download, find_file

CONTENT = b"some data\n" * 1000
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAM_DATA", raising=False)
    return tmp_path / "cache"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


class CutOff(Quiet):
    """Announces the whole file and sends half of it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2])


def serving(handler: object) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "data.bin").write_bytes(CONTENT)
    yield from serving(functools.partial(Quiet, directory=str(tmp_path / "public")))


@pytest.fixture
def cut_off_url() -> Iterator[str]:
    yield from serving(CutOff)


def test_a_download_is_checked_and_kept(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = download(f"{url}/data.bin", "some/data.bin", MD5)
    assert path == cache_folder() / "some" / "data.bin"
    assert path.read_bytes() == CONTENT
    (tmp_path / "public" / "data.bin").unlink()
    assert download(f"{url}/data.bin", "some/data.bin", MD5) == path  # no second download
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(GramError, match="damaged"):
        download(f"{url}/data.bin", "some/data.bin", MD5)


@pytest.mark.parametrize("wrong", ["hash", "missing", "no server"])
def test_a_failed_download_says_what_to_do_and_leaves_nothing(url: str, wrong: str) -> None:
    known = "md5:" + "0" * 32 if wrong == "hash" else MD5
    address = {"missing": f"{url}/other.bin", "no server": "http://127.0.0.1:9/data.bin"}.get(wrong, f"{url}/data.bin")
    with pytest.raises(GramError, match=r"Could not download .* set GRAM_DATA"):
        download(address, "some/data.bin", known)
    assert not [path for path in cache_folder().rglob("*") if path.is_file()]


def test_half_a_download_does_not_count(cut_off_url: str) -> None:
    with pytest.raises(GramError, match="Could not download"):
        download(f"{cut_off_url}/data.bin", "data.bin", MD5)
    assert not [path for path in cache_folder().rglob("*") if path.is_file()]


def test_files_of_the_user_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_file("a.csv") is None
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    assert find_file("a.csv", "b.csv") is None
    (tmp_path / "b.csv").write_text("b")
    assert find_file("a.csv", "b.csv") == tmp_path / "b.csv"
    monkeypatch.setenv("GRAM_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(GramError, match="not a folder"):
        find_file("a.csv")


def test_check_sum(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    check_sum(tmp_path / "file", MD5)
    with pytest.raises(GramError, match="its md5 is"):
        check_sum(tmp_path / "file", "md5:123")


def test_a_build_is_made_once_per_settings(cache: Path) -> None:
    built: list[int] = []

    def build(size: int) -> dict[str, np.ndarray]:
        built.append(size)
        return {"numbers": np.arange(size)}

    for size in (3, 3, 4, 3):
        arrays = cached_arrays("numbers", {"size": size}, lambda size=size: build(size))
        assert arrays["numbers"].tolist() == list(range(size))
    assert built == [3, 4]
    files = sorted((cache / "built").iterdir())
    assert len(files) == 2
    files[0].write_bytes(b"PK half a file")
    files[1].write_bytes(b"PK half a file")
    with pytest.raises(GramError, match="remove it"):
        cached_arrays("numbers", {"size": 3}, lambda: build(3))


def test_a_kept_file_follows_the_umask_and_a_failed_write_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o027)
    try:
        cached_arrays("numbers", {}, lambda: {"numbers": np.arange(3)})
    finally:
        os.umask(before)
    (path,) = (cache / "built").iterdir()
    assert path.stat().st_mode & 0o777 == 0o640

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space"):
        cached_arrays("numbers", {"size": 4}, lambda: {"numbers": np.arange(4)})
    assert list((cache / "built").iterdir()) == [path]


def test_a_kept_file_without_an_array_is_named(cache: Path) -> None:
    cached_arrays("numbers", {}, lambda: {"numbers": np.arange(3)})
    (path,) = (cache / "built").iterdir()
    np.savez(path, other=np.arange(3))
    with pytest.raises(GramError, match=r"has no array 'numbers': remove it"):
        cached_arrays("numbers", {}, failing)["numbers"]


def test_a_build_that_fails_leaves_nothing(cache: Path) -> None:
    with pytest.raises(GramError, match="no"):
        cached_arrays("numbers", {}, failing)
    assert not cache.exists()


def failing() -> dict[str, np.ndarray]:
    raise GramError("no")
