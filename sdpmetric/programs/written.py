"""How far the constants of a compiled cone program are from what a user wrote."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous.coefficients import DIGITS, MAX_PRODUCTS, Coefficients, UnknownError, times
from sdpmetric.linalg.rigorous.directed import U

if TYPE_CHECKING:
    from cvxpy.atoms.quad_form import SymbolicQuadForm

# More columns than any program has: those of quadratic forms are counted while an objective is read.
WIDTH = 1 << 40
# Classes of CVXPY whose cones have the same solutions, by constants that are small whole numbers.
SAME = {
    *("abs", "max", "maximum", "min", "minimum", "norm1", "norm_inf", "quad_over_lin", "exp", "log", "log1p", "entr"),
    *("kl_div", "rel_entr", "logistic", "log_sum_exp", "huber", "xexp", "cummax", "lambda_max", "sigma_max", "normNuc"),
    *("matrix_frac", "log_det", "tr_inv", "cumsum"),
}
# Classes of CVXPY that only choose, repeat or order entries.
CHOOSING = {
    *("index", "special_index", "reshape", "transpose", "Hstack", "Vstack", "Concatenate", "Promote", "broadcast_to"),
    *("diag_vec", "diag_mat", "upper_tri", "nonneg_wrap", "nonpos_wrap", "psd_wrap", "nsd_wrap", "symmetric_wrap"),
    *("hermitian_wrap", "skew_symmetric_wrap", "real"),
}


def reservation(problem: cp.Problem) -> str | None:
    """Why the cones of a problem may not have the solutions that were written, or None where they are proven to.

    Raises
    ------
    ValueError
        If CVXPY replaces an atom by an approximation.
    """
    stack = [(problem.objective.expr, True), *((arg, False) for c in problem.constraints for arg in c.args)]
    leaves = [*problem.variables(), *problem.constants(), *problem.parameters()]
    has_complex = any(leaf.is_complex() for leaf in leaves)
    why, visited = None, set()
    while stack:
        expression, in_objective = stack.pop()
        if (id(expression), in_objective) in visited:
            continue
        visited.add((id(expression), in_objective))
        affine = isinstance(expression, cp.atoms.affine.affine_atom.AffAtom) or not expression.args
        if not affine:
            exact = not expression.is_constant() and not has_complex and _is_exact(expression, in_objective)
            why = why or (None if exact else f"the atom {type(expression).__name__} is compiled with rounding")
        stack += [(arg, in_objective and affine) for arg in expression.args]
    return why


def _is_exact(expression: cp.Expression, in_objective: bool) -> bool:
    """Whether the cones of an atom have exactly its epigraph, if those of its arguments have."""
    name = type(expression).__name__
    if name == "quantum_rel_entr":
        raise ValueError("quantum_rel_entr is approximated by a quadrature, of which nothing is proven; leave it out.")
    if name == "PowerApprox":
        return _agree("cp.power", expression.p.value, expression.p_used)
    if name == "PnormApprox":
        return _agree("cp.pnorm", expression.original_p, expression.p)
    if name == "GeoMeanApprox":
        weights = [_fraction(p) for p in np.ravel(expression.p).tolist()] if expression.p is not None else []
        total = sum(weights, Fraction(0))
        pairs = zip([p / total for p in weights if p], [w for w in expression.w if w], strict=True)
        exact = [_agree("cp.geo_mean", p, w) for p, w in pairs]  # each may raise an error
        return all(exact)
    if name == "QuadForm":
        if not in_objective:
            P = expression.args[1].value
            _check_eigenvalues(P.toarray() if sp.issparse(P) else np.asarray(P))
        return in_objective
    return (
        name in SAME
        or (name == "Power" and expression.p_used in (0, 1, 2))
        or (name == "Pnorm" and expression.p == 2)
        or (name in ("sum_largest", "lambda_sum_largest") and isinstance(expression.k, (int, np.integer)))
    )


def _fraction(p: object) -> Fraction:
    return p if isinstance(p, Fraction) else Fraction(float(np.asarray(p).ravel()[0]))


def _agree(name: str, written: object, compiled: object) -> bool:
    """Whether an exponent is the one that was written; an error if it is not even up to a rounding."""
    if isinstance(written, str):
        return False
    exact, rational = _fraction(written), _fraction(compiled)
    if abs(exact - rational) > abs(exact) * Fraction(4 * U):
        raise ValueError(
            f"the exponent or weight {float(exact)!r} is approximated by the fraction {rational}; pass approx=False to "
            f"{name}, which states it by power cones."
        )
    return exact == rational


def _check_eigenvalues(P: FloatArray) -> None:
    """Raise an error if CVXPY drops an eigenvalue of a matrix that is more than rounding."""
    values = np.abs(np.linalg.eigvalsh(P)) if P.ndim == 2 and np.isfinite(P).all() else np.zeros(1)
    largest = float(values.max(initial=0.0))
    dropped = values[(values > 64.0 * len(values) * U * largest) & (values < 1e-9 * largest)]
    if len(dropped):
        raise ValueError(
            f"CVXPY may leave out the eigenvalue {dropped.max():.1e} of a matrix in quad_form, whose largest is "
            f"{largest:.1e}; write a constraint with cp.sum_squares(F @ x), where F'F is the matrix."
        )


class Reading:
    """Affine expressions as coefficients of n variables and of 1, and of quadratic forms behind them."""

    def __init__(self, places: dict[int, int], n: int) -> None:
        self.places, self.n, self._width = places, n, n + 1
        self.forms: list[tuple[SymbolicQuadForm, int]] = []
        self._coefficients: dict[int, tuple[cp.Expression, Coefficients]] = {}

    def of(self, expression: cp.Expression) -> Coefficients:
        """Its coefficients, entry by entry in Fortran's order."""
        if id(expression) not in self._coefficients:
            self._coefficients[id(expression)] = expression, self._read(expression)
        return self._coefficients[id(expression)][1]

    def _read(self, expression: cp.Expression) -> Coefficients:
        name, size, args = type(expression).__name__, expression.size, expression.args
        entries = np.arange(size)
        if isinstance(expression, cp.Variable):
            return _terms(entries, entries + self.places[expression.id], np.ones(size), size)
        if not args:
            return self._constant(expression)
        if name == "SymbolicQuadForm":
            first = self._width
            self.forms.append((expression, first))
            self._width += size
            return _terms(entries, entries + first, np.ones(size), size)
        if name in CHOOSING:
            firsts = np.cumsum([0, *(arg.size for arg in args)])
            numbers = expression.numeric([_numbers(arg, int(k)) for arg, k in zip(args, firsts, strict=False)])
            numbers = numbers.toarray() if sp.issparse(numbers) else np.asarray(numbers)
            return Coefficients.stacked([self.of(arg) for arg in args]).chosen(_indices(numbers))
        if name == "NegExpression":
            return -self.of(args[0])
        if name == "AddExpression":
            return Coefficients.total([self._spread(arg, expression.shape) for arg in args])
        if name in ("Sum", "Trace"):
            return self._sums(expression)
        if name in ("MulExpression", "multiply", "DivExpression"):
            constant_first = args[0].is_constant() and name != "DivExpression"
            fixed, variable = (args[0], args[1]) if constant_first else (args[1], args[0])
            if not fixed.is_constant():
                raise UnknownError(f"a product of expressions is no {name}")
            return (
                self._product(args, constant_first)
                if name == "MulExpression"
                else self._scaled(expression, fixed, variable)
            )
        raise UnknownError(f"compilation of the atom {name} is not followed")

    def _constant(self, leaf: cp.Expression) -> Coefficients:
        value = leaf.value
        if sp.issparse(value):
            coo = sp.coo_array(value)
            places, value = np.ravel_multi_index(coo.coords, coo.shape, order="F"), coo.data
        else:
            value = np.ravel(value, order="F")
            places = np.arange(len(value))
        if value.dtype == object or np.iscomplexobj(value):
            raise UnknownError("a constant is no array of real numbers")
        floats = value.astype(np.float64)
        if not np.array_equal(floats.astype(value.dtype), value):
            raise UnknownError("a constant has more digits than a float")
        if value.dtype.kind in "iu" and len(value) and np.abs(floats).max() >= 2.0**DIGITS:
            raise UnknownError("a whole number is too large for a float")
        order = np.argsort(places)
        order = order[floats[order] != 0.0]
        return _terms(places[order], np.full(len(order), self.n), floats[order], leaf.size)

    def _spread(self, arg: cp.Expression, shape: tuple[int, ...]) -> Coefficients:
        """An argument repeated to a shape."""
        return (
            self.of(arg) if arg.shape == shape else self.of(arg).chosen(_indices(np.broadcast_to(_numbers(arg), shape)))
        )

    def _sums(self, expression: cp.Expression) -> Coefficients:
        arg = expression.args[0]
        terms, numbers, summands = self.of(arg), np.zeros(arg.shape), np.ones(arg.size, dtype=bool)
        if type(expression).__name__ == "Trace":
            summands = np.ravel(np.eye(arg.shape[0], dtype=bool), order="F")
        else:
            sums = np.sum(np.zeros(arg.shape), axis=expression.axis, keepdims=True)
            numbers = np.broadcast_to(np.arange(sums.size).reshape(sums.shape, order="F"), arg.shape)
        k = summands[terms.rows]
        rows = np.ravel(numbers, order="F").astype(np.int64)[terms.rows[k]]
        return Coefficients.of(rows, terms.columns[k], terms.values[k], terms.radii[k], (expression.size, WIDTH))

    def _product(self, args: list[cp.Expression], constant_first: bool) -> Coefficients:
        """``A X = (I x A) vec X``, or ``X A = (A' x I) vec X``; of scalars and vectors as matrices."""
        a, b = (list(arg.shape) for arg in args)
        a, b = [1, *a] if len(a) == 1 else a, [*b, 1] if len(b) == 1 else b
        if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
            raise UnknownError("products of more than two dimensions are not followed")
        terms, variable, height, count = (
            self.of(args[not constant_first]),
            args[constant_first],
            (a if constant_first else b)[0],
            b[1] if constant_first else a[0],
        )
        copies, k = np.repeat(np.arange(count), len(terms.rows)), np.tile(np.arange(len(terms.rows)), count)
        if len(k) > MAX_PRODUCTS:
            raise UnknownError("the program is too large to follow its compilation")
        i, j = terms.rows[k] % height, terms.rows[k] // height
        rows, columns = (
            (copies * a[0] + i, copies * b[0] + j) if constant_first else (j * a[0] + copies, i * a[0] + copies)
        )
        sizes = a[0] * b[1], variable.size
        return Coefficients.of(rows, columns, terms.values[k], terms.radii[k], sizes) @ self.of(variable)

    def _scaled(self, expression: cp.Expression, fixed: cp.Expression, variable: cp.Expression) -> Coefficients:
        """Products with, or quotients by, constants entry by entry."""
        factors, terms = self._spread(fixed, expression.shape), self._spread(variable, expression.shape)
        value, radius, entries = np.zeros(expression.size), np.zeros(expression.size), np.arange(expression.size)
        value[factors.rows], radius[factors.rows] = factors.values, factors.radii
        if type(expression).__name__ == "DivExpression":
            return terms.divided(value, radius)
        return Coefficients(entries, entries, value, radius, (expression.size, expression.size)) @ terms

    def curvature(self, objective: Coefficients) -> Coefficients:
        """The matrix of the quadratic forms of an objective that was read, twice."""
        matrices = [Coefficients.exact(sp.csr_array((self.n, self.n)))]
        for form, first in self.forms:
            inside = (objective.columns >= first) & (objective.columns < first + form.size)
            factors, radii, matrix = np.zeros(form.size), np.zeros(form.size), self.of(form.args[1])
            factors[objective.columns[inside] - first] = 2.0 * objective.values[inside]
            radii[objective.columns[inside] - first] = 2.0 * objective.radii[inside]
            k, place = form.args[0].size, self.places[form.args[0].id]
            i, j = matrix.rows % k, matrix.rows // k
            owner = np.zeros(k, dtype=np.int64) if form.size == 1 else np.arange(k)
            for number, block in enumerate(form.block_indices or ()):
                owner[block] = number
            if (owner[i] != owner[j]).any():
                raise UnknownError("a quadratic form is of several blocks")
            products = times(factors[owner[i]], radii[owner[i]], matrix.values, matrix.radii)
            matrices.append(Coefficients.of(i + place, j + place, *products, (self.n, self.n)))
        return Coefficients.total(matrices)


def _terms(rows: LongArray, columns: LongArray, values: FloatArray, size: int) -> Coefficients:
    return Coefficients(rows, columns, values, np.zeros(len(values)), (size, WIDTH))


def _numbers(arg: cp.Expression, first: int = 0) -> FloatArray:
    """Numbers of entries from 1 on, as 0 stands for none."""
    return (np.arange(arg.size, dtype=np.float64) + 1.0 + first).reshape(arg.shape, order="F")


def _indices(numbers: FloatArray) -> LongArray:
    return np.ravel(numbers, order="F").astype(np.int64) - 1
