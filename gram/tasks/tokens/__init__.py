"""Puzzles of your own, as files of tokens."""
