"""Estimators of scikit-learn's kind, thin over the statements and solvers; import them from here."""

from sdpmetric.estimators.lmnn import LMNN

__all__ = ["LMNN"]
