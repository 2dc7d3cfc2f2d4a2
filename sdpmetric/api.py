"""Every public name of the package, for `sdpmetric` to load on first use; importing this loads no solver."""

from sdpmetric import engine as engines
from sdpmetric.core.certificate import (
    Certificate,
    Dual,
    DualityCertificate,
    InfeasibilityCertificate,
    RegretCertificate,
    RelaxationCertificate,
    StationarityCertificate,
)
from sdpmetric.core.comparison import Comparison, compare
from sdpmetric.core.explanation import Explanation, explain
from sdpmetric.core.problem import Problem
from sdpmetric.core.registry import formulation, solver, solvers_of
from sdpmetric.core.run import solve
from sdpmetric.core.solution import Solution
from sdpmetric.core.status import Status, UselessOptimumWarning
from sdpmetric.core.trace import Trace, TraceRow
from sdpmetric.core.triplets import Triplets
from sdpmetric.core.verbs import certify, path, verify
from sdpmetric.lego.batch import LEGOBatchProblem
from sdpmetric.lego.hash_index import HashIndex
from sdpmetric.lego.kernel_stream import KernelLEGOStream
from sdpmetric.lego.logdet import MetricStep
from sdpmetric.lego.problem import LEGOProblem
from sdpmetric.lego.regret import regret
from sdpmetric.lego.stream import LEGOStream
from sdpmetric.lmnn.kernel import FeatureSpace, KernelLMNNProblem
from sdpmetric.lmnn.multi_metric import MultiMetricLMNNProblem
from sdpmetric.lmnn.problem import LMNNProblem
from sdpmetric.models import Model
from sdpmetric.nca.mlkr import MLKRProblem
from sdpmetric.nca.problem import NCAProblem
from sdpmetric.pola.kernel_stream import KernelPOLAStream
from sdpmetric.pola.problem import POLAProblem
from sdpmetric.pola.stream import POLAStream
from sdpmetric.programs import ProgramBound, bound, to_cvxpy
from sdpmetric.programs.atoms import LiftedDistances, metric_variable, squared_distances, triplet_margins
from sdpmetric.ranking.frml import FRMLProblem
from sdpmetric.ranking.frml_stream import FRMLStream
from sdpmetric.ranking.relevance import Relevance
from sdpmetric.ranking.scores import RankingScores
from sdpmetric.relatives.itml import ITMLProblem
from sdpmetric.relatives.lsml import LSMLProblem
from sdpmetric.relatives.mmc import MMCProblem
from sdpmetric.relatives.scml import SCMLProblem
from sdpmetric.relatives.sdml import SDMLProblem
from sdpmetric.sums import terms
from sdpmetric.sums.problem import MetricProblem

__all__ = [
    "Certificate",
    "Comparison",
    "Dual",
    "DualityCertificate",
    "Explanation",
    "FRMLProblem",
    "FRMLStream",
    "FeatureSpace",
    "HashIndex",
    "ITMLProblem",
    "InfeasibilityCertificate",
    "KernelLEGOStream",
    "KernelLMNNProblem",
    "KernelPOLAStream",
    "LEGOBatchProblem",
    "LEGOProblem",
    "LEGOStream",
    "LMNNProblem",
    "LSMLProblem",
    "LiftedDistances",
    "MLKRProblem",
    "MMCProblem",
    "MetricProblem",
    "MetricStep",
    "Model",
    "MultiMetricLMNNProblem",
    "NCAProblem",
    "POLAProblem",
    "POLAStream",
    "Problem",
    "ProgramBound",
    "RankingScores",
    "RegretCertificate",
    "RelaxationCertificate",
    "Relevance",
    "SCMLProblem",
    "SDMLProblem",
    "Solution",
    "StationarityCertificate",
    "Status",
    "Trace",
    "TraceRow",
    "Triplets",
    "UselessOptimumWarning",
    "bound",
    "certify",
    "compare",
    "engines",
    "explain",
    "formulation",
    "metric_variable",
    "path",
    "regret",
    "solve",
    "solver",
    "solvers_of",
    "squared_distances",
    "terms",
    "to_cvxpy",
    "triplet_margins",
    "verify",
]
