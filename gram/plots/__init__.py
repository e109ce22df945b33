"""All figures, from arrays and results."""
