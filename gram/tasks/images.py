"""Unconditional binarised images: every input is blank and every image of the data is a correct answer.

`MNIST` is the benchmark of the paper; `Digits` (8 x 8, inside scikit-learn) is for people without a network. What makes
a good image is no matter of right and wrong: it is scored by comparing many of them with the data, elsewhere.
"""

import gzip
import zlib
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gram.errors import GramError
from gram.tasks.base import (
    Examples,
    SplitName,
    Task,
    Tokens,
    Verdict,
    check_pairs,
    check_split,
    check_split_options,
    split_bounds,
)
from gram.tasks.store import cache_folder, check_sum, download, find_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAD, BLACK, WHITE = 0, 1, 2

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_FILES = {
    # name: md5 of the compressed file, and of what is in it
    "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb"),
    "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624"),
    "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea"),
    "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637"),
}

Bytes = NDArray[np.uint8]


def read_idx(path: Path) -> Bytes:
    """Read an IDX file of bytes, compressed or not, into an array of the shape that its header gives."""
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise GramError(f"{path} is cut off or damaged ({error}): remove it and fetch it again.") from error
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":  # 8 stands for unsigned bytes
        raise GramError(f"{path} is not an IDX file of bytes.")
    data = 4 + 4 * content[3]
    shape = tuple(np.frombuffer(content[4:data], dtype=">u4").tolist()) if len(content) >= data else ()
    if len(content) < data or len(content) - data != int(np.prod(shape)):
        announced = " x ".join(map(str, shape)) or "a longer header"
        raise GramError(f"{path} is cut off or damaged: it announces {announced}, but has {len(content)} bytes in all.")
    return np.frombuffer(content, dtype=np.uint8, offset=data).reshape(shape)


@dataclass(frozen=True)
class LabelledImages:
    """Grey images as they are before thresholding."""

    grey: Bytes
    """[images, rows, columns]"""
    labels: Bytes
    """[images] the digit"""

    def __len__(self) -> int:
        return len(self.grey)

    def __getitem__(self, chosen: Any) -> "LabelledImages":
        return LabelledImages(self.grey[chosen], self.labels[chosen])


class BinaryImages(Task):
    """Unconditional images of black and white pixels in row-major order; tokens are 0 pad, 1 black, 2 white.

    The input is pad everywhere, so a split is one group, and all splits share their input: disjoint are the images. A
    few become equal by thresholding (9 of the 10,000 test images of MNIST are then in the training split too).
    """

    vocab_size = 3
    scoring = "generation"
    has_rules = False
    image_shape: tuple[int, int]
    """rows and columns"""
    brightest: int
    """the value of a white pixel in the grey images; a pixel above half of it counts as white"""

    def __init__(self, *, seed: int, validation_share: float, test_share: float) -> None:
        check_split_options(seed=seed, validation_share=validation_share, test_share=test_share)
        self.length = self.image_shape[0] * self.image_shape[1]
        self.seed = seed
        self.validation_share, self.test_share = validation_share, test_share
        self.has_validation = validation_share > 0

    @abstractmethod
    def _read(self) -> tuple[LabelledImages, LabelledImages]:
        """Return all images that are not for testing, and the test images."""

    @cached_property
    def _splits(self) -> dict[str, LabelledImages]:
        rest, test = self._read()
        order = np.random.default_rng(self.seed).permutation(len(rest))
        _, validation = split_bounds(len(rest), validation_share=self.validation_share)
        return {"train": rest[order[validation:]], "validation": rest[order[:validation]], "test": test}

    def images(self, name: SplitName) -> LabelledImages:
        """Return a split's grey images with their labels, in the order of its examples; for scores."""
        check_split(name)
        return self._splits[name]

    def split(self, name: SplitName) -> Examples:
        """Return a seeded split: blank inputs (a read-only view of one row) and images as targets [rows, length]."""
        grey = self.images(name).grey.reshape(-1, self.length)
        targets = np.where(grey > self.brightest / 2, WHITE, BLACK).astype(np.int64, copy=False)
        inputs = np.broadcast_to(np.full(self.length, PAD, dtype=np.int64), targets.shape)
        return Examples(inputs, targets, np.zeros(len(targets), dtype=np.int64))

    def verify(self, inputs: Tokens, outputs: Tokens) -> Verdict:
        """Return that nothing is valid: no rule can tell whether an image [rows, length] looks like a digit.

        The conflicts are the tokens that are not pixels.
        """
        inputs, outputs = check_pairs(self, inputs, outputs)
        conflicts = ((outputs != BLACK) & (outputs != WHITE)).sum(axis=1)
        return Verdict(valid=np.zeros(len(outputs), dtype=bool), conflicts=conflicts)

    def parse(self, text: str) -> Tokens:
        """Return the blank input [length] for '-' or an empty text; there is nothing else to ask for."""
        if text.strip() not in ("", "-"):
            what = f"{self.name} generates images unconditionally and takes no puzzle"
            raise GramError(f"{what}: use `gram generate`, or give an empty text.")
        return np.full(self.length, PAD, dtype=np.int64)

    def render(self, tokens: Tokens, given: Tokens | None = None) -> str:
        """Draw one image [length] as text, two characters a pixel: '██' white, spaces black, '··' no pixel."""
        pixels = np.select([tokens == WHITE, tokens == BLACK], ["██", "  "], default="··")
        return "\n".join("".join(row) for row in pixels.reshape(self.image_shape))

    def draw(self, axes: "Axes", tokens: Tokens, given: Tokens | None = None) -> None:
        """Draw one image [length]; tokens that are no pixels are red, or grey where nothing is drawn yet."""
        from matplotlib.colors import ListedColormap

        nothing = "#808080" if (tokens == PAD).all() else "#d62728"
        pixels = np.where((tokens == BLACK) | (tokens == WHITE), tokens, PAD).reshape(self.image_shape)
        axes.imshow(pixels, cmap=ListedColormap([nothing, "black", "white"]), vmin=PAD, vmax=WHITE)
        axes.set(xticks=[], yticks=[])


