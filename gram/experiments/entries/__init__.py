"""The entries of the registry, one file for each family."""
