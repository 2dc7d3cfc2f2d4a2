"""Neighborhood components analysis (Goldberger et al. 2005), and kernel regression with the same soft neighbors."""
