"""POLA online
===========

Online POLA at work: digits with noisy pixels, and a filter for documents compared with the
Perceptron.

First, two digits of scikit-learn's 8 x 8 images, with noise on half of the pixels (after
POLA's Fig. 2). One pass over 2,000 pairs lowers the share of the noise in squared distances,
and the error of nearest neighbors with it.

Then filtering, a simpler case of its Fig. 4 (``reproductions/pola_fig4.py`` has the protocol):
documents arrive one by one, the filter predicts whether each is about a given topic, and is
then told. Online POLA compares the document with the first one of the topic, in the feature
space of a linear kernel, so it uses words only through inner products; scikit-learn's
Perceptron sees the words. In place of news articles the texts are the docstrings of scientific
packages, the topic is the package, and words that name a package are left out.

Mistakes are counted raw here, with few documents of the topic among many others. By the
balanced error of the paper, in which both kinds of documents count alike, POLA is the worst of
four methods on these documents (``docs/reproductions.md``).
"""

import importlib
import inspect
import pkgutil
import re
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Perceptron

import sdpmetric as sm
from sdpmetric import classification
from sdpmetric.plotting import COLORS, STYLE

plt.style.use(STYLE)

TOPICS = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")
DIGITS, NOISE, PER_TOPIC = (3, 8), 0.5, 100


def noisy_digits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images of two digits, gray values in [0, 1], with noise on half of the pixels; also
    which.
    """
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, DIGITS)
    noisy = np.zeros(64, dtype=bool)
    noisy[rng.permutation(64)[:32]] = True
    X = X[kept] / 16 + noisy * rng.normal(scale=NOISE, size=(kept.sum(), 64))
    return X, y[kept], noisy


def pairs_of(
    y: np.ndarray, n_pairs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Every other pair similar."""
    pairs = np.empty((n_pairs, 2), dtype=np.int32)
    for t in range(n_pairs):
        i = rng.integers(len(y))
        pool = np.flatnonzero((y == y[i]) == (t % 2 == 1))
        pairs[t] = i, rng.choice(pool[pool != i])
    return pairs, y[pairs[:, 0]] == y[pairs[:, 1]]


def documents() -> tuple[list[str], np.ndarray]:
    """Docstrings of public functions and classes, and the package each comes from."""
    texts: dict[str, dict[str, str]] = {}
    for topic in TOPICS:
        package, found = importlib.import_module(topic), {}
        for module in [
            topic,
            *(f"{topic}.{info.name}" for info in pkgutil.iter_modules(package.__path__)),
        ]:
            if module.split(".")[-1].startswith("_") or "test" in module:
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    members = sorted(vars(importlib.import_module(module)).items())
            except ImportError:
                continue
            for name, member in members:
                text = (
                    inspect.getdoc(member)
                    if callable(member) and not name.startswith("_")
                    else None
                )
                if (
                    text
                    and len(text) > 300
                    and str(getattr(member, "__module__", "")).startswith(topic)
                ):
                    found[name] = text
        texts[topic] = dict(list(found.items())[:: max(1, len(found) // PER_TOPIC)])
    names = re.compile(
        "|".join((*TOPICS, r"\bnp\b", r"\bpd\b", r"\bplt\b", "scikit", "learn", "axes")),
        re.IGNORECASE,
    )
    every = [
        (names.sub(" ", text), topic)
        for topic, found in texts.items()
        for text in found.values()
    ]
    return [text for text, _ in every], np.array([topic for _, topic in every])


def filter_documents(X: np.ndarray, relevant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether POLA and the Perceptron were wrong about each document but the first one of the
    topic.
    """
    first = int(np.argmax(relevant))
    stream, linear = sm.KernelPOLAStream(X.shape[1], "linear"), Perceptron(random_state=0)
    rest = np.delete(np.arange(len(X)), first)
    wrong, before = np.zeros((2, len(rest)), dtype=bool), 0
    for t, i in enumerate(rest):
        stream.update(X[i], X[first], relevant[i])
        wrong[0, t], before = stream.mistakes > before, stream.mistakes
        wrong[1, t] = (linear.predict(X[i : i + 1])[0] if t else False) != relevant[i]
        linear.partial_fit(X[i : i + 1], relevant[i : i + 1], classes=[False, True])
    return wrong[0], wrong[1]


def main(n_documents: int | None = None) -> None:
    rng = np.random.default_rng(0)
    X, y, noisy = noisy_digits(rng)
    half = len(y) // 2
    pairs, similar = pairs_of(y[:half], 2000, rng)
    stream = sm.POLAStream(64).partial_fit(X[:half], pairs, similar)
    euclid, learned = (
        np.mean(classification.knn_predict(L, X[:half], y[:half], X[half:], 3) != y[half:])
        for L in (np.eye(64), stream.components)
    )
    V, A = X[pairs[:, 0]] - X[pairs[:, 1]], stream.metric
    # Of the mean squared distance, what independent noise alone adds.
    shares = [
        2 * NOISE**2 * M[noisy, noisy].sum() / np.mean((V @ M) * V) / 64
        for M in (np.eye(64), A)
    ]
    leading = stream.components[0] / np.linalg.norm(stream.components[0])
    print(
        f"digits {DIGITS}: {stream.mistakes} mistakes on "
        f"{stream.n_items:,} pairs, threshold {stream.threshold:.2f}"
    )
    print(f"3-NN error on the other half: Euclid {euclid:.1%}, POLA {learned:.1%}")
    print(
        "share of the noise in the mean squared distance: "
        f"Euclid {shares[0]:.0%}, POLA {shares[1]:.0%}"
    )

    figure = plt.figure(figsize=(12, 6.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1, 1.25])
    panels = top.subplots(1, 6)
    shown = [np.flatnonzero(y == digit)[k] for digit in DIGITS for k in (0, 1)]
    for axis, i in zip(panels, shown, strict=False):
        axis.imshow(X[i].reshape(8, 8), cmap="gray_r", vmin=-0.5, vmax=1.5)
        axis.set_title(f"a {y[i]} with noise")
    panels[4].imshow(noisy.reshape(8, 8), cmap="gray_r")
    panels[4].set_title("noisy pixels")
    panels[5].imshow(leading.reshape(8, 8), cmap="coolwarm", vmin=-0.5, vmax=0.5)
    panels[5].set_title("first direction")
    for axis in panels:
        axis.set(xticks=[], yticks=[])

    texts, topics = documents()
    order = rng.permutation(len(texts))[:n_documents]
    words = TfidfVectorizer(stop_words="english", max_features=600, min_df=3)
    D, topics = words.fit_transform(texts).toarray()[order], topics[order]
    print(f"{len(D):,} documents, {D.shape[1]:,} words")
    for axis, topic in zip(bottom.subplots(1, len(TOPICS), sharey=True), TOPICS, strict=True):
        wrong = filter_documents(D, topics == topic)
        for label, color, series in zip(
            ("POLA", "Perceptron"), COLORS[:2], wrong, strict=True
        ):
            axis.plot(np.cumsum(series), color=color, label=label)
        of = f"{topic}, {np.sum(topics == topic)} documents"
        print(f"{of}: mistakes of POLA {wrong[0].sum()}, of the Perceptron {wrong[1].sum()}")
        axis.set(title=topic, xlabel="documents")
    figure.axes[6].set_ylabel("mistakes so far")
    figure.axes[6].legend(frameon=False)
    plt.show()


if __name__ == "__main__":
    main()
