"""Everything that draws, from arrays and results."""
