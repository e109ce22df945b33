"""`python -m gram` is the command `gram`."""


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly, even while it is still being imported."""
    try:
        from gram.cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
