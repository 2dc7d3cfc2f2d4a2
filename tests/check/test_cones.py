"""Proof files of cone programs: accepted as they are written, and what a changed one claims is true."""

import json

import cvxpy as cp
import numpy as np
import pytest

import sdpmetric as sm
from sdpmetric.check.__main__ import main
from sdpmetric.check.files import digest

G, J = cp.Variable((4, 4), PSD=True), cp.Variable((5, 5), PSD=True)
x, y = cp.Variable(3), cp.Variable(2, nonneg=True)
t = cp.Variable()
# Programs and their optima.
PROGRAMS = {
    "CHSH": (cp.Problem(cp.Maximize(G[0, 2] + G[0, 3] + G[1, 2] - G[1, 3] + 1), [cp.diag(G) == 1]), 1 + np.sqrt(8.0)),
    "theta of a cycle": (
        cp.Problem(cp.Maximize(cp.sum(J)), [cp.trace(J) == 1] + [J[i, (i + 1) % 5] == 0 for i in range(5)]),
        np.sqrt(5.0),
    ),
    "linear": (cp.Problem(cp.Minimize(y[0] + y[1]), [y[0] + 2 * y[1] >= 3]), 1.5),
    "quadratic": (cp.Problem(cp.Minimize(cp.sum_squares(x)), [cp.sum(x) == 1]), 1.0 / 3.0),
    "exponential": (cp.Problem(cp.Minimize(cp.exp(x[0]) + cp.sum(x)), [x >= 1]), np.e + 3.0),
    "power": (cp.Problem(cp.Maximize(t), [cp.PowCone3D(y[0], y[1], t, 0.5), y[0] + 2 * y[1] <= 4]), np.sqrt(2.0)),
    "second-order": (cp.Problem(cp.Minimize(cp.norm(x - [1.0, 2.0, 3.0])), [cp.sum(x) == 1]), 5.0 / np.sqrt(3.0)),
}


@pytest.fixture(params=PROGRAMS)
def files(request, tmp_path):
    problem, optimum = PROGRAMS[request.param]
    bound = sm.bound(problem)
    bound.save_proof(tmp_path / "proof.npz", tmp_path / "data.npz")
    return tmp_path, optimum, bound


def checked(folder):
    code, text = main([str(folder / "data.npz"), str(folder / "proof.npz")])
    assert "\n" not in text
    return code, text


def interval(text):
    return tuple(float(text.split(words)[1].split(",")[0].rstrip(".")) for words in ("at least ", "at most "))


def sealed(folder, arrays, header):
    text = json.dumps(header)
    with np.errstate(all="ignore"):
        seal = np.array(digest({name: np.asarray(array, float) for name, array in arrays.items()}, text))
        np.savez(folder / "proof.npz", **arrays, about=np.array(text), seal=seal)


def held(folder):
    arrays = {**np.load(folder / "proof.npz")}
    return {name: array for name, array in arrays.items() if name not in ("about", "seal")}, json.loads(
        str(arrays["about"])
    )


def test_proofs_of_programs_are_accepted(files):
    folder, optimum, bound = files
    code, text = checked(folder)
    assert code == 0, text
    low, high = interval(text)
    assert low <= optimum + 1e-15 * abs(optimum) <= high + 2e-15 * abs(optimum)
    assert high - low <= 2.1 * (bound.upper_bound - bound.lower_bound) + 1e-12


def test_a_changed_claim_point_or_program_is_refused(files):
    folder, _, _ = files
    arrays, header = held(folder)
    changes = [
        (arrays, header | {"objective": header["objective"] - 1e-3}, 1),
        (arrays, header | {"lower_bound": header["lower_bound"] + 1e-3}, 1),
        (arrays, header | {"format": 3}, 2),
        (arrays | {"0.sizes": arrays["0.sizes"] + [0, 1, 0]}, header, 2),
        (arrays | {"0.sizes": arrays["0.sizes"] - 0.5}, header, 2),
        (arrays | {"0.psd": np.array(3.0)}, header, 2),
        (arrays | {"0.psd": np.array([1e9])}, header, 2),
        (arrays | {"0.power": np.array([1.5])}, header, 2),
        (arrays, header | {"objective": None, "lower_bound": None}, 1),
        (arrays, header | {"domain": header["domain"] | {"sign": 0.5}}, 2),
        (arrays, header | {"domain": header["domain"] | {"offset": header["domain"]["offset"] + 1.0}}, 1),
        (arrays, header | {"objective": None}, 0),
        (arrays, header | {"lower_bound": None}, 0),
        (arrays, header | {"terms": [{"term": "trace", "weight": 1.0}]}, 2),
        (arrays | {"0.multipliers": -arrays["0.multipliers"]}, header, 1),
        (arrays | {"0.free_multipliers": arrays["0.free_multipliers"][:-1]}, header, 2),
        (arrays | {"0.free_multipliers": 0.0 * arrays["0.free_multipliers"]}, header, 2),
        (arrays | {"0.point": np.append(arrays["0.point"], 0.0)}, header, 2),
        (arrays | {"0.point": np.full_like(arrays["0.point"], np.nan)}, header, 2),
        (arrays | {"extra": np.zeros(1)}, header, 2),
    ]
    for changed, change, expected in changes:
        sealed(folder, changed, change)
        code, text = checked(folder)
        assert code == expected, text
    sealed(folder, arrays, header)
    data = {**np.load(folder / "data.npz")}
    np.savez(folder / "data.npz", **(data | {"c": np.nextafter(data["c"], np.inf)}))
    assert "hashes differ" in checked(folder)[1]


