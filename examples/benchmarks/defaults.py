"""Accuracy of 3 nearest neighbors under each estimator's default: a table in Markdown, in about half an hour.

    python examples/benchmarks/defaults.py [--peers PYTHON] [--only ITML,MMC] [--data iris,wine] [--store defaults.json]

Features are standardized on the training part of each of five stratified folds. ``PYTHON`` is that of an environment
with metric-learn (``examples/benchmarks/peers.sh`` builds one), whose learners from labels run on the same folds with
their defaults. A fit may take LIMIT seconds. What `--store` holds of another run is not measured again.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import sdpmetric as sm
from sdpmetric import datasets, estimators

DATA = {"iris": 150, "wine": 178, "balance": 625, "ionosphere": 351, "breast_cancer": 569, "digits": 600}  # at most
LIMIT = 60.0
OURS = [name for name in estimators.__all__ if hasattr(getattr(estimators, name), "pair_distance")]
THEIRS = {name: f"{name}_Supervised" for name in ("ITML", "MMC", "LSML", "SDML", "SCML", "RCA")}
THEIRS |= {name: name for name in ("LMNN", "NCA", "MLKR", "LFDA", "Covariance")}
PEER = """
import sys, time, signal, inspect, numpy as np, metric_learn as ml
given, out, limit = np.load(sys.argv[1]), {}, float(sys.argv[4])
kind = getattr(ml, sys.argv[3])
arguments = {"random_state": 0} if "random_state" in inspect.signature(kind).parameters else {}
def late(*_):
    raise TimeoutError(f"over {limit:.0f} s")
signal.signal(signal.SIGALRM, late)
seconds = []
for fold in range(5):
    began = time.process_time()
    signal.alarm(int(limit))
    try:
        model = kind(**arguments).fit(given[f"X{fold}"], given[f"y{fold}"])
        L = model.components_
        out[f"L{fold}"] = L
        if np.iscomplexobj(L) or not np.isfinite(L).all():
            raise ValueError("complex" if np.iscomplexobj(L) else "not finite")
    except Exception as error:
        out = {"error": str(error) if isinstance(error, TimeoutError) else "error"}
        break
    finally:
        signal.alarm(0)
    seconds.append(time.process_time() - began)
np.savez(sys.argv[2], seconds=np.mean(seconds) if seconds else 0.0, **out)
"""


def folds(name: str) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Training and test parts, standardized on the former."""
    X, y = datasets.load(name)
    y = np.unique(y, return_inverse=True)[1]
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[: DATA[name]])
    X, y = np.asarray(X, dtype=np.float64)[rows], y[rows]
    found = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        scaler = StandardScaler().fit(X[train])
        found.append((scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]))
    return found


def accuracy(parts: list, embed: list) -> float:
    """The mean over folds, in percent, of what embeds the examples of each fold."""
    scores = []
    for (X, y, X_test, y_test), transform in zip(parts, embed, strict=True):
        scores.append(KNeighborsClassifier(3).fit(transform(X), y).score(transform(X_test), y_test))
    return 100.0 * float(np.mean(scores))


def ours(name: str, parts: list) -> dict[str, object]:
    fitted, began = [], time.process_time()
    for X, y, _, _ in parts:
        model = getattr(estimators, name)()
        if "max_time" in model.get_params():
            model.set_params(max_time=LIMIT)
        fitted.append(model.fit(X, y))
        if model.solution_.status is sm.Status.USER_LIMIT and model.solution_.seconds > 0.9 * LIMIT:
            return {"error": f"over {LIMIT:.0f} s"}
    seconds = (time.process_time() - began) / 5
    if name == "MultiMetricLMNN":
        scores = [model.score(X, y) for model, (_, _, X, y) in zip(fitted, parts, strict=True)]
        return {"accuracy": 100.0 * float(np.mean(scores)), "seconds": seconds}
    return {"accuracy": accuracy(parts, [model.transform for model in fitted]), "seconds": seconds}


def theirs(name: str, parts: list, python: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "given.npz", Path(folder) / "made.npz"
        np.savez(given, **{f"{key}{k}": part[i] for k, part in enumerate(parts) for i, key in enumerate("Xy")})
        subprocess.run(
            [python, "-W", "ignore", "-c", PEER, given, made, THEIRS[name], str(LIMIT)], check=True, capture_output=True
        )
        found = dict(np.load(made))
    if "error" in found:
        return {"error": str(found["error"])}
    embed = [lambda X, k=k: X @ found[f"L{k}"].T for k in range(5)]
    return {"accuracy": accuracy(parts, embed), "seconds": float(found["seconds"])}


def cell(found: dict[str, object] | None) -> str:
    if found is None:
        return "-"
    return str(found["error"]) if "error" in found else f"{found['accuracy']:.1f} ({found['seconds']:.2g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="the Python of an environment with metric-learn")
    parser.add_argument("--only", default=",".join(OURS))
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    known = json.loads(given.store.read_text()) if given.store and given.store.exists() else {}
    names, asked = given.data.split(","), given.only.split(",")
    for data in names:
        parts = folds(data)
        for name in ["Euclidean", *asked]:
            for who in ("ours", "theirs"):
                key = f"{data} {name} {who}"
                if key in known or (who == "theirs" and (given.peers is None or name not in THEIRS)):
                    continue
                if name == "Euclidean":
                    known[key] = {"accuracy": accuracy(parts, [lambda X: X] * 5), "seconds": 0.0}
                else:
                    known[key] = ours(name, parts) if who == "ours" else theirs(name, parts, given.peers)
                print(key, cell(known[key]), file=sys.stderr, flush=True)
                if given.store:
                    given.store.write_text(json.dumps(known, indent=1))
    print("| | " + " | ".join(names) + " |\n|" + " --- |" * (len(names) + 1))
    for name in ["Euclidean", *asked]:
        for who, title in (("ours", name), ("theirs", f"{name}, metric-learn")):
            found = [known.get(f"{data} {name} {who}") for data in names]
            if any(found):
                print(f"| {title} | " + " | ".join(map(cell, found)) + " |")


if __name__ == "__main__":
    main()
