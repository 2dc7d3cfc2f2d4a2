"""What public names claim, how rigorously, and what tries to refute it: for claims.py and docs/measured/claims.md.

`python .ci/claims_table.py` writes the table into the page.
"""

from dataclasses import dataclass
from pathlib import Path

# float: every rounding is accounted for. compiled: that of CVXPY before the cone program is not. rounding: rounding is
# allowed for by a guess. none: nothing is claimed.
GRADES = ("float", "compiled", "rounding", "none")
# Names in tests/adversary/families.py. Evaluators draw weights from 1e-300 to 1e300 and 0 themselves, refuse integers
# beyond 2^53, and try other data or statements in a second argument.
FAMILIES = {
    "scale": ("tiny", "huge", "enormous", "units", "scales", "apart"),
    "offset": ("offset", "far", "last digits", "stamps"),
    "dependence": ("dependent", "summed", "null", "repeated", "wide"),
    "underflow": ("vanishing", "beside", "single tiny"),
    "ties": ("coincident", "duplicates", "equal classes", "grid"),
    "weights": (),
    "integers": ("large integers",),
    "second": (),
}
ALL = " ".join(FAMILIES)


@dataclass(frozen=True)
class Claim:
    """Public names, or modules that print it, with one claim; what evaluates it exactly (file.name), on which data."""

    names: str
    sentence: str
    evaluators: str
    grade: str = "float"
    families: str = ALL.removesuffix(" second")


