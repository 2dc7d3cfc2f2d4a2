@pytest.mark.parametrize(
    "problem_of",
    [
        sm.MLRProblem,
        lambda X, y: sm.FRMLProblem(X, y, 2),
        sm.NCAProblem,
        sm.MLKRProblem,
    ],
)
def test_the_zero_metric_needs_no_pass_over_all_pairs(problem_of: type[sm.Problem]) -> None:
    """What is returned where time is short is what nearly equal examples cost."""
    X, y = load_wine(return_X_y=True)
    problem = problem_of(X, y)
    nearly_zero = 1e-12 * np.eye(13)[: getattr(problem, "n_components", 13)]
    zero, near = problem.certify(problem.zero), problem.certify(nearly_zero)
    assert zero.objective == pytest.approx(near.objective, rel=1e-9)
    assert zero.n_active == near.n_active
