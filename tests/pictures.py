"""What a picture that a command has written must be."""

from pathlib import Path

import numpy as np
from PIL import Image


def checked_picture(path: Path, *, least: int = 100) -> tuple[int, int, int]:
    """Open a picture; assert that it is `least` pixels wide and high and shows something; return its size and frames.

    An empty chart has axes in black and grey on white: what is drawn into it has a colour.
    """
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
        coloured = (np.ptp(pixels, axis=2) > 40).mean()
        assert min(image.size) >= least, f"{path} has only {image.size} pixels"
        assert coloured > 0.001, f"{path} is blank: {coloured:.2%} of its pixels have a colour"
        return image.width, image.height, getattr(image, "n_frames", 1)
