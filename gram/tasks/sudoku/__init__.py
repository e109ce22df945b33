"""Sudoku: generated puzzles, Sudoku-Extreme, and complete boards."""
