"""Small digit classifiers that score images where the Inception network is not available; they train in a minute.

Their weights ship with the statistics of the real images, so that scoring needs neither a download nor the data. How
they are made: `python benchmarks/classifier.py`.
"""

from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

FEATURES, CLASSES = 64, 10
WEIGHTS = Path(__file__).parent / "weights"
REAL = "real."
"""What the names of the shipped statistics begin with."""
Classifier = TypeVar("Classifier", "DigitClassifier", "DigitReader")


class DigitClassifier(nn.Module):
    """Three convolutions, each followed by pooling, and two linear layers; for square grey images."""

    def __init__(self, side: int) -> None:
        """Make an untrained network for images of side x side pixels; side is at least 8."""
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, kernel_size=3, padding=1) for before, after in ((1, 16), (16, 32), (32, 64))
        )
        self.hidden = nn.Linear(64 * (side // 8) ** 2, FEATURES)
        self.out = nn.Linear(FEATURES, CLASSES)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Map pixels [images, side, side] from 0 (black) to 1 to features [images, 64] and logits [images, 10]."""
        state = pixels.unsqueeze(1)  # one channel
        for convolution in self.convolutions:
            state = F.max_pool2d(F.relu(convolution(state)), 2)
        features = F.relu(self.hidden(state.flatten(1)))
        return features, self.out(features)


class DigitReader(nn.Module):
    """A perceptron with one hidden layer: a second opinion that shares nothing with the convolutions above."""

    def __init__(self, side: int) -> None:
        """Make an untrained network for images of side x side pixels."""
        super().__init__()
        self.hidden = nn.Linear(side * side, 2 * FEATURES)
        self.out = nn.Linear(2 * FEATURES, CLASSES)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Map pixels [images, side, side] from 0 (black) to 1 to features [images, 128] and logits [images, 10]."""
        features = F.relu(self.hidden(pixels.flatten(1)))
        return features, self.out(features)


def load_classifier(task: str, side: int) -> tuple[DigitClassifier, dict[str, Tensor]]:
    """Return the shipped classifier of a task and the statistics of its real images."""
    tensors = load_file(WEIGHTS / f"{task}.safetensors")
    real = {name.removeprefix(REAL): tensors.pop(name) for name in list(tensors) if name.startswith(REAL)}
    return _with_weights(DigitClassifier, side, tensors), real


def load_reader(task: str, side: int) -> DigitReader:
    """Return the shipped second classifier of a task."""
    return _with_weights(DigitReader, side, load_file(WEIGHTS / f"{task}-reader.safetensors"))


def _with_weights(kind: type[Classifier], side: int, tensors: dict[str, Tensor]) -> Classifier:
    with torch.device("meta"):  # draws no weights, so that no random number is used up
        network = kind(side)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return network.eval()
