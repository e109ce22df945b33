"""The command that serves models over HTTP, with a page to watch them reason."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gram.cli.common import console
from gram.cli.options import Device
from gram.errors import GramError
from gram.files import shipped_models


def serve(
    models: Annotated[
        list[str] | None, typer.Argument(help="The models to serve: shipped names, folders, or hub ids.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve all shipped models and open the page.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on; only this machine by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that requests to the API must carry.")
    ] = None,
    max_width: Annotated[int, typer.Option(min=1, help="Most trajectories of a request.")] = 256,
    max_depth: Annotated[int, typer.Option(min=1, help="Most supervision steps of a request.")] = 64,
    max_body: Annotated[int, typer.Option(min=256, help="Most bytes of a request's body.")] = 64 * 1024,
    max_queue: Annotated[int, typer.Option(min=1, help="Most requests at once; beyond it 503 is returned.")] = 256,
    max_seconds: Annotated[float, typer.Option(min=0.1, help="Most seconds of a request.")] = 30.0,
    drain_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds left to requests after SIGTERM.")] = 10.0,
    threads: Annotated[int, typer.Option(min=1, help="Threads that torch uses.")] = 1,
    device: Device = "auto",
) -> None:
    """Serve models over HTTP, with a page to watch them reason (API documentation at /docs)."""
    try:
        from gram.serve.server import serve as run
    except ModuleNotFoundError as error:
        raise GramError(f"{error.name} is missing: install the extra, pip install 'gram-reasoning[serve]'.") from error
    from gram.serve.settings import Limits, Settings, read_token, served_names

    if demo and models:
        raise GramError("--demo serves all shipped models: give either models or --demo.")
    settings = Settings(
        models=served_names(shipped_models() if demo else models or []),
        host=host,
        port=port,
        token=None if token_file is None else read_token(token_file),
        threads=threads,
        device=device,
        limits=Limits(
            width=max_width, depth=max_depth, body=max_body, queue=max_queue, seconds=max_seconds, drain=drain_seconds
        ),
    )

    def announce(address: str) -> None:
        console.print(f"Playground: {address}   API: {address}/docs   (Ctrl-C stops it)", markup=False, soft_wrap=True)
        if demo:
            webbrowser.open(address)

    run(settings, announce)
