"""The data sets that Figs. 6 and 9 learn many metrics of: letters, isolet and handwritten digits, one split each."""

from dataclasses import dataclass

import numpy as np
from table1.columns import COLUMNS

from lmnn_figs.digits import Digits, K
from sdpmetric.classification import knn_predict

# Principal components of isolet and of the digits.
LEADING = 40


@dataclass(frozen=True, eq=False)
class DataSet:
    """A training part and a test part, and in words which."""

    name: str
    protocol: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def errors(self, components: np.ndarray, regions: np.ndarray | None = None) -> tuple[float, float]:
        """Errors in per cent, test and train; of the training part each example is left out in turn."""
        options = {"regions": regions, "algorithm": "brute" if self.X.shape[1] >= LEADING else "auto"}
        shown = ((self.X_test, self.y_test), (None, self.y))
        found = [100 * np.mean(knn_predict(components, self.X, self.y, Q, K, **options) != y) for Q, y in shown]
        return float(found[0]), float(found[1])


def data_set(name: str, digits: Digits) -> DataSet:
    """One of "letters", "isolet" and "digits", the last being the digits that other figures use, too."""
    if name == "digits":
        leading = slice(min(LEADING, digits.n_components))
        protocol = (
            f"{digits.name}: {len(digits.y):,} training rows (random, seed 0), {len(digits.y_test):,} test rows, "
            f"deskewed, {leading.stop} principal components"
        )
        return DataSet(digits.name, protocol, digits.Z[:, leading], digits.y, digits.Z_test[:, leading], digits.y_test)
    if name not in ("letters", "isolet"):
        raise SystemExit(f"there is no data set {name} here; choose among letters, isolet, digits.")
    split = COLUMNS[name].split(0)
    protocol = {
        "letters": f"letters: a random 70 % for training ({len(split.y):,}, seed 0), features as they are",
        "isolet": f"isolet: speaker group 1 for training ({len(split.y):,}), group 5 for testing, {LEADING} principal "
        "components",
    }[name]
    X, X_test = (np.asarray(P[:, :LEADING], dtype=np.float64) for P in (split.X, split.X_test))
    return DataSet(name, protocol, X, split.y, X_test, split.y_test)
