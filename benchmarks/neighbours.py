"""Ten nearest rows of every row, by several libraries: CPU seconds and recall.

    python benchmarks/neighbours.py gaits:17 --rows 100000
    python benchmarks/neighbours.py stacq/hopper-medium-v0@100000 stacq/walker2d-medium-v0@100000
    python benchmarks/neighbours.py gaits:17 --rows 1000000 --only scipy-near hnswlib faiss-ivf

`gaits:D` are rows of benchmarks/graph.py seen in D dimensions. Libraries that are not installed are left out: none of
hnswlib, faiss-cpu and pynndescent is a dependency. One thread each: start it with OMP_NUM_THREADS=1 and
NUMBA_NUM_THREADS=1. Recall is the share of the true ten of 500 rows that was found.
"""

import argparse
import importlib.util
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from graph import gaits
from stacq import Normaliser, load
from stacq.core.types import Float32s, Ints
from stacq.graph.neighbours import SAMPLE, SLACK, recall_of

NEAREST = 10
Search = Callable[[Float32s], Ints]  # the rows found, the own row perhaps among them


def scipy_tree(slack: float) -> Search:
    def search(states: Float32s) -> Ints:
        wide = states.astype(np.float64)
        found = cKDTree(wide).query(wide, NEAREST + 1, eps=slack, workers=1)
        return np.asarray(found[1], np.int64)

    return search


def hnsw(states: Float32s, ef: int = 50, links: int = 16, construction: int = 100) -> Ints:
    import hnswlib

    index = hnswlib.Index(space="l2", dim=states.shape[1])
    index.init_index(max_elements=len(states), ef_construction=construction, M=links, random_seed=0)
    index.add_items(states, num_threads=1)
    index.set_ef(ef)
    return np.asarray(index.knn_query(states, NEAREST + 1, num_threads=1)[0], np.int64)


def faiss_flat(states: Float32s) -> Ints:
    import faiss

    index = faiss.IndexFlatL2(states.shape[1])
    index.add(states)
    return np.asarray(index.search(states, NEAREST + 1)[1], np.int64)


def faiss_ivf(states: Float32s, probes: int = 8) -> Ints:
    """As many cells as twice the root of the rows."""
    import faiss

    cells, size = int(2 * np.sqrt(len(states))), states.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(size), size, cells)
    index.train(states[:: max(len(states) // (40 * cells), 1)].copy())
    index.add(states)
    index.nprobe = probes
    return np.asarray(index.search(states, NEAREST + 1)[1], np.int64)


def descent(states: Float32s) -> Ints:
    from pynndescent import NNDescent

    index = NNDescent(states, n_neighbors=NEAREST + 1, random_state=0, n_jobs=1)
    return np.asarray(index.neighbor_graph[0], np.int64)


SEARCHES: dict[str, tuple[str, Search]] = {
    "scipy": ("scipy", scipy_tree(0.0)),
    "scipy-near": ("scipy", scipy_tree(SLACK)),
    "hnswlib": ("hnswlib", hnsw),
    "faiss-flat": ("faiss", faiss_flat),
    "faiss-ivf": ("faiss", faiss_ivf),
    "pynndescent": ("pynndescent", descent),
}


def states_of(source: str, rows: int) -> Float32s:
    dataset = gaits(rows, int(source.split(":")[1])) if source.startswith("gaits:") else load(source)
    return np.ascontiguousarray(Normaliser.fit(dataset.observations).apply(dataset.observations))


def true_rows(states: Float32s, asked: Ints) -> Ints:
    """By all distances, in blocks."""
    found = []
    for i in asked:
        away = ((states - states[i]) ** 2).sum(axis=1, dtype=np.float64)
        away[i] = np.inf
        found.append(np.argpartition(away, NEAREST)[:NEAREST])
    return np.array(found)


def without_own(found: Ints, own: Ints) -> Ints:
    """The first ten others; a row that was not found is -1."""
    return np.array([(row[row != i])[:NEAREST] for row, i in zip(found, own, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--rows", type=int, default=100_000, help="of gaits")
    parser.add_argument("--only", nargs="+", choices=list(SEARCHES), default=list(SEARCHES))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if "pynndescent" in chosen.only and importlib.util.find_spec("pynndescent") is not None:
        descent(np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32))  # compiles
    for source in chosen.sources:
        states = states_of(source, chosen.rows)
        asked = np.sort(np.random.default_rng(0).choice(len(states), SAMPLE, replace=False))
        true = true_rows(states, asked)
        for name in chosen.only:
            library, search = SEARCHES[name]
            if importlib.util.find_spec(library) is None:
                continue
            started = time.process_time()
            found = search(states)
            seconds = time.process_time() - started
            line = {
                "source": source,
                "rows": len(states),
                "dimensions": states.shape[1],
                "search": name,
                "cpu_seconds": round(seconds, 1),
                "recall": round(recall_of(without_own(found[asked], asked), true), 4),
                "peak_gb_so_far": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
                "command": " ".join(["python", *sys.argv]),
            }
            print(json.dumps(line), flush=True)
            if chosen.out is not None:
                with chosen.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
