"""How far the constants of a compiled cone program are from what a user wrote, by sums and products without rounding.

Affine expressions are evaluated as matrices of coefficients. A product of floats of k and l binary digits is exact if
k + l is at most 53; a sum is exact, in any order, if all its terms are multiples of one power of 2 and the sum of their
absolute values is less than 2^53 times that. Where neither is proven, a radius bounds what was rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdpmetric.arrays import BoolArray, FloatArray, LongArray
from sdpmetric.lazy import cvxpy as cp
from sdpmetric.linalg.rigorous import U

if TYPE_CHECKING:
    from cvxpy.atoms.quad_form import SymbolicQuadForm

# Binary digits of a float; products between these sizes neither over- nor underflow.
DIGITS, SMALLEST, LARGEST = 53, 1e-280, 1e300
# Products of constants with coefficients, at most: an evaluation should take less time than compilation.
MOST = 20_000_000
# More columns than any program has: those of quadratic forms are counted while an objective is read.
WIDTH = 1 << 40
# More than the rounding of a quotient, and of a divisor such as the square root of a whole number, relatively.
QUOTIENT = 4.0 * U

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
PARTS = ("rows", "columns", "values", "radii")
ADVICE = "pass approx=False to {name}, which states it by power cones."


class UnknownError(ValueError):
    """The error of compilation is not known."""


def reservation(problem: cp.Problem) -> str | None:
    """Why the cones of a problem may not have the solutions that were written, or None where they are proven to.

    Raises
    ------
    ValueError
        If CVXPY replaces an atom by an approximation.
    """
    stack = [(problem.objective.expr, True), *((arg, False) for c in problem.constraints for arg in c.args)]
    complex_one = any(v.is_complex() for v in problem.variables())
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
            _all_directions(np.asarray(expression.args[1].value))
        return top
    if name in ("sum_largest", "lambda_sum_largest"):
        return isinstance(expression.k, (int, np.integer))
    return name in SAME


def _fraction(p: object) -> Fraction:
    return p if isinstance(p, Fraction) else Fraction(float(np.ravel(p)[0]))  # type: ignore[arg-type]


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


# -- coefficients -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Terms:
    """A matrix of coefficients with the radius of each, as triplets ordered by row and column; none occurs twice."""

    rows: LongArray
    columns: LongArray
    values: FloatArray
    radii: FloatArray
    shape: tuple[int, int]

    @classmethod
    def of(
        cls, rows: LongArray, columns: LongArray, values: FloatArray, radii: FloatArray, shape: tuple[int, int]
    ) -> Terms:
        """Triplets added up."""
        place = rows.astype(np.int64) * shape[1] + columns
        order = np.argsort(place, kind="stable")
        place, values, radii = place[order], values[order], radii[order]
        first = np.flatnonzero(np.diff(place, prepend=-1))
        if len(first) < len(place):
            counts = np.diff(np.append(first, len(place)))
            sizes = np.add.reduceat(np.abs(values), first)
            unit = np.minimum.reduceat(_lowest(values), first)
            exact = (counts == 1) | (sizes < np.ldexp(1.0, np.clip(unit + DIGITS, -1000, 1000)))
            lost = np.where(exact, 0.0, 1.01 * U * counts * sizes)
            two = first[counts == 2]
            a, b = values[two], values[two + 1]
            part = (a + b) - a
            lost[counts == 2] = np.abs((a - ((a + b) - part)) + (b - part))  # exactly what a sum of two loses
            values, radii = np.add.reduceat(values, first), np.add.reduceat(radii, first) * (1.0 + 2.0 * U * counts)
            radii = radii + lost
        place = place[first]
        used = (values != 0.0) | (radii > 0.0)
        return cls(place[used] // shape[1], place[used] % shape[1], values[used], radii[used], shape)

    def chosen(self, entries: LongArray) -> Terms:
        """Rows by number, a row of zeros for -1."""
        starts = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        kept = np.flatnonzero(entries >= 0)
        first, last = starts[entries[kept]], starts[entries[kept] + 1]
        which, k = _ranges(first, last - first)
        return Terms(kept[k], self.columns[which], self.values[which], self.radii[which], (len(entries), self.shape[1]))

    def __matmul__(self, other: Terms) -> Terms:
        starts = np.searchsorted(other.rows, np.arange(other.shape[0] + 1))
        counts = starts[self.columns + 1] - starts[self.columns]
        if counts.sum() > MOST:
            raise UnknownError("the program is too large to follow its compilation")
        which, k = _ranges(starts[self.columns], counts)
        product = _times(self.values[k], self.radii[k], other.values[which], other.radii[which])
        return Terms.of(self.rows[k], other.columns[which], *product, shape=(self.shape[0], other.shape[1]))

    def __neg__(self) -> Terms:
        return Terms(self.rows, self.columns, -self.values, self.radii, self.shape)

    def stacked(self, below: list[Terms]) -> Terms:
        """These rows, and others below them."""
        parts = [self, *below]
        firsts = np.cumsum([0, *(part.shape[0] for part in parts)])
        rows = [part.rows + first for part, first in zip(parts, firsts, strict=False)]
        return Terms(
            np.concatenate(rows),
            *(np.concatenate([getattr(p, name) for p in parts]) for name in ("columns", "values", "radii")),
            shape=(int(firsts[-1]), self.shape[1]),
        )

    def apart(self, M: sp.csr_array) -> sp.csr_array:
        """Floats not below the distance of each entry of a matrix from the exact one, without zeros."""
        both, width = sp.coo_array(M), M.shape[1]
        rows, columns = (np.concatenate([a, b]) for a, b in ((self.rows, both.row), (self.columns, both.col)))
        values, radii = np.concatenate([-self.values, both.data]), np.append(self.radii, np.zeros(both.nnz))
        left = Terms.of(rows, columns, values, radii, (self.shape[0], max(width, self.shape[1])))
        size = (np.abs(left.values) + left.radii) * (1.0 + 4.0 * U)
        return sp.csr_array((size, (left.rows, left.columns)), (self.shape[0], width))


def _times(a: FloatArray, a_off: FloatArray, b: FloatArray, b_off: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Products and their radii."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = a * b
        size = np.abs(product)
        exact = _fits(a, b)
        exact &= ((size > SMALLEST) & (size < LARGEST)) | (a == 0.0) | (b == 0.0)
        radii = np.where(exact, 0.0, 1.01 * U * size + 1e-300)
        return product, radii + 1.01 * (np.abs(a) * b_off + a_off * (np.abs(b) + b_off))


def _ranges(first: LongArray, counts: LongArray) -> tuple[LongArray, LongArray]:
    """Numbers from each first one, so many, and which of these each belongs to."""
    k = np.repeat(np.arange(len(counts)), counts)
    return first[k] + np.arange(len(k)) - (np.cumsum(counts) - counts)[k], k


def _lowest(v: FloatArray) -> LongArray:
    """The exponent of the lowest binary digit of each float that is not 0."""
    mantissa, exponent = np.frexp(v)
    whole = np.abs(np.ldexp(np.where(np.isfinite(v), mantissa, 0.0), DIGITS)).astype(np.int64)
    low = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where((v == 0.0) | ~np.isfinite(v), 2000, exponent - DIGITS + low).astype(np.int64)


def _digits(v: FloatArray) -> LongArray:
    """How many binary digits each float has."""
    return np.where(v == 0.0, 0, np.frexp(v)[1] - _lowest(v)).astype(np.int64)


def _fits(a: FloatArray, b: FloatArray) -> BoolArray:
    """Whether products have at most 53 binary digits."""
    first, second = _digits(a), _digits(b)
    return (first + second <= DIGITS) | (np.minimum(first, second) <= 1)


class Reading:
    """Affine expressions as coefficients of n variables and of 1, and of quadratic forms behind them."""

    def __init__(self, places: dict[int, int], n: int) -> None:
        self.places, self.n, self._next = places, n, n + 1
        self.forms: list[tuple[SymbolicQuadForm, int]] = []
        self._known: dict[int, tuple[cp.Expression, Terms]] = {}

    def of(self, expression: cp.Expression) -> Terms:
        """Its coefficients, entry by entry in Fortran's order."""
        if id(expression) not in self._known:
            self._known[id(expression)] = expression, self._read(expression)
        return self._known[id(expression)][1]

    def _read(self, expression: cp.Expression) -> Terms:
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
            each = [self._spread(arg, expression.shape) for arg in args]
            joined = [
                np.concatenate([getattr(t, part) for t in each]) for part in ("rows", "columns", "values", "radii")
            ]
            return Terms.of(*joined, shape=(size, WIDTH))
        if name in ("Sum", "Trace"):
            return self._sums(expression)
        if name in ("MulExpression", "multiply", "DivExpression"):
            left = args[0].is_constant() and name != "DivExpression"
            fixed, other = (args[0], args[1]) if left else (args[1], args[0])
            if not fixed.is_constant():
                raise UnknownError(f"a product of expressions is no {name}")
            return (self._product if name == "MulExpression" else self._scaled)(expression, fixed, other, left)
        raise UnknownError(f"compilation of the atom {name} is not followed")

    def _terms(self, rows: LongArray, columns: LongArray, values: FloatArray, size: int) -> Terms:
        return Terms(rows, columns, values, np.zeros(len(values)), (size, WIDTH))

    def _constant(self, leaf: cp.Expression) -> Terms:
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

    def _chosen(self, expression: cp.Expression) -> Terms:
        firsts = np.cumsum([0, *(arg.size for arg in expression.args)])
        values = [self._numbers(arg, int(k)) for arg, k in zip(expression.args, firsts, strict=False)]
        picked = expression.numeric(values)
        picked = picked.toarray() if sp.issparse(picked) else np.asarray(picked)
        terms = [self.of(arg) for arg in expression.args]
        return terms[0].stacked(terms[1:]).chosen(np.ravel(picked, order="F").astype(np.int64) - 1)

    def _spread(self, arg: cp.Expression, shape: tuple[int, ...]) -> Terms:
        """An argument repeated to a shape."""
        if arg.shape == shape:
            return self.of(arg)
        picked = np.broadcast_to(self._numbers(arg), shape)
        return self.of(arg).chosen(np.ravel(picked, order="F").astype(np.int64) - 1)

    def _sums(self, expression: cp.Expression) -> Terms:
        arg = expression.args[0]
        terms, numbers = self.of(arg), np.zeros(arg.shape)
        if type(expression).__name__ == "Trace":
            kept = np.ravel(np.eye(arg.shape[0], dtype=bool), order="F")
        else:
            ends = np.sum(np.zeros(arg.shape), axis=expression.axis, keepdims=True)
            numbers = np.broadcast_to(np.arange(ends.size).reshape(ends.shape, order="F"), arg.shape)
            kept = np.ones(arg.size, dtype=bool)
        target, some = np.ravel(numbers, order="F").astype(np.int64), kept[terms.rows]
        return Terms.of(
            target[terms.rows[some]],
            terms.columns[some],
            terms.values[some],
            terms.radii[some],
            (expression.size, WIDTH),
        )

    def _product(self, expression: cp.Expression, fixed: cp.Expression, other: cp.Expression, left: bool) -> Terms:
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
        return Terms.of(rows, columns, terms.values[every], terms.radii[every], sizes) @ self.of(other)

    def _scaled(self, expression: cp.Expression, fixed: cp.Expression, other: cp.Expression, _: bool) -> Terms:
        """Products with, or quotients by, constants entry by entry."""
        factors, terms = self._spread(fixed, expression.shape), self._spread(other, expression.shape)
        value, radius = np.zeros(expression.size), np.zeros(expression.size)
        value[factors.rows], radius[factors.rows] = factors.values, factors.radii
        every = np.arange(expression.size)
        if type(expression).__name__ != "DivExpression":
            return Terms(every, every, value, radius, (len(every), len(every))) @ terms
        if (np.abs(value) <= 2.0 * radius).any():
            raise UnknownError("a divisor may be 0")
        d, e = value[terms.rows], radius[terms.rows]
        q = terms.values / d
        exact = _fits(q, d) & (q * d == terms.values) & (np.abs(q) > SMALLEST) & (e == 0.0)
        off = (terms.radii + np.abs(q) * e) / (np.abs(d) - e) * (1.0 + 8.0 * U)
        off = off + np.where(exact | (terms.values == 0.0), 0.0, QUOTIENT * np.abs(q) + 1e-300)
        return Terms(terms.rows, terms.columns, q, off, terms.shape)

    def curvature(self, objective: Terms) -> Terms:
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
            values = _times(factors[owner[i]], off[owner[i]], matrix.values, matrix.radii)
            parts.append((i + place, j + place, *values))
        joined = [np.concatenate(part) for part in zip(*parts, strict=True)] if parts else [np.zeros(0)] * 4
        return Terms.of(*joined[:2], *joined[2:], shape=(self.n, self.n))
