"""A small digit classifier that scores images where the Inception network is not available; it trains in a minute.

Its weights ship with the statistics of the real images, so that scoring needs neither a download nor the data. How
they are made: `python benchmarks/classifier.py`.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from gram.files import write_whole
from gram.tasks.images import LabelledImages

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


def train_classifier(images: LabelledImages, *, brightest: int, epochs: int, seed: int = 0) -> DigitClassifier:
    """Train a classifier of grey images; half of them are thresholded, so that it handles black and white ones.

    Args:
        images: grey images and their digits.
        brightest: the value of a white pixel.
        epochs: passes over the images.
        seed: of the initial weights, the order, and the thresholds.
    """
    generator = torch.Generator().manual_seed(seed)
    pixels, labels = torch.from_numpy(images.grey / brightest).float(), torch.tensor(images.labels).long()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = DigitClassifier(pixels.shape[-1])
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
def accuracy(network: DigitClassifier, pixels: Tensor, labels: Tensor) -> float:
    """Return the fraction of the images [images, side, side] that are classified correctly."""
    batches = zip(torch.split(pixels, 500), torch.split(labels, 500), strict=True)
    right = [network(some)[1].argmax(1) == true for some, true in batches]
    return float(torch.cat(right).float().mean())


def save_classifier(path: Path, network: DigitClassifier, real: dict[str, Tensor]) -> None:
    """Write the weights, in half precision, and the statistics of the real images."""
    weights = {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}
    tensors = {**weights, **{REAL + name: tensor for name, tensor in real.items()}}
    write_whole(path, lambda part: save_file(tensors, part))


def load_classifier(task: str, side: int) -> tuple[DigitClassifier, dict[str, Tensor]]:
    """Return the shipped classifier of a task and the statistics of its real images."""
    tensors = load_file(WEIGHTS / f"{task}.safetensors")
    real = {name.removeprefix(REAL): tensors.pop(name) for name in list(tensors) if name.startswith(REAL)}
    with torch.device("meta"):  # draws no weights, so that no random number is used up
        network = DigitClassifier(side)
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return network.eval(), real
