"""Train the classifiers that score images, and write what ships: weights, and the statistics of the real images.

python benchmarks/classifier.py mnist     a minute on one core; needs the files of MNIST
python benchmarks/classifier.py digits    seconds
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from gram.evaluation.classifier import REAL, WEIGHTS, Classifier, DigitClassifier, DigitReader
from gram.evaluation.image_scores import TASKS, real_images, statistics
from gram.files import write_whole
from gram.tasks.images import LabelledImages

EPOCHS = {"mnist": {DigitClassifier: 2, DigitReader: 8}, "digits": {DigitClassifier: 100, DigitReader: 100}}


def train_classifier(
    kind: type[Classifier], images: LabelledImages, *, brightest: int, epochs: int, seed: int = 0
) -> Classifier:
    """Train a classifier of grey images; half of them are thresholded, so that it handles black and white ones.

    Args:
        kind: the network's class.
        images: grey images and their digits.
        brightest: the value of a white pixel.
        epochs: passes over the images.
        seed: of the initial weights, the order, and the thresholds.
    """
    generator = torch.Generator().manual_seed(seed)
    pixels, labels = torch.from_numpy(images.grey / brightest).float(), torch.tensor(images.labels).long()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = kind(pixels.shape[-1])
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.05)
    steps = epochs * (len(pixels) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(pixels), generator=generator)
        for chosen in order[: len(order) // 128 * 128].view(-1, 128):
            grey = pixels[chosen]
            threshold = 0.3 + 0.4 * torch.rand(len(grey), 1, 1, generator=generator)
            binary = torch.rand(len(grey), 1, 1, generator=generator) < 0.5
            _, logits = network(torch.where(binary, (grey > threshold).float(), grey))
            optimizer.zero_grad()
            F.cross_entropy(logits, labels[chosen], label_smoothing=0.05).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return network.half().float().eval()  # as it will be stored: the statistics must be of the same network


@torch.inference_mode()
def accuracy(network: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    """Return the fraction of the images [images, side, side] that are classified correctly."""
    batches = zip(torch.split(pixels, 500), torch.split(labels, 500), strict=True)
    right = [network(some)[1].argmax(1) == true for some, true in batches]
    return float(torch.cat(right).float().mean())


def save_classifier(path: Path, network: nn.Module, real: dict[str, Tensor]) -> None:
    """Write the weights, in half precision, and the statistics of the real images, if there are any."""
    weights = {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}
    tensors = {**weights, **{REAL + name: tensor for name, tensor in real.items()}}
    write_whole(path, lambda part: save_file(tensors, part))


def main() -> None:
    """Train, print the accuracy on the test images, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(EPOCHS))
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder of the weights")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = real_images({kind.name: kind for kind in TASKS.values()}[arguments.task])
    train, test = task.images("train"), task.images("test")
    grey, labels = torch.from_numpy(test.grey / task.brightest).float(), torch.tensor(test.labels)
    for kind, suffix in ((DigitClassifier, ""), (DigitReader, "-reader")):
        epochs = EPOCHS[arguments.task][kind]
        start = time.perf_counter()
        network = train_classifier(kind, train, brightest=task.brightest, epochs=epochs)
        print(f"{kind.__name__}: {len(train):,} images, {epochs} epochs, {time.perf_counter() - start:.0f} s")
        for look, pixels in (("grey", grey), ("black and white", (grey > 0.5).float())):
            print(f"{len(test):,} test images, {look}: {accuracy(network, pixels, labels):.2%} right")
        path = arguments.out / f"{arguments.task}{suffix}.safetensors"
        save_classifier(path, network, {} if suffix else real_statistics(network, train.grey / task.brightest))
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


@torch.inference_mode()
def real_statistics(network: nn.Module, pixels: np.ndarray) -> dict[str, Tensor]:
    """Return what the FID needs to know of real images [images, side, side]."""
    some = torch.from_numpy(pixels).float().split(500)
    features = torch.cat([network(part)[0].double() for part in some])
    return {name: value.clone() for name, value in statistics(features).items()}


if __name__ == "__main__":
    main()
