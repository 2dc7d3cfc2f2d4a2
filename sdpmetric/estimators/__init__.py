"""Estimators of scikit-learn's kind, thin over the statements and solvers; import them from here."""

from sdpmetric.estimators.kernel_lmnn import KernelLMNN
from sdpmetric.estimators.lmnn import LMNN
from sdpmetric.estimators.mcml import MCML
from sdpmetric.estimators.pairs import ITML, MMC, POLA

__all__ = ["ITML", "LMNN", "MCML", "MMC", "POLA", "KernelLMNN"]
