"""How far the constants of a compiled cone program are from what a user wrote."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import FloatArray, LongArray
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous import U
from sdpmetric.linalg.rigorous.coefficients import DIGITS, MOST, Coefficients, UnknownError, times

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
ADVICE = "pass approx=False to {name}, which states it by power cones."


def reservation(problem: cp.Problem) -> str | None:
    """Why the cones of a problem may not have the solutions that were written, or None where they are proven to.

    Raises
    ------
    ValueError
        If CVXPY replaces an atom by an approximation.
    """
    stack = [(problem.objective.expr, True), *((arg, False) for c in problem.constraints for arg in c.args)]
    leaves = [*problem.variables(), *problem.constants(), *problem.parameters()]
    complex_one = any(leaf.is_complex() for leaf in leaves)
    why, seen = None, set()
    while stack:
        expression, top = stack.pop()
        if (id(expression), top) in seen:
            continue
        seen.add((id(expression), top))
        affine = isinstance(expression, cp.atoms.affine.affine_atom.AffAtom) or not expression.args
        same = affine or (not complex_one and not expression.is_constant() and _same(expression, top))
        if not same and why is None:
            why = f"the atom {type(expression).__name__} is compiled with rounding"
        stack += [(arg, top and affine) for arg in expression.args]
    return why


def _same(expression: cp.Expression, top: bool) -> bool:
    """Whether the cones of an atom have exactly its epigraph, if those of its arguments have."""
    name = type(expression).__name__
    if name in ("quantum_rel_entr",):
        raise ValueError("quantum_rel_entr is approximated by a quadrature, of which nothing is proven; leave it out.")
    if name in ("PowerApprox", "PnormApprox"):
        power = name == "PowerApprox"
        asked, used = (expression.p.value, expression.p_used) if power else (expression.original_p, expression.p)
        return _equal(name, asked, used)
    if name == "GeoMeanApprox":
        weights = [_fraction(p) for p in np.ravel(expression.p).tolist()] if expression.p is not None else []
        total = sum(weights, Fraction(0))
        pairs = zip([p / total for p in weights if p], [w for w in expression.w if w], strict=True)
        equal = [_equal(name, p, w) for p, w in pairs]
        return all(equal)
    if name in ("Power", "Pnorm"):
        return expression.p_used in (0, 1, 2) if name == "Power" else expression.p == 2
    if name == "QuadForm":
        if not top:
            P = expression.args[1].value
            _all_directions(P.toarray() if sp.issparse(P) else np.asarray(P))
        return top
    if name in ("sum_largest", "lambda_sum_largest"):
        return isinstance(expression.k, (int, np.integer))
    return name in SAME


def _fraction(p: object) -> Fraction:
    return p if isinstance(p, Fraction) else Fraction(float(np.asarray(p).ravel()[0]))


def _equal(name: str, asked: object, used: object) -> bool:
    """Whether an exponent is the one that was written; an error if it is not even up to a rounding."""
    if isinstance(asked, str):
        return False
    exact, rational = _fraction(asked), _fraction(used)
    if abs(exact - rational) > abs(exact) * Fraction(4 * U):
        public = {"PowerApprox": "cp.power", "PnormApprox": "cp.pnorm", "GeoMeanApprox": "cp.geo_mean"}[name]
        raise ValueError(
            f"the exponent or weight {float(exact)!r} is approximated by the fraction {rational}; "
            + ADVICE.format(name=public)
        )
    return exact == rational


def _all_directions(P: FloatArray) -> None:
    """Raise an error if CVXPY drops an eigenvalue of a matrix that is more than rounding."""
    values = np.abs(np.linalg.eigvalsh(P)) if P.ndim == 2 and np.isfinite(P).all() else np.zeros(1)
    most = float(values.max(initial=0.0))
    dropped = values[(values > 64.0 * len(values) * U * most) & (values < 1e-9 * most)]
    if len(dropped):
        raise ValueError(
            f"CVXPY may leave out the eigenvalue {dropped.max():.1e} of a matrix in quad_form, whose largest is "
            f"{most:.1e}; write a constraint with cp.sum_squares(F @ x), where F'F is the matrix."
        )


class Reading:
    """Affine expressions as coefficients of n variables and of 1, and of quadratic forms behind them."""

    def __init__(self, places: dict[int, int], n: int) -> None:
        self.places, self.n, self._next = places, n, n + 1
        self.forms: list[tuple[SymbolicQuadForm, int]] = []
        self._known: dict[int, tuple[cp.Expression, Coefficients]] = {}

    def of(self, expression: cp.Expression) -> Coefficients:
        """Its coefficients, entry by entry in Fortran's order."""
        if id(expression) not in self._known:
            self._known[id(expression)] = expression, self._read(expression)
        return self._known[id(expression)][1]

    def _read(self, expression: cp.Expression) -> Coefficients:
        name, size = type(expression).__name__, expression.size
        if isinstance(expression, cp.Variable):
            every = np.arange(size)
            return self._terms(every, every + self.places[expression.id], np.ones(size), size)
        if not expression.args:
            return self._constant(expression)
        if name == "SymbolicQuadForm":
            first = self._next
            self.forms.append((expression, first))
            self._next += size
            return self._terms(np.arange(size), np.arange(size) + first, np.ones(size), size)
        args = expression.args
        if name in CHOOSING:
            return self._chosen(expression)
        if name == "NegExpression":
            return -self.of(args[0])
        if name == "AddExpression":
            return Coefficients.total([self._spread(arg, expression.shape) for arg in args])
        if name in ("Sum", "Trace"):
            return self._sums(expression)
        if name in ("MulExpression", "multiply", "DivExpression"):
            left = args[0].is_constant() and name != "DivExpression"
            fixed, other = (args[0], args[1]) if left else (args[1], args[0])
            if not fixed.is_constant():
                raise UnknownError(f"a product of expressions is no {name}")
            return (self._product if name == "MulExpression" else self._scaled)(expression, fixed, other, left)
        raise UnknownError(f"compilation of the atom {name} is not followed")

    def _terms(self, rows: LongArray, columns: LongArray, values: FloatArray, size: int) -> Coefficients:
        return Coefficients(rows, columns, values, np.zeros(len(values)), (size, WIDTH))

    def _constant(self, leaf: cp.Expression) -> Coefficients:
        value = leaf.value
        if sp.issparse(value):
            coo = sp.coo_array(value)
            where, value = np.ravel_multi_index(coo.coords, coo.shape, order="F"), coo.data
        else:
            value = np.asarray(value)
            value = value.ravel(order="F")
            where = np.arange(len(value))
        if value.dtype == object or np.iscomplexobj(value):
            raise UnknownError("a constant is no array of real numbers")
        floats = value.astype(np.float64)
        if not np.array_equal(floats.astype(value.dtype), value):
            raise UnknownError("a constant has more digits than a float")
        if value.dtype.kind in "iu" and len(value) and np.abs(floats).max() >= 2.0**DIGITS:
            raise UnknownError("a whole number is too large for a float")
        order = np.argsort(where)
        order = order[floats[order] != 0.0]
        return self._terms(where[order], np.full(len(order), self.n), floats[order], leaf.size)

    def _numbers(self, arg: cp.Expression, first: int = 0) -> FloatArray:
        return (np.arange(arg.size, dtype=np.float64) + 1.0 + first).reshape(arg.shape, order="F")

    def _chosen(self, expression: cp.Expression) -> Coefficients:
        firsts = np.cumsum([0, *(arg.size for arg in expression.args)])
        values = [self._numbers(arg, int(k)) for arg, k in zip(expression.args, firsts, strict=False)]
        picked = expression.numeric(values)
        picked = picked.toarray() if sp.issparse(picked) else np.asarray(picked)
        terms = [self.of(arg) for arg in expression.args]
        return Coefficients.stacked(terms).chosen(np.ravel(picked, order="F").astype(np.int64) - 1)

    def _spread(self, arg: cp.Expression, shape: tuple[int, ...]) -> Coefficients:
        """An argument repeated to a shape."""
        if arg.shape == shape:
            return self.of(arg)
        picked = np.broadcast_to(self._numbers(arg), shape)
        return self.of(arg).chosen(np.ravel(picked, order="F").astype(np.int64) - 1)

    def _sums(self, expression: cp.Expression) -> Coefficients:
        arg = expression.args[0]
        terms, numbers = self.of(arg), np.zeros(arg.shape)
        if type(expression).__name__ == "Trace":
            kept = np.ravel(np.eye(arg.shape[0], dtype=bool), order="F")
        else:
            ends = np.sum(np.zeros(arg.shape), axis=expression.axis, keepdims=True)
            numbers = np.broadcast_to(np.arange(ends.size).reshape(ends.shape, order="F"), arg.shape)
            kept = np.ones(arg.size, dtype=bool)
        target, some = np.ravel(numbers, order="F").astype(np.int64), kept[terms.rows]
        return Coefficients.of(
            target[terms.rows[some]],
            terms.columns[some],
            terms.values[some],
            terms.radii[some],
            (expression.size, WIDTH),
        )

    def _product(
        self, expression: cp.Expression, fixed: cp.Expression, other: cp.Expression, left: bool
    ) -> Coefficients:
        """``A X = (I x A) vec X``, or ``X A = (A' x I) vec X``; of scalars and vectors as matrices."""
        a, b = (list(arg.shape) for arg in expression.args)
        a, b = [1, *a] if len(a) == 1 else a, [*b, 1] if len(b) == 1 else b
        if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
            raise UnknownError("products of more than two dimensions are not followed")
        terms, shape = self.of(fixed), a if left else b
        i, k = terms.rows % shape[0], terms.rows // shape[0]
        count = b[1] if left else a[0]
        copies, every = np.repeat(np.arange(count), len(i)), np.tile(np.arange(len(i)), count)
        i, k = i[every], k[every]
        rows, columns = (copies * a[0] + i, copies * b[0] + k) if left else (k * a[0] + copies, i * a[0] + copies)
        if len(rows) > MOST:
            raise UnknownError("the program is too large to follow its compilation")
        sizes = a[0] * b[1], other.size
        return Coefficients.of(rows, columns, terms.values[every], terms.radii[every], sizes) @ self.of(other)

    def _scaled(self, expression: cp.Expression, fixed: cp.Expression, other: cp.Expression, _: bool) -> Coefficients:
        """Products with, or quotients by, constants entry by entry."""
        factors, terms = self._spread(fixed, expression.shape), self._spread(other, expression.shape)
        value, radius = np.zeros(expression.size), np.zeros(expression.size)
        value[factors.rows], radius[factors.rows] = factors.values, factors.radii
        every = np.arange(expression.size)
        if type(expression).__name__ != "DivExpression":
            return Coefficients(every, every, value, radius, (len(every), len(every))) @ terms
        return terms.divided(value, radius)

    def curvature(self, objective: Coefficients) -> Coefficients:
        """The matrix of the quadratic forms of an objective that was read, twice."""
        parts = []
        for form, first in self.forms:
            inside = (objective.columns >= first) & (objective.columns < first + form.size)
            factors, off, matrix = np.zeros(form.size), np.zeros(form.size), self.of(form.args[1])
            factors[objective.columns[inside] - first] = 2.0 * objective.values[inside]
            off[objective.columns[inside] - first] = 2.0 * objective.radii[inside]
            k, place = form.args[0].size, self.places[form.args[0].id]
            i, j = matrix.rows % k, matrix.rows // k
            owner = np.zeros(k, dtype=np.int64) if form.size == 1 else np.arange(k)
            for number, some in enumerate(form.block_indices or ()):
                owner[some] = number
            if (owner[i] != owner[j]).any():
                raise UnknownError("a quadratic form is of several blocks")
            values, radii = times(factors[owner[i]], off[owner[i]], matrix.values, matrix.radii)
            parts.append(Coefficients.of(i + place, j + place, values, radii, (self.n, self.n)))
        return Coefficients.total([Coefficients.exact(sp.csr_array((self.n, self.n))), *parts])
