"""Inception Score and FID of generated digits, computed by torchmetrics.

There are two feature extractors: `inception`, as published, and `classifier`, a small one that ships. The images are
compared with grey ones, as in the paper, although the generated ones are black and white.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from torch import Tensor, nn

from gram.errors import GramError
from gram.machine import choose_device
from gram.progress import bar
from gram.tasks.images import MNIST, WHITE, BinaryImages, Digits
from gram.tasks.store import cached_arrays

if TYPE_CHECKING:
    from torchmetrics.image.fid import FrechetInceptionDistance

Network = Literal["classifier", "inception"]
Pixels = NDArray[np.float32]
Look = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Pixels [images, side, side] -> features [images, width], and logits [images, classes] if there are any."""
TASKS: dict[int, type[BinaryImages]] = {28: MNIST, 8: Digits}
"""What images of a side are of."""
SPLITS = 10
"""Parts in which the Inception Score is computed; the score is their mean."""
RESAMPLES = 100
"""Resamples of the images, for the interval of the FID."""
BATCH = 50
INCEPTION_REAL = 10_000
"""Real images that Inception looks at: an hour on one core, but only once."""


@dataclass(frozen=True)
class ImageScores:
    """Scores of images, with the features of one network."""

    inception_score: float | None
    """exp(mean KL from the mean class probabilities), 1 or more; higher is better; None where the network has none"""
    inception_score_std: float | None
    """deviation over the parts"""
    fid: float
    """Frechet distance to the real images; lower is better"""
    fid_interval: tuple[float, float] | None
    """95%, by resampling the generated images; None for Inception, whose distances take seconds each"""
    agreement: float | None
    """share of the images in which two independent classifiers read the same digit; None for Inception"""
    generated: int
    """images that were scored"""
    real: int
    """grey images that they were compared with"""
    network: Network
    task: str
    note: str = ""
    """why the Inception Score is missing"""


def image_scores(
    images: ArrayLike,
    *,
    network: Network = "classifier",
    real: int | None = None,
    batch: int = BATCH,
    device: str = "auto",
    seed: int = 0,
    console: Console | None = None,
) -> ImageScores:
    """Score images of MNIST (28 x 28) or of digits (8 x 8) against the grey images of the same data.

    Args:
        images: [images, length] or [images, side, side]: tokens of the task (whole numbers; what is no pixel counts as
            black), or grey values from 0 to 1 (floats).
        network: `classifier` ships, with the statistics of all images that are not for testing; `inception` is the
            published one and needs the extra `inception`.
        real: the number of real images for `inception`, 10,000 by default; their statistics are kept in the cache.
        batch: images that a network looks at together.
        device: of the network: auto, cpu, cuda or mps.
        seed: of the order in which the images are divided into parts for the Inception Score.
        console: where progress is shown, if anywhere.
    """
    pixels = as_pixels(images)
    if len(pixels) < SPLITS:
        raise GramError(f"Scores need at least {SPLITS} images, not {len(pixels)}; thousands are customary.")
    if batch < 1:
        raise GramError(f"A batch has at least one image, not {batch}.")
    task = TASKS[pixels.shape[1]]
    chosen = choose_device(device)
    look, known, note = _network(network, task, real, batch, chosen, console)
    features, logits = _look_at(pixels, look, batch, chosen, "generated images", console)
    score, deviation = (None, None) if logits is None else inception_score(logits, seed)
    ships, fid = network == "classifier", frechet_distance(features, known)
    return ImageScores(
        inception_score=score,
        inception_score_std=deviation,
        fid=fid,
        fid_interval=frechet_interval(fid, features, known, seed) if ships else None,
        agreement=_agreement(pixels, logits, task) if ships and logits is not None else None,
        generated=len(pixels),
        real=int(known["count"]),
        network=network,
        task=task.name,
        note=note,
    )


def check_network(network: Network) -> None:
    """Raise `GramError` if this network cannot be used here."""
    if network == "inception":
        from gram.evaluation.inception import trunk_file

        trunk_file()


def as_pixels(images: ArrayLike) -> Pixels:
    """Turn tokens or grey values, [images, length] or [images, side, side], into pixels [images, side, side]."""
    array = np.asarray(images)
    side = round(array.shape[1] ** 0.5) if array.ndim == 2 else array.shape[-1] if array.ndim == 3 else 0
    if side not in TASKS or array.shape[1:] not in ((side, side), (side * side,)):
        raise GramError(
            f"Scores exist for images of mnist ([images, 28, 28] or [images, 784]) and of digits ([images, 8, 8] or "
            f"[images, 64]), not for an array of shape {list(array.shape)}."
        )
    array = array.reshape(-1, side, side)
    if array.dtype.kind in "iu":
        if array.size and not 0 <= array.min() <= array.max() <= WHITE:
            raise GramError(f"Whole numbers are tokens from 0 to {WHITE}: give grey images as floats from 0 to 1.")
        array = array == WHITE
    elif array.dtype.kind not in "bf" or not ((array >= 0) & (array <= 1)).all():
        raise GramError("Grey images are floats from 0 (black) to 1 (white).")
    pixels: Pixels = array.astype(np.float32)
    return pixels


