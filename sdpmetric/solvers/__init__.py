"""Solvers, one file each; importing this registers all of them."""

from sdpmetric.solvers import (
    bregman,
    closed,
    conic,
    factored,
    frml,
    frml_relaxed,
    lego,
    mlr,
    nca,
    nca_stochastic,
    pola,
    terms,
)
from sdpmetric.solvers.lmnn import conic as lmnn_conic
from sdpmetric.solvers.lmnn import factored as lmnn_factored
from sdpmetric.solvers.lmnn import frobenius, frobenius_conic, low_rank, several, subgradient

__all__ = [
    "bregman",
    "closed",
    "conic",
    "factored",
    "frml",
    "frml_relaxed",
    "frobenius",
    "frobenius_conic",
    "lego",
    "lmnn_conic",
    "lmnn_factored",
    "low_rank",
    "mlr",
    "nca",
    "nca_stochastic",
    "pola",
    "several",
    "subgradient",
    "terms",
]
