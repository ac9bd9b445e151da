"""Makes b3.safetensors: communities of B3's graph of ranks, computed with numpy alone.

It shares no code with pairstream. Thirukovalluru et al. 2025 (arXiv 2505.11293) rank the texts of all others for each
image, leave out the first p ranks, and make a sparse undirected graph of the next m: here a dense matrix of weights. Greedy
graph growing, as docs/strategies.md states it, splits the graph: here every step looks at the whole matrix.

    pip install numpy safetensors
    python testdata/b3.py testdata/b3.safetensors
"""

import sys

import numpy as np
from safetensors.numpy import save_file

PAIRS, SKIP, RANKS, SIZES = 150, 4, 12, [9, 10] * 7  # 17 pairs are left
LEAST_GAP = 1e-6  # between the products at the borders of ranks


def unit(draw: np.random.Generator, centres: np.ndarray) -> np.ndarray:
    """Draw float32 rows of length 1 around centres."""
    rows = centres + 0.2 * draw.standard_normal(centres.shape)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def weights(v: np.ndarray, t: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return the weights of the graph's edges."""
    directed = np.zeros((PAIRS, PAIRS), np.int64)
    products = v.astype(np.float64) @ t.astype(np.float64).T
    for i in range(PAIRS):
        others = np.flatnonzero(image != image[i])
        ranked = others[np.argsort(-products[i, others], kind="stable")]
        for border in (SKIP, SKIP + RANKS):
            assert products[i, ranked[border - 1]] - products[i, ranked[border]] > LEAST_GAP, "ranks are not certain"
        directed[i, ranked[SKIP : SKIP + RANKS]] = 1
    return directed + directed.T


def split(graph: np.ndarray, image: np.ndarray) -> list[int]:
    """Return the pairs of one community after another, and those that are left."""
    free, order = np.ones(PAIRS, bool), []
    for size in SIZES:
        community: list[int] = []
        while len(community) < size:
            inside = graph[community].sum(axis=0) if community else np.zeros(PAIRS, np.int64)
            new = ~np.isin(image, image[community])
            if (free & new).any():
                taken = int(np.argmax(np.where(free & new, inside, -1)))
            else:
                taken = int(np.argmax(free))
            community.append(taken)
            free[taken] = False
        order += community
    return order + np.flatnonzero(free).tolist()


def main() -> None:
    draw = np.random.default_rng(3)
    topics = np.linalg.qr(draw.standard_normal((16, 16)))[0][draw.integers(0, 9, PAIRS)]
    v, t = unit(draw, topics), unit(draw, topics)
    image = draw.integers(0, 90, PAIRS)
    order = split(weights(v, t, image), image)
    numbers = {"image": image, "sizes": SIZES, "skip": [SKIP], "ranks": [RANKS], "order": order}
    save_file({name: np.array(x, np.int64) for name, x in numbers.items()} | {"v": v, "t": t}, sys.argv[1])


main()