def real_images(task: type[BinaryImages]) -> BinaryImages:
    """Return the task with all images outside the test split in its training split, in a seeded order."""
    return task(seed=0, validation_share=0)  # type: ignore[call-arg]


def statistics(features: Tensor) -> dict[str, Tensor]:
    """Return the sum [width], sum of products [width, width] and count of features [images, width], for the FID."""
    metric = _frechet(features.shape[1])
    metric.update(features, real=True)
    return {
        "sum": metric.real_features_sum,
        "products": metric.real_features_cov_sum,
        "count": metric.real_features_num_samples,
    }


def frechet_distance(features: Tensor, known: dict[str, Tensor]) -> float:
    """Return the FID of features [images, width], doubles, against the statistics of the real ones."""
    metric = _frechet(features.shape[1])
    metric.real_features_sum = known["sum"]
    metric.real_features_cov_sum = known["products"]
    metric.real_features_num_samples = known["count"]
    metric.update(features, real=False)
    return max(float(metric.compute()), 0.0)  # rounding can make a distance of nothing negative


def frechet_interval(fid: float, features: Tensor, known: dict[str, Tensor], seed: int = 0) -> tuple[float, float]:
    """Return a 95% interval of the `fid` of features [images, width], doubles, by the bootstrap over images.

    Repeated images raise every resampled distance, so that only their spread is used, around the distance itself.
    """
    generator = torch.Generator().manual_seed(seed)
    draws = [torch.randint(len(features), (len(features),), generator=generator) for _ in range(RESAMPLES)]
    spread = 1.96 * float(np.std([frechet_distance(features[drawn], known) for drawn in draws]))
    return max(fid - spread, 0.0), fid + spread


@torch.inference_mode()
def _agreement(pixels: Pixels, logits: Tensor, task: type[BinaryImages]) -> float:
    """Return the share of images in which the second classifier reads the digit of logits [images, classes]."""
    from gram.evaluation.classifier import load_reader

    reader = load_reader(task.name, task.image_shape[0])
    _, second = reader(torch.from_numpy(pixels))
    return float((second.argmax(1) == logits.argmax(1)).double().mean())


def inception_score(logits: Tensor, seed: int = 0) -> tuple[float, float]:
    """Return the Inception Score of logits [images, classes], doubles, and its standard deviation over the parts."""
    from torchmetrics.image.inception import InceptionScore

    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore", UserWarning)  # that it keeps the features
        metric = InceptionScore(feature=_Seen(logits.shape[1]), splits=SPLITS)
        torch.manual_seed(seed)
        metric.update(logits)
        mean, deviation = metric.compute()
    return float(mean), float(deviation)


class _Seen(nn.Module):
    """A stand-in for the network that torchmetrics expects: it returns given features, so that one pass serves both."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.num_features = width

    def forward(self, features: Tensor) -> Tensor:
        return features


def _frechet(width: int) -> "FrechetInceptionDistance":
    from torchmetrics.image.fid import FrechetInceptionDistance

    return FrechetInceptionDistance(feature=_Seen(width))


def _network(
    network: Network, task: type[BinaryImages], real: int | None, batch: int, device: str, console: Console | None
) -> tuple[Look, dict[str, Tensor], str]:
    """Return the network, the statistics of its real images, and the reason if it has no logits."""
    if network == "classifier":
        if real is not None:
            raise GramError("The classifier ships with the statistics of its real images: leave out their number.")
        from gram.evaluation.classifier import load_classifier

        classifier, known = load_classifier(task.name, task.image_shape[0])
        return classifier.to(device), known, ""
    if network != "inception":
        raise GramError(f"There is no network '{network}'; there is classifier and inception.")
    from gram.evaluation.inception import Inception

    count = INCEPTION_REAL if real is None else real
    inception = Inception(device)

    def build() -> dict[str, NDArray[Any]]:
        source = real_images(task)
        grey = source.images("train").grey
        if not 2 <= count <= len(grey):
            raise GramError(f"The real images of {task.name} are {len(grey)}: choose from 2 to that many, not {count}.")
        pixels = (grey[:count] / source.brightest).astype(np.float32)
        features, _ = _look_at(pixels, inception, batch, device, "real images, once", console)
        return {name: value.numpy() for name, value in statistics(features).items()}

    arrays = cached_arrays("inception-statistics", {"task": task.name, "real": count}, build)
    return inception, {name: torch.from_numpy(value) for name, value in arrays.items()}, inception.without_head


@torch.inference_mode()
def _look_at(
    pixels: Pixels, look: Look, batch: int, device: str, label: str, console: Console | None
) -> tuple[Tensor, Tensor | None]:
    """Return features and logits of all images, in doubles: Frechet distances of similar sets cancel many digits."""
    features, logits = [], []
    with bar(console or Console(quiet=True), label, len(pixels)) as advance:
        for some in torch.split(torch.from_numpy(pixels), batch):
            seen, classes = look(some.to(device))
            features.append(seen.cpu().double())
            if classes is not None:
                logits.append(classes.cpu().double())
            advance(len(some))
    return torch.cat(features), torch.cat(logits) if logits else None
