"""A small digit classifier that scores images where the Inception network is not available; it trains in a minute.

Its weights ship with the statistics of the real images, so that scoring needs neither a download nor the data. How
they are made: `python benchmarks/classifier.py`.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

FEATURES, CLASSES = 64, 10
WEIGHTS = Path(__file__).parent / "weights"
REAL = "real."
"""What the names of the shipped statistics begin with."""


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


def load_classifier(task: str, side: int) -> tuple[DigitClassifier, dict[str, Tensor]]:
    """Return the shipped classifier of a task and the statistics of its real images."""
    tensors = load_file(WEIGHTS / f"{task}.safetensors")
    real = {name.removeprefix(REAL): tensors.pop(name) for name in list(tensors) if name.startswith(REAL)}
    with torch.device("meta"):  # draws no weights, so that no random number is used up
        network = DigitClassifier(side)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return network.eval(), real
