"""TCL's alignment loss: contrast across modalities, within them, and with local features."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import losses


def triple(
    cross: Tensor, sim_i2i: Tensor, sim_t2t: Tensor, i2i: losses.Targets, t2t: losses.Targets, image: Tensor, regions: Tensor, text: Tensor, tokens: Tensor,
    lengths: Tensor, temperature: Tensor | float,
) -> Tensor:  # fmt: skip
    """Return TCL's alignment loss, the mean of six terms; the first two are those of cross, which itc has made.

    sim_i2i and sim_t2t compare with the momentum model's keys of the own modality. regions and tokens are its local features.
    The last four terms have hard targets. lengths counts the tokens behind [CLS] that are no padding.
    """
    whole = torch.full((len(regions),), regions.shape[1], device=regions.device)
    terms: list[Tensor] = [
        cross.mul(2), losses.row_cross_entropy(i2i.values.to(sim_i2i.dtype), sim_i2i), losses.row_cross_entropy(t2t.values.to(sim_t2t.dtype), sim_t2t),
        local_contrast(image, regions, whole, temperature), local_contrast(text, tokens, lengths, temperature),
    ]  # fmt: skip
    result: Tensor = torch.stack(terms).sum() / 6
    return result


def local_contrast(anchors: Tensor, locals_: Tensor, counts: Tensor, temperature: Tensor | float) -> Tensor:
    """Compare every anchor with its first counts[i] local features, each against the local features of all other samples.

    The mean is over the samples of the mean over their features (TCL). locals_ is [n, k, width].
    """
    n, k, _ = locals_.shape
    sims = losses.similarities(anchors, locals_.reshape(n * k, -1), temperature)
    there = torch.arange(k, device=sims.device)[None] < counts[:, None]  # [n, k]
    own = sims.reshape(n, n, k).diagonal().t()  # [n, k]
    out = torch.eye(n, dtype=torch.bool, device=sims.device)[:, :, None] | ~there[None]
    others = sims.masked_fill(out.reshape(n, n * k), losses.OUT_OF_ROW)[:, None].expand(n, k, n * k)
    shares = torch.log_softmax(torch.cat([own[:, :, None], others], 2), 2)[:, :, 0]
    result: Tensor = -(shares * there / counts.clamp(min=1)[:, None]).sum(1).mean()
    return result


def regions(patches: Tensor) -> Tensor:
    """Return TCL's local features of images: unit patch features [n, grid * grid, width], averaged over windows."""
    grid = math.isqrt(patches.shape[1])
    window = math.isqrt(grid)
    side = grid // window
    n, width = len(patches), patches.shape[2]
    x = patches.reshape(n, grid, grid, width)[:, : side * window, : side * window]
    result: Tensor = x.reshape(n, side, window, side, window, width).mean((2, 4)).reshape(n, side * side, width)
    return result