class MNIST(BinaryImages):
    """Binarised MNIST, 28 x 28: 60,000 images of which some are for validation, and 10,000 test images."""

    name = "mnist"
    image_shape = (28, 28)
    brightest = 255

    def __init__(self, *, seed: int = 0, validation_share: float = 0.05) -> None:
        """Describe the benchmark; the files are read when they are first asked for.

        They are `mnist/train-images-idx3-ubyte.gz` and so on below `GRAM_DATA` (compressed or not; torchvision's folder
        `MNIST/raw` will do), or downloaded once.

        Args:
            seed: of the choice of validation images.
            validation_share: of the 60,000 images that are not in the test split.
        """
        super().__init__(seed=seed, validation_share=validation_share, test_share=0)

    @property
    def data_is_here(self) -> bool:
        """Whether all four files are below `GRAM_DATA` or in the cache."""
        return all(_own_file(name) or (cache_folder() / f"mnist/{name}.gz").is_file() for name in MNIST_FILES)

    def _read(self) -> tuple[LabelledImages, LabelledImages]:
        train, train_labels, test, test_labels = (read_idx(_mnist_file(name)) for name in MNIST_FILES)
        return LabelledImages(train, train_labels), LabelledImages(test, test_labels)


class Digits(BinaryImages):
    """Binarised digits, 8 x 8: the 1,797 images that come with scikit-learn."""

    name = "digits"
    image_shape = (8, 8)
    brightest = 16

    def __init__(self, *, seed: int = 0, validation_share: float = 0.05, test_share: float = 0.15) -> None:
        """Describe the data; it is read when it is first asked for.

        Args:
            seed: of the split.
            validation_share: of the images that are not in the test split.
            test_share: of all images.
        """
        super().__init__(seed=seed, validation_share=validation_share, test_share=test_share)

    def _read(self) -> tuple[LabelledImages, LabelledImages]:
        from sklearn.datasets import load_digits

        data = load_digits()
        everything = LabelledImages(data.images.astype(np.uint8), data.target.astype(np.uint8))
        order = np.random.default_rng(self.seed).permutation(len(everything))
        test, _ = split_bounds(len(everything), test_share=self.test_share)
        return everything[order[test:]], everything[order[:test]]


def _mnist_file(name: str) -> Path:
    packed, plain = (f"md5:{digest}" for digest in MNIST_FILES[name])
    if (own := _own_file(name)) is None:
        return download(f"{MNIST_URL}{name}.gz", f"mnist/{name}.gz", packed)
    check_sum(own, packed if own.suffix == ".gz" else plain)
    return own


def _own_file(name: str) -> Path | None:
    return find_file(*(f"{folder}/{name}{suffix}" for folder in ("mnist", "MNIST/raw") for suffix in (".gz", "")))
