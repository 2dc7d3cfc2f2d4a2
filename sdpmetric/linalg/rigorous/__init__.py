"""Bounds that hold in floating point: directed sums, images and forms with their errors, eigenvalues, logarithms.

Every float in the data, the weights and a factor is taken as an exact number. With the unit roundoff ``u = 2^-53`` and
``gamma_n = n u / (1 - n u)``, a sum of n products errs by at most ``gamma_n`` times the sum of the products' absolute
values, in whatever order it is added up [H2002]. The proofs rest on four inequalities:

- *images*: ``|fl(c T) - c T| <= gamma_{d+2} |c| |T|`` entry by entry, for rows c with one rounding in each entry;
- *forms*: with points ``p_i`` that are off by at most ``e_i``, ``sum w_q (p_a - p_b)(p_a - p_b)^T`` is off by at most
  ``sum |w_q| (2 |p_a - p_b| (e_a + e_b) + (e_a + e_b)^2)`` in the spectral norm, plus the rounding of the sum;
- *eigenvalues*: if Cholesky's method succeeds in floating point, then the least eigenvalue of a symmetric matrix A is
  at least ``-gamma_{n+1} / (1 - gamma_{n+1}) trace(A)`` [R2006];
- *determinants*: if ``||X|| <= r < 1``, then ``trace(X) - ||X||_F^2 / (2 (1 - r)) <= log det(I + X) <= trace(X)``.
"""
