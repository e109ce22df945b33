"""3-colouring of random graphs."""
