"""Train the classifier that scores images, and write what ships: its weights and the statistics of the real images.

python benchmarks/classifier.py mnist     a minute on one core; needs the files of MNIST
python benchmarks/classifier.py digits    seconds
"""

import argparse
import time
from pathlib import Path

import torch

from gram.evaluation.classifier import WEIGHTS, accuracy, save_classifier, train_classifier
from gram.evaluation.image_scores import TASKS, real_images, statistics

EPOCHS = {"mnist": 2, "digits": 100}


def main() -> None:
    """Train, print the accuracy on the test images, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=list(EPOCHS))
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder of the weights")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = real_images({kind.name: kind for kind in TASKS.values()}[arguments.task])
    train, test = task.images("train"), task.images("test")
    start = time.perf_counter()
    network = train_classifier(train, brightest=task.brightest, epochs=EPOCHS[arguments.task])
    print(f"{len(train):,} images, {EPOCHS[arguments.task]} epochs, {time.perf_counter() - start:.0f} s")
    grey, labels = torch.from_numpy(test.grey / task.brightest).float(), torch.tensor(test.labels)
    for kind, pixels in (("grey", grey), ("black and white", (grey > 0.5).float())):
        print(f"{len(test):,} test images, {kind}: {accuracy(network, pixels, labels):.2%} right")
    real = torch.from_numpy(train.grey / task.brightest).float()
    with torch.inference_mode():
        features = torch.cat([network(some)[0].double() for some in real.split(500)])
    path = arguments.out / f"{arguments.task}.safetensors"
    save_classifier(path, network, {name: value.clone() for name, value in statistics(features).items()})
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
