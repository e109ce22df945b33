"""Binarised images: read as published, split, judged by their tokens only, and drawn from nothing."""

import functools
import gzip
import hashlib
import http.server
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gram.errors import GramError
from gram.tasks import images
from gram.tasks.base import SplitName
from gram.tasks.images import BLACK, MNIST, PAD, WHITE, Digits, read_idx

SPLITS: tuple[SplitName, ...] = ("train", "validation", "test")


@pytest.fixture(scope="module")
def digits() -> Digits:
    return Digits()


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A small MNIST of 50 and 10 images: its files uncompressed, their checksums announced, nothing written yet."""
    generator = np.random.default_rng(0)
    contents = {}
    for name, count in (("train", 50), ("t10k", 10)):
        contents[f"{name}-images-idx3-ubyte"] = idx_bytes(generator.integers(0, 256, (count, 28, 28)))
        contents[f"{name}-labels-idx1-ubyte"] = idx_bytes(generator.integers(0, 10, count))
    sums = {
        name: tuple(hashlib.md5(part).hexdigest() for part in (packed(content), content))
        for name, content in contents.items()
    }
    monkeypatch.setattr(images, "MNIST_FILES", sums)
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAM_DATA", raising=False)
    return contents


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def write(folder: Path, files: dict[str, bytes], *, compressed: bool) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / (name + ".gz" * compressed)).write_bytes(packed(content) if compressed else content)


@pytest.mark.parametrize(("folder", "compressed"), [("mnist", True), ("mnist", False), ("MNIST/raw", False)])
def test_mnist_is_read_from_the_users_files(
    files: dict[str, bytes], folder: str, compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / folder, files, compressed=compressed)
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    task = MNIST(validation_share=0.1)
    assert [len(task.split(name)) for name in SPLITS] == [45, 5, 10]
    raw = np.frombuffer(files["t10k-images-idx3-ubyte"], np.uint8, offset=16).reshape(10, 784)
    assert np.array_equal(task.split("test").targets, np.where(raw / 255 > 0.5, WHITE, BLACK))
    assert task.images("test").labels.tobytes() == files["t10k-labels-idx1-ubyte"][8:]
    assert task.images("train").grey.shape == (45, 28, 28)


def test_mnist_is_downloaded_once(
    files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "public", files, compressed=True)
    for url in serving(tmp_path / "public"):
        monkeypatch.setattr(images, "MNIST_URL", url)
        first = MNIST().split_hash()
    assert MNIST().split_hash() == first  # the server is gone
    assert (tmp_path / "cache" / "mnist" / "t10k-labels-idx1-ubyte.gz").is_file()


def serving(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("compressed", [True, False])
def test_a_damaged_file_of_the_users_is_refused(
    files: dict[str, bytes], compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "mnist", files, compressed=compressed)
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    path = next((tmp_path / "mnist").glob("train-images*"))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(GramError, match=f"{path.name} is damaged or another file"):
        MNIST().split("train")


@settings(max_examples=50)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), cut=st.data(), compressed=st.booleans())
def test_an_idx_file_is_read_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], cut: st.DataObject, compressed: bool
) -> None:
    path = tmp_path_factory.mktemp("idx") / "some-idx"
    array = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    content = packed(idx_bytes(array)) if compressed else idx_bytes(array)
    path.write_bytes(content)
    assert np.array_equal(read_idx(path), array)
    path.write_bytes(content[: cut.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(GramError, match=f"^{path} is (cut off or damaged|not an IDX file)"):
        read_idx(path)
    path.write_bytes(content + b"\x01")
    with pytest.raises(GramError, match="cut off or damaged"):
        read_idx(path)


def test_other_files_are_not_idx_files(tmp_path: Path) -> None:
    (tmp_path / "page.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(GramError, match="not an IDX file of bytes"):
        read_idx(tmp_path / "page.gz")


def test_digits_are_the_images_of_scikit_learn(digits: Digits) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    original = set(zip(map(bytes, pixels.astype(np.uint8)), labels.tolist(), strict=True))
    assert [len(digits.split(name)) for name in SPLITS] == [1451, 76, 270]
    found = [digits.images(name) for name in SPLITS]
    pairs = [
        (image.tobytes(), int(label)) for part in found for image, label in zip(part.grey, part.labels, strict=True)
    ]
    assert len(pairs) == 1797
    assert set(pairs) == original


def test_examples_are_blank_inputs_and_thresholded_images(digits: Digits) -> None:
    for name in SPLITS:
        examples = digits.split(name)
        assert examples.inputs.shape == examples.targets.shape == (len(digits.images(name)), 64)
        assert examples.inputs.dtype == examples.targets.dtype == np.int64
        assert (examples.inputs == PAD).all()
        assert examples.inputs.base is not None  # a view: a split of MNIST would have 360 MB of zeros
        assert np.array_equal(examples.targets == WHITE, digits.images(name).grey.reshape(-1, 64) > 8)
        assert np.isin(examples.targets, (BLACK, WHITE)).all()
        assert len(examples.distinct()[0]) == 1
        assert not digits.verify(examples.inputs, examples.targets).conflicts.any()


def test_the_hash_is_stable_and_follows_the_seed(digits: Digits) -> None:
    assert digits.split_hash() == Digits().split_hash() == "0f488efcd399"  # a change here changes every result
    assert Digits(seed=1).split_hash() != digits.split_hash()
    assert Digits(validation_share=0.1).split_hash() != digits.split_hash()


@settings(max_examples=30)
@given(st.lists(st.integers(-1, 4), min_size=64, max_size=64))
def test_verify_counts_what_is_no_pixel(tokens: list[int]) -> None:
    verdict = Digits().verify(np.zeros((1, 64), dtype=np.int64), np.array([tokens]))
    assert verdict.conflicts[0] == sum(token not in (1, 2) for token in tokens)
    assert not verdict.valid[0]  # no rule can say that an image is a digit


def test_verify_refuses_other_shapes(digits: Digits) -> None:
    with pytest.raises(GramError, match=r"\[rows, 64\], not \[2, 16\]"):
        digits.verify(np.ones((2, 16), dtype=np.int64), np.ones((2, 64), dtype=np.int64))
    with pytest.raises(GramError, match="not 3 outputs for 2 inputs"):
        digits.verify(np.ones((2, 64), dtype=np.int64), np.ones((3, 64), dtype=np.int64))


def test_nothing_is_the_only_puzzle(digits: Digits) -> None:
    for text in ("", " \n", "-"):
        assert np.array_equal(digits.parse(text), digits.split("test").inputs[0])
    with pytest.raises(GramError, match="digits generates images unconditionally and takes no puzzle"):
        digits.parse("7")
    assert digits.solutions(digits.parse("")) is None


def test_render_draws_rows_of_blocks(digits: Digits) -> None:
    tokens = np.full(64, BLACK)
    tokens[[0, 9]], tokens[63] = WHITE, PAD
    lines = digits.render(tokens).split("\n")
    assert lines[:2] == ["██" + " " * 14, "  ██" + " " * 12]
    assert lines[7] == " " * 14 + "··"
    assert len(lines) == 8


def test_draw_marks_what_is_no_pixel(digits: Digits) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    tokens = np.full(64, BLACK)
    tokens[1], tokens[2] = WHITE, PAD
    axes = figure_module.Figure().subplots()
    digits.draw(axes, tokens)
    (image,) = axes.get_images()
    colours = image.to_rgba(image.get_array(), bytes=True)[0, :3, :3]
    assert colours.tolist() == [[0, 0, 0], [255, 255, 255], [0xD6, 0x27, 0x28]]
    blank = figure_module.Figure().subplots()
    digits.draw(blank, digits.parse(""))
    (image,) = blank.get_images()
    assert np.unique(image.to_rgba(image.get_array(), bytes=True)[..., :3]).tolist() == [0x80]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MNIST(seed=-1), "must not be negative"),
        (lambda: MNIST(validation_share=1), "validation_share must be"),
        (lambda: Digits(test_share=-0.1), "test_share must be"),
        (lambda: Digits().split("dev"), "no split 'dev'"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(GramError, match=message):
        build()


@pytest.mark.slow
@pytest.mark.skipif("GRAM_DATA" not in os.environ, reason="GRAM_DATA does not name a folder with MNIST")
def test_the_whole_of_mnist() -> None:
    started = time.perf_counter()
    task = MNIST()
    counts = {name: len(task.split(name)) for name in SPLITS}
    print(f"MNIST: {counts} in {time.perf_counter() - started:.1f} s")
    assert counts == {"train": 57_000, "validation": 3_000, "test": 10_000}
    assert task.split_hash() == "b64a9630bbe3"  # a change here changes every result
    assert task.images("test").labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert (task.split("train").targets == WHITE).mean() == pytest.approx(0.132, abs=0.001)
