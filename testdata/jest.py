"""Makes jest.safetensors: mini-batches of joint example selection, computed with numpy alone from the paper's algorithm 1.

It shares no code with pairstream. Evans, Parthasarathy, Merzic and Hénaff 2024 (arXiv 2406.17711) give the algorithm for a
matrix of scores of a whole super-batch, in floating point, which is what this does. Chunks are drawn by Gumbel variates
that are stored beside the result. Two rules of docs/strategies.md are added: a pair of an image that was drawn comes after
all others, and a pair without features of the learner after these.

    pip install numpy safetensors
    python testdata/jest.py testdata/jest.safetensors
"""

import sys

import numpy as np
from safetensors.numpy import save_file

PAIRS, BATCH, FILTER, CHUNKS = 110, 8, 0.6, 16
SUPER = round(BATCH / (1 - FILTER))
SCALE, BIAS = 10.0, -10.0
LEAST_GAP = 1e-3  # between the sums of two pairs that a draw decides on


def unit(draw: np.random.Generator, centres: np.ndarray, spread: float) -> np.ndarray:
    """Draw float32 rows of length 1 around centres."""
    rows = centres + spread * draw.standard_normal(centres.shape)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def losses(v: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the sigmoid loss of every image (row) with every text (column)."""
    logits = v.astype(np.float64) @ t.astype(np.float64).T * SCALE + BIAS
    signs = 2 * np.eye(len(v)) - 1
    return np.logaddexp(0, -signs * logits)


def jointly_sample(scores: np.ndarray, noise: np.ndarray, image: np.ndarray, blank: np.ndarray, keep: int) -> list[int]:
    """Draw a mini-batch by algorithm 1."""
    n, chunks = len(scores), min(CHUNKS, keep)
    drawn: list[int] = []
    for chunk in range(chunks):
        sampled = np.zeros(n)
        sampled[drawn] = 1
        negatives = (scores * sampled[:, None]).sum(axis=0) + (scores * sampled[None, :]).sum(axis=1)
        keys = np.diag(scores) + negatives + noise[chunk]
        while len(drawn) < keep * (chunk + 1) // chunks:
            shown = {int(image[i]) for i in drawn}
            tiers = [2 if blank[i] else int(int(image[i]) in shown) for i in range(n)]
            ranked = sorted((i for i in range(n) if i not in drawn), key=lambda i: (tiers[i], -keys[i]))
            first, *others = ranked
            if others and tiers[others[0]] == tiers[first]:
                assert keys[first] - keys[others[0]] > LEAST_GAP, "the order is not certain"
            drawn.append(first)
    return drawn


def main() -> None:
    draw = np.random.default_rng(5)
    image = np.minimum(np.arange(PAIRS) // 2, PAIRS // 2 - 20)  # the last 42 pairs show one image
    topics = np.linalg.qr(draw.standard_normal((24, 24)))[0][draw.integers(0, 12, PAIRS)]
    learner_v, learner_t = unit(draw, topics, 0.25), unit(draw, topics, 0.25)
    wide = np.linalg.qr(draw.standard_normal((40, 40)))[0][draw.integers(0, 40, PAIRS)]
    reference_v, reference_t = unit(draw, wide, 0.12), unit(draw, wide, 0.12)
    blank = draw.random(PAIRS) < 0.08
    learner_v[blank], learner_t[blank] = 0, 0
    order = draw.permutation(PAIRS)
    noise = draw.gumbel(size=(-(-PAIRS // SUPER), min(CHUNKS, BATCH), SUPER))
    plan: list[int] = []
    for k, start in enumerate(range(0, PAIRS, SUPER)):
        pairs = order[start : start + SUPER]
        scores = losses(learner_v[pairs], learner_t[pairs]) - losses(reference_v[pairs], reference_t[pairs])
        keep = -(-len(pairs) * BATCH // SUPER)
        for i in jointly_sample(scores, noise[k, :, : len(pairs)], image[pairs], blank[pairs], keep):
            plan.append(int(pairs[i]))
    numbers = {"order": order, "image": image, "plan": np.array(plan), "batch_size": np.array([BATCH])}
    tensors = {name: np.asarray(x, np.int64) for name, x in numbers.items()}
    tensors |= {"filter": np.array([FILTER]), "noise": noise}
    features = {"learner.v": learner_v, "learner.t": learner_t, "reference.v": reference_v, "reference.t": reference_t}
    save_file(tensors | features, sys.argv[1])


main()
