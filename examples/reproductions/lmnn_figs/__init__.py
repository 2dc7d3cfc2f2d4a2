"""The figures of Weinberger and Saul (2009); run ``lmnn_figures.py``."""
