"""`python -m gram` is the command `gram`."""

from gram.cli import main

main()
