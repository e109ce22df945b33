"""ARC-AGI-1 and -2."""
