"""The command that scores generated images."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from gram.cli.app import Device, Seed, app, console
from gram.cli.report import check_target


@app.command("score")
def score_images(
    file: Annotated[Path, typer.Argument(help="Generated images: an .npz with `tokens` [images, length].")],
    network: Annotated[
        Literal["classifier", "inception"], typer.Option(help="Who looks: the shipped classifier, or Inception.")
    ] = "classifier",
    real: Annotated[int | None, typer.Option(min=2, help="Inception: real images to compare with (10,000).")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images that the network looks at together.")] = 50,
    device: Device = "auto",
    seed: Seed = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure here.")] = None,
) -> None:
    """Inception Score and FID of generated digits (mnist, digits) against the grey images of the data."""
    check_target(json_file)
    from gram.evaluation.image_scores import image_scores
    from gram.inference.stream import read_samples

    tokens, _ = read_samples(file)
    scores = image_scores(tokens, network=network, real=real, batch=batch, device=device, seed=seed, console=console)
    console.print(
        f"{scores.generated:,} images of {scores.task} against {scores.real:,} grey ones, by the network {network}:"
    )
    console.print(f"FID {scores.fid:.2f}")
    if scores.inception_score is None:
        console.print(f"No Inception Score: {scores.note}", markup=False, soft_wrap=True)
    else:
        console.print(f"Inception Score {scores.inception_score:.2f} +- {scores.inception_score_std:.2f}")
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(scores), indent=2) + "\n")