ROWS = (
    Claim(
        "certify, Problem.certify, MetricProblem.certificate_of, Certificate",
        "`objective` is not below the objective of the given metric, and `lower_bound` not above that of any metric.",
        "verbs.certify verbs.metric exact.lmnn_objective campaign.Ledger",
        families=ALL,
    ),
    Claim(
        "KernelLMNNProblem",
        "The same in the coordinates `X`, which are computed from the kernel and taken as exact.",
        "statements.kernel",
    ),
    Claim("verify", "The objective of the given metric, and a lower bound on that of every metric.", "verbs.verify"),
    Claim(
        "solve, path, Status",
        "A solution has the status `optimal` only if its certificate closes the gap at the tolerance.",
        "verbs.solve verbs.path verbs.stop verbs.state",
    ),
    Claim(
        "DualityCertificate, DualityCertificate.status, Certificate.proves_optimal, core.certificate",
        "No metric's objective is lower by more than a share `tol` of the larger of objective and bound, or by more "
        "than the resolution if an objective of 0 or less is possible.",
        "campaign.Ledger test_resolution.test_the_resolution_is_of_what_a_constraint_costs",
    ),
    Claim(
        "DualityCertificate.gap_in_words, cli.results",
        "The objective is at most so many percent above the smallest possible one.",
        "test_certificate.test_gap_and_missing_or_contradictory_evidence "
        "test_certificate.test_the_grade_is_said_wherever_a_bound_is",
        families="scale ties",
    ),
    Claim(
        "compare, Comparison, Comparison.verdict, cli",
        "The optimum lies between the largest lower bound and the least objective, or these contradict each other.",
        "verbs.compare",
        families=ALL,
    ),
    Claim(
        "LMNN",
        "`relative_gap_` is that of the certificate of the learned metric.",
        "test_estimators.test_a_fit_is_proven_and_says_so",
        families="ties",
    ),
    Claim(
        "RelaxationCertificate, RelaxationCertificate.status",
        "No metric of any rank has an objective below `lower_bound`.",
        "verbs.relaxed verbs.rank exact.frml_auc",
    ),
    Claim(
        "NCA, MLKR, FRML, NCAProblem, MLKRProblem, StationarityCertificate",
        "None: how nearly stationary a point is bounds nothing.",
        "test_nca.test_a_certificate_of_stationarity_proves_nothing_and_has_no_units",
        "none",
        "scale",
    ),
    Claim(
        "InfeasibilityCertificate, InfeasibilityCertificate.settles, InfeasibilityCertificate.status, "
        "POLAProblem.certify",
        "No metric satisfies all constraints that `contradiction` names.",
        "exact.hard_pola test_pola.test_both_conditions_of_a_proof_are_needed "
        "test_pola.test_pairs_that_nearly_contradict_each_other_do_not",
        families="scale offset dependence ties integers",
    ),
    Claim(
        "TripletHinge, QuadrupletHinge, MarginLoss.upper_bound",
        "A hard constraint holds exactly, or the objective is infinite.",
        "contradictions.bounds contradictions.tight test_terms.test_hard_constraints_have_no_weight",
        families="scale offset underflow weights",
    ),
    Claim(
        "regret, RegretCertificate, LEGOProblem.lower_bound",
        "Every fixed metric loses at least `lower_bound` on the stream.",
        "verbs.regret exact.lego_loss",
        families=ALL,
    ),
    Claim(
        "RegretCertificate, LEGOProblem.allowance",
        "The cumulative loss is at most what the theorem allows.",
        "verbs.regret test_lego.test_corrected_theorem_holds "
        "test_pola.test_theorem_1_is_nearly_tight_for_one_long_dissimilar_pair",
        "rounding",
        "scale offset ties",
    ),
    Claim(
        "explain, Weighted.intervals",
        "Every optimal multiplier lies in its interval.",
        "verbs.explain test_explain_statements.test_the_interval_is_tight_on_one_triplet",
        "rounding",
    ),
    Claim(
        "Solution.save_proof, check.__main__",
        "The metric has at most this objective, and no metric one below the bound, for the program that is printed.",
        "proof_truth.Program verbs.proof test_forgeries.test_what_is_accepted_is_true",
        families=ALL,
    ),
    Claim(
        "check.__main__",
        "No metric satisfies the hard constraints that are printed; targets are the nearest examples of their class.",
        "mutations.violations test_forgeries.test_contradictions_need_one proof_truth.are_nearest",
        families="scale offset underflow ties weights integers",
    ),
    Claim(
        "Solution.load",
        "With its problem: status and certificate are computed again, at the caller's tolerance.",
        "test_files.test_a_solution_is_certified_again_whatever_its_file_claims",
        families="second",
    ),
    Claim(
        "Solution.load",
        "None: without a problem, as from a pickle or skops, everything is as saved, not verified.",
        "test_files.test_what_a_pickle_restores_claims_nothing",
        "none",
        "second",
    ),
    Claim(
        "bound, ProgramBound",
        "The optimum of the cone program that CVXPY compiles lies in the interval, or it is infeasible or unbounded.",
        "test_bound.test_planted_optima_are_within test_bound.test_chsh_and_theta_in_rational_numbers "
        "test_bound.test_published_values_are_within",
        "compiled",
        "scale dependence ties",
    ),
    Claim(
        "HashIndex.query",
        "With `share=1.0` the nearest examples are exact, up to the rounding of distances in float64.",
        "test_hashing.test_images_leave_no_nearest_example_out_at_rest_or_in_motion",
        "rounding",
        "offset ties",
    ),
    Claim(
        "Form.log_det, LogDetPrior.log_det, LogDetPrior.divergence_of, log_det_gram",
        "Exact log determinants and divergences lie within the floats that bound them.",
        "test_rigorous.test_log_determinants_lie_within_their_bounds "
        "test_rigorous.test_divergences_from_a_prior_and_determinants_relative_to_it",
        families="scale dependence underflow",
    ),
)
PAGE = Path(__file__).parents[1] / "docs" / "measured" / "claims.md"
FIRST, LAST = "<!-- claims: python .ci/claims_table.py -->\n", "<!-- end of claims -->\n"


def page(text: str) -> str:
    """The page with the table as it is."""
    lines = ["", "| names | claim | grade | tried by | on |", "| --- | --- | --- | --- | --- |"]
    for row in ROWS:
        names = "`" + row.names.replace(", ", "`, `") + "`"
        tried, families = row.evaluators.replace(" ", "`, `"), row.families.replace(" ", ", ")
        lines.append(f"| {names} | {row.sentence} | {row.grade} | `{tried}` | {families} |")
    before, _, after = text.partition(FIRST)
    return before + FIRST + "\n".join([*lines, "", LAST]) + after.partition(LAST)[2]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
