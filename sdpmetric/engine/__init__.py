"""Where compiled loops and matrix products run."""
