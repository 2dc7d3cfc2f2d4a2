"""POLA, Fig. 4
============

Fig. 4 of Shalev-Shwartz, Singer and Ng (2004): a filter for documents beside its rivals, measured again.

Run it with ``python examples/reproductions/pola_fig4.py``; it writes pola_fig4.md and pola_fig4.png into ``--output``.
Documents arrive one by one. As printed: one is called relevant if the closest of all relevant documents so far is
nearer than POLA's threshold, and the error is the mean of the rates of false positives and of false negatives; rivals
are the Perceptron, PAUM (a perceptron with uneven margins) and the nearest of all documents so far. The paper's 13
topics of Reuters-21578 need a network: the texts are those of ``examples/06_pola_stream.py``, five topics. Which pairs
teach POLA is not printed: here a document and the closest relevant one so far.

.. image:: /pictures/pola_fig4.png
   :alt: POLA, Fig. 4, as this script draws it
"""

# sphinx_gallery_thumbnail_path = 'pictures/pola_fig4.png'

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from printed import EXAMPLES, command, markdown, report
from sklearn.feature_extraction.text import TfidfVectorizer

import sdpmetric as sm

WORDS = 500
# Margins of PAUM for relevant and other documents, and POLA's gamma; the paper does not print its own.
MARGINS, GAMMA = (1.0, 0.1), 10.0
LEARNERS = ("POLA", "Perceptron", "PAUM", "1NN")


def wrong_answers(X: np.ndarray, relevant: np.ndarray, scale: float = 4.0) -> dict[str, np.ndarray]:
    """Whether each learner is wrong about each document, in their order."""
    n, d = X.shape
    said = {name: np.zeros(n, dtype=bool) for name in LEARNERS}
    stream = sm.POLAStream(d, gamma=GAMMA)
    Z = np.sqrt(scale / 2) * X  # documents have unit length, and squared distances are about 2
    weights = {name: np.zeros(d + 1) for name in ("Perceptron", "PAUM")}
    beside = np.concatenate([X, np.ones((n, 1))], axis=1)
    for t in range(n):
        seen = np.flatnonzero(relevant[:t])
        if len(seen):
            V = Z[seen] - Z[t]
            squared = np.sum((V @ stream.metric) * V, axis=1)
            closest = seen[squared.argmin()]
            said["POLA"][t] = squared.min() < stream.threshold
            stream.update(Z[t], Z[closest], bool(relevant[t]))
        sign = 1.0 if relevant[t] else -1.0
        for name, w in weights.items():
            score = float(w @ beside[t])
            said[name][t] = score > 0
            if sign * score <= (0.0 if name == "Perceptron" else MARGINS[0 if relevant[t] else 1]):
                w += sign * beside[t]
        if t:
            said["1NN"][t] = relevant[np.argmax(X[:t] @ X[t])]
    return {name: answers != relevant for name, answers in said.items()}


def balanced_error(wrong: np.ndarray, relevant: np.ndarray) -> float:
    """Mean of the two rates of errors, in per cent."""
    return 50 * float(np.mean(wrong[relevant]) + np.mean(wrong[~relevant]))


def main(arguments: list[str] | None = None) -> None:
    parser = command(__doc__, runs=False)
    parser.add_argument("--documents", type=int, help="take so many of them only")
    given = parser.parse_args(arguments)
    texts, topics = runpy.run_path(str(EXAMPLES / "06_pola_stream.py"))["documents"]()
    order = np.random.default_rng(0).permutation(len(texts))[: given.documents]
    words = TfidfVectorizer(stop_words="english", max_features=WORDS, min_df=2)
    X, topics = words.fit_transform(texts).toarray()[order], topics[order]
    rows, errors = [], []
    for topic in np.unique(topics):
        relevant = topics == topic
        wrong = wrong_answers(X, relevant)
        found = [balanced_error(wrong[name], relevant) for name in LEARNERS]
        errors.append(found)
        rows.append([str(topic), f"{relevant.sum()} of {len(X)}", *(f"{error:.1f}" for error in found)])
    rows.append(["mean", "", *(f"{error:.1f}" for error in np.mean(errors, axis=0))])
    note = (
        "Mean of the rates of false positives and of false negatives, %. The paper prints no values; it says that POLA "
        "is clearly better than 1NN, and Perceptron and PAUM often comparable."
    )

    def draw(path: Path) -> None:
        figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
        for place, (name, column) in enumerate(zip(LEARNERS, np.array(errors).T, strict=True)):
            axis.bar(np.arange(len(column)) + (place - 1.5) * 0.2, column, 0.2, label=name)
        axis.set_xticks(np.arange(len(errors)), [row[0] for row in rows[:-1]])
        axis.set_ylabel("mean of both error rates, %")
        axis.legend(frameon=False, ncols=4)
        figure.savefig(path, dpi=110)
        plt.close(figure)

    heads = ["topic", "relevant documents", *LEARNERS]
    report("pola_fig4", f"{note}\n\n{markdown(heads, rows)}", given.output, draw)


if __name__ == "__main__":
    main()
