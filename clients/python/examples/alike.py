"""A strategy: mini-batches of pairs of one cluster, in random order, with the most similar texts as candidates.

    pairstream batches --out plan --weights first.safetensors --strategy alike:alike scenes
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairstream.strategy import Group


def alike(group: Group) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of the pairs, and the hard candidates of each for its image and for its text."""
    draw, n = group.rng, group.batch_size
    order = draw.permutation(len(group))
    order = order[np.argsort(group.cluster[order], kind="stable")]
    full = len(order) // n * n
    shuffled = draw.permutation(full // n)
    order = np.concatenate([order[:full].reshape(-1, n)[shuffled].ravel(), order[full:]])
    i2t, t2i = np.full((2, len(group), group.candidates), -1)
    for start in range(0, len(order), n):
        batch = order[start : start + n]
        near = group.v[batch] @ group.t[batch].T  # [images, texts]
        for out, similar in ((i2t, near), (t2i, near.T)):
            similar = np.where(group.image[batch][:, None] == group.image[batch], -np.inf, similar)
            best = np.argsort(-similar, axis=1, kind="stable")[:, : group.candidates]
            out[batch, : best.shape[1]] = np.where(np.isinf(np.take_along_axis(similar, best, 1)), -1, batch[best])
    return order, i2t, t2i