def test_what_is_accepted_of_changed_files_is_true(files):
    """Points, multipliers and what is solved for are changed; the interval still contains the optimum."""
    folder, optimum, bound = files
    (arrays, header), rng, codes = held(folder), np.random.default_rng(5), []
    header |= {"objective": 1e300, "lower_bound": -1e300}
    for _ in range(40):
        name = str(rng.choice(sorted(arrays)))
        changed = arrays[name].copy()
        if changed.size:
            mask = rng.random(changed.shape) < rng.choice([0.2, 1.0])
            shift = rng.choice([1e-12, 1e-6, 1e-2, 1.0]) * rng.normal(size=changed.shape)
            changed = np.where(
                mask, rng.permutation(changed) if name.startswith("0.free") else changed + shift, changed
            )
        sealed(folder, arrays | {name: changed}, header)
        code, text = checked(folder)
        codes.append(code)
        if code == 0:
            low, high = interval(text)
            assert low <= optimum + 1e-15 * abs(optimum) <= high + 2e-15 * abs(optimum)
    assert 0 in codes
    assert 1 in codes or bound.evidence.program.P.nnz  # of an equation of a quadratic program all follows


def test_no_proof_is_written_of_a_point_where_inequalities_are_equations(tmp_path):
    program = cp.Problem(cp.Minimize(y[0] + y[1]), [y[0] + 3 * y[1] >= 1, -y[0] - 3 * y[1] >= -1])
    bound = sm.bound(program)
    assert bound.lower_bound <= 1 / 3 <= bound.upper_bound
    with pytest.raises(ValueError, match="inequalities hold as equations"):
        bound.save_proof(tmp_path / "proof.npz", tmp_path / "data.npz")
    sm.bound(program, side="lower").save_proof(tmp_path / "proof.npz", tmp_path / "data.npz")
    assert checked(tmp_path)[0] == 0


NOWHERE = {
    "halfline": [y[0] <= -1],
    "cone": [cp.norm(x) <= 1, x[0] + x[1] >= 2],
    "matrix": [G[0, 0] == 1, G[1, 1] == 1, G[0, 1] >= 2],
    "flat": [x[0] + x[1] <= 0.1, x[1] - 3 * x[2] <= 0.3, x[0] + 2 * x[1] - 3 * x[2] >= 0.5],
}


@pytest.mark.parametrize("constraints", NOWHERE.values(), ids=NOWHERE)
def test_infeasible_programs_are_proven_to_be(constraints, tmp_path):
    sm.bound(cp.Problem(cp.Minimize(0), constraints)).save_proof(tmp_path / "proof.npz", tmp_path / "data.npz")
    code, text = checked(tmp_path)
    assert (code, "no point satisfies" in text) == (0, True), text
    arrays, header = held(tmp_path)
    for changed in (-arrays["0.multipliers"], 0.0 * arrays["0.multipliers"]):
        sealed(tmp_path, arrays | {"0.multipliers": changed}, header)
        assert checked(tmp_path)[0] == 1
    data = {**np.load(tmp_path / "data.npz")}
    sealed(tmp_path, arrays, header | {"data": header["data"] | {"sha256": digest(data | {"b": np.abs(data["b"])})}})
    np.savez(tmp_path / "data.npz", **(data | {"b": np.abs(data["b"])}))
    assert checked(tmp_path)[0] == 1


@pytest.mark.parametrize(
    ("P", "code"), [([[0, 0, 2.0]], 0), ([[0, 0, -2.0]], 1), ([[0, 1, 2.0]], 1), ([[0, 0, 1.0], [0, 0, 1.0]], 0)]
)
def test_quadratic_objectives_are_convex(P, code, tmp_path):
    """``x^2 - 2x`` on the line is at least -1, of a file without any rounding."""
    nothing = np.zeros(0)
    data = {"A": nothing, "A_rows": nothing, "A_columns": nothing, "b": nothing, "c": np.array([-2.0, 0.0])}
    data |= dict(zip(("P_rows", "P_columns", "P"), np.array(P).T, strict=True))
    np.savez(tmp_path / "data.npz", **data)
    header = {"format": 4, "objective": -1.0, "lower_bound": -1.0, "terms": []}
    header |= {"domain": {"domain": "cones", "sign": 1, "offset": 0.0, "names": "x (2,)"}}
    arrays = {"0.point": np.array([1.0, 5.0]), "0.multipliers": np.array([1.0, 0.0])}
    arrays |= {f"0.{name}": nothing for name in ("free_multipliers", "free_point", "soc", "psd", "power")}
    arrays |= {"0.sizes": np.zeros(3)}
    sealed(tmp_path, arrays, header | {"data": {"members": [*data], "sha256": digest(data)}})
    assert checked(tmp_path)[0] == code
    header |= {"data": {"members": [*data], "sha256": digest(data)}}
    sealed(tmp_path, arrays | {"0.multipliers": np.array([1.1, 0.0])}, header)
    assert checked(tmp_path)[0] == 1
