"""Public names, each with the module that defines it; `sdpmetric` imports that module when the name is first used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdpmetric.core.certificate import Certificate as Certificate
    from sdpmetric.core.certificate import Dual as Dual
    from sdpmetric.core.certificate import DualityCertificate as DualityCertificate
    from sdpmetric.core.certificate import InfeasibilityCertificate as InfeasibilityCertificate
    from sdpmetric.core.certificate import RegretCertificate as RegretCertificate
    from sdpmetric.core.certificate import RelaxationCertificate as RelaxationCertificate
    from sdpmetric.core.certificate import StationarityCertificate as StationarityCertificate
    from sdpmetric.core.explanation import Explanation as Explanation
    from sdpmetric.core.explanation import explain as explain
    from sdpmetric.core.problem import Problem as Problem
    from sdpmetric.core.registry import formulation as formulation
    from sdpmetric.core.registry import solver as solver
    from sdpmetric.core.registry import solvers_of as solvers_of
    from sdpmetric.core.run import solve as solve
    from sdpmetric.core.solution import Solution as Solution
    from sdpmetric.core.status import Status as Status
    from sdpmetric.core.status import UselessOptimumWarning as UselessOptimumWarning
    from sdpmetric.core.steps import Trace as Trace
    from sdpmetric.core.steps import TraceRow as TraceRow
    from sdpmetric.core.triplets import Triplets as Triplets
    from sdpmetric.core.verbs import Comparison as Comparison
    from sdpmetric.core.verbs import certify as certify
    from sdpmetric.core.verbs import compare as compare
    from sdpmetric.core.verbs import path as path
    from sdpmetric.core.verbs import verify as verify
    from sdpmetric.lego.hash_index import HashIndex as HashIndex
    from sdpmetric.lego.problem import LEGOBatchProblem as LEGOBatchProblem
    from sdpmetric.lego.problem import LEGOProblem as LEGOProblem
    from sdpmetric.lego.regret import regret as regret
    from sdpmetric.lego.stream import KernelLEGOStream as KernelLEGOStream
    from sdpmetric.lego.stream import LEGOStream as LEGOStream
    from sdpmetric.lego.stream import MetricStep as MetricStep
    from sdpmetric.lmnn.kernel import FeatureSpace as FeatureSpace
    from sdpmetric.lmnn.kernel import KernelLMNNProblem as KernelLMNNProblem
    from sdpmetric.lmnn.multi_metric import MultiMetricLMNNProblem as MultiMetricLMNNProblem
    from sdpmetric.lmnn.problem import LMNNProblem as LMNNProblem
    from sdpmetric.nca.problem import MLKRProblem as MLKRProblem
    from sdpmetric.nca.problem import NCAProblem as NCAProblem
    from sdpmetric.pola.problem import POLAProblem as POLAProblem
    from sdpmetric.pola.stream import KernelPOLAStream as KernelPOLAStream
    from sdpmetric.pola.stream import POLAStream as POLAStream
    from sdpmetric.programs import ProgramBound as ProgramBound
    from sdpmetric.programs import bound as bound
    from sdpmetric.programs import to_cvxpy as to_cvxpy
    from sdpmetric.programs.atoms import LiftedDistances as LiftedDistances
    from sdpmetric.programs.atoms import metric_variable as metric_variable
    from sdpmetric.programs.atoms import squared_distances as squared_distances
    from sdpmetric.programs.atoms import triplet_margins as triplet_margins
    from sdpmetric.ranking.frml import FRMLProblem as FRMLProblem
    from sdpmetric.ranking.frml_stream import FRMLStream as FRMLStream
    from sdpmetric.ranking.relevance import Relevance as Relevance
    from sdpmetric.ranking.scores import RankingScores as RankingScores
    from sdpmetric.relatives.itml import ITMLProblem as ITMLProblem
    from sdpmetric.relatives.lsml import LSMLProblem as LSMLProblem
    from sdpmetric.relatives.mmc import MMCProblem as MMCProblem
    from sdpmetric.relatives.scml import SCMLProblem as SCMLProblem
    from sdpmetric.relatives.sdml import SDMLProblem as SDMLProblem
    from sdpmetric.sums import terms as terms
    from sdpmetric.sums.problem import MetricProblem as MetricProblem

HOMES = {
    "sdpmetric.core.certificate": "Certificate, Dual, DualityCertificate, InfeasibilityCertificate, "
    "RegretCertificate, RelaxationCertificate, StationarityCertificate",
    "sdpmetric.core.explanation": "Explanation, explain",
    "sdpmetric.core.problem": "Problem",
    "sdpmetric.core.registry": "formulation, solver, solvers_of",
    "sdpmetric.core.run": "solve",
    "sdpmetric.core.solution": "Solution",
    "sdpmetric.core.status": "Status, UselessOptimumWarning",
    "sdpmetric.core.steps": "Trace, TraceRow",
    "sdpmetric.core.triplets": "Triplets",
    "sdpmetric.core.verbs": "Comparison, certify, compare, path, verify",
    "sdpmetric.lego.hash_index": "HashIndex",
    "sdpmetric.lego.problem": "LEGOBatchProblem, LEGOProblem",
    "sdpmetric.lego.regret": "regret",
    "sdpmetric.lego.stream": "KernelLEGOStream, LEGOStream, MetricStep",
    "sdpmetric.lmnn.kernel": "FeatureSpace, KernelLMNNProblem",
    "sdpmetric.lmnn.multi_metric": "MultiMetricLMNNProblem",
    "sdpmetric.lmnn.problem": "LMNNProblem",
    "sdpmetric.nca.problem": "MLKRProblem, NCAProblem",
    "sdpmetric.pola.problem": "POLAProblem",
    "sdpmetric.pola.stream": "KernelPOLAStream, POLAStream",
    "sdpmetric.programs": "ProgramBound, bound, to_cvxpy",
    "sdpmetric.programs.atoms": "LiftedDistances, metric_variable, squared_distances, triplet_margins",
    "sdpmetric.ranking.frml": "FRMLProblem",
    "sdpmetric.ranking.frml_stream": "FRMLStream",
    "sdpmetric.ranking.relevance": "Relevance",
    "sdpmetric.ranking.scores": "RankingScores",
    "sdpmetric.relatives.itml": "ITMLProblem",
    "sdpmetric.relatives.lsml": "LSMLProblem",
    "sdpmetric.relatives.mmc": "MMCProblem",
    "sdpmetric.relatives.scml": "SCMLProblem",
    "sdpmetric.relatives.sdml": "SDMLProblem",
    "sdpmetric.sums.problem": "MetricProblem",
}
# Modules that are public under these names.
MODULES = {
    "terms": "sdpmetric.sums.terms",
}

HOME_OF = {name: module for module, names in HOMES.items() for name in names.split(", ")}
__all__ = sorted([*HOME_OF, *MODULES])
