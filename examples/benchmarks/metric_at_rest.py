"""Queries under a metric that no longer moves: HashIndex, and scans by NumPy and faiss of the embedded examples.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python examples/benchmarks/metric_at_rest.py

prints processor milliseconds per query, the NumPy scan's time over it, and the share of the exact 10 nearest that each
finds.
"""

import argparse
import time

import faiss
import numpy as np

import sdpmetric as sm


def data(n_examples, n_features, n_queries, seed):
    """Clusters, of which queries are drawn as well, and a metric of full rank."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(200, n_features))
    near = centers[rng.integers(200, size=n_examples + n_queries)]
    X = (near + 0.5 * rng.normal(size=near.shape)).astype(np.float32)
    L = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0] * np.geomspace(0.2, 2.0, n_features)
    return X[:n_examples], X[n_examples:], L


def timed(query, queries):
    """Rows found for each query, and processor milliseconds per query."""
    query(queries[:1])
    began = time.process_time()
    found = [np.ravel(query(one[None])) for one in queries]
    return found, 1e3 * (time.process_time() - began) / len(queries)


def nearest(squares, k=10):
    """The rows of the k smallest."""
    rows = np.argpartition(squares, k)[:k]
    return rows[np.argsort(squares[rows])]


def main(n_examples=50_000, n_features=64, n_queries=200, seed=0):
    faiss.omp_set_num_threads(1)
    X, queries, L = data(n_examples, n_features, n_queries, seed)
    Z, embedded = (X @ L.T).astype(np.float32), (queries @ L.T).astype(np.float32)
    norms = np.sum(Z * Z, axis=1)
    flat = faiss.IndexFlatL2(n_features)
    flat.add(Z)
    began = time.process_time()
    graph = faiss.IndexHNSWFlat(n_features, 16)
    graph.hnsw.efSearch = 64
    graph.add(Z)
    build = time.process_time() - began
    exact, flat_ms = timed(lambda q: flat.search(q, 10)[1], embedded)
    rows = [
        ("NumPy scan, norms kept", *timed(lambda q: nearest(norms - 2.0 * (Z @ q[0])), embedded)),
        ("NumPy scan of differences", *timed(lambda q: nearest(np.sum((Z - q) ** 2, axis=1)), embedded)),
        ("faiss, exact (IndexFlatL2)", exact, flat_ms),
    ]
    for n_bits in (48, 256):
        index = sm.HashIndex(L, n_bits, center=X.mean(axis=0)).add(X)
        timed(lambda q, index=index: index.query(q[0], 10)[0], queries)  # the metric rests: images are kept
        found, ms = timed(lambda q, index=index: index.query(q[0], 10)[0], queries)
        rows.append((f"HashIndex, {n_bits} bits, 10 % searched", found, ms))
    rows.append(("faiss, graph (IndexHNSWFlat, 16, efSearch 64)", *timed(lambda q: graph.search(q, 10)[1], embedded)))
    print(f"{n_examples:,} x {n_features}, {n_queries} queries, one thread; the graph takes {build:.0f} s to build.")
    for name, found, ms in rows:
        recall = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(exact, found, strict=True)])
        print(f"{name:48} {ms:7.2f} ms  {rows[0][2] / ms:5.2f}   {recall:6.1%} of the 10 nearest")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--queries", type=int, default=200)
    given = parser.parse_args()
    main(given.examples, given.features, given.queries)
