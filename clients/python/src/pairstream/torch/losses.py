"""The losses of GRIT-VLP, MAFA, ALBEF, TCL, GPN-S and SigLIP as plain functions, equal to those of the built-in trainer.

    sim_i2t = similarities(image, text, temperature)        # the gradient ends in image: keys are constants
    sim_t2i = similarities(text, image, temperature)
    i2t = mine(sim_i2t, batch.i2t, batch.prob_i2t, batch.same_image, **recipe.bounds(batch))
    t2i = mine(sim_t2i, batch.t2i, batch.prob_t2i, batch.same_image, **recipe.bounds(batch))
    loss = itc(sim_i2t, sim_t2i, hard_targets(batch.same_image, i2t), hard_targets(batch.same_image, t2i), Smoothed(0.5))
    pairs = plan_itm(i2t, t2i)                              # images, texts and labels of ITM
    rows = plan_mlm(i2t, t2i)                               # images and texts of MLM, connections as extra rows

"i2t" has images as anchors (rows) and texts as candidates (columns), "t2i" the other way round. Con-D's probabilities are
compared in float32, the precision of the record: above high a candidate is a connection, below low a negative, and both
thresholds themselves are ambiguous. Where papers and code disagree, this follows what docs/papers.md says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..rng import Generator

NEGATIVE, AMBIGUOUS, CONNECTION, ALONE = 0, 1, 2, 3
IGNORE_LABEL = -100

# Replaces the similarity of a candidate that is out of its row: its share of any softmax is exactly 0.
OUT_OF_ROW = -1e9


def similarities(anchors: Tensor, keys: Tensor, temperature: Tensor | float) -> Tensor:
    """Compare unit rows of anchors with unit rows of keys. The keys are constants, as in the authors' code."""
    out: Tensor = anchors @ keys.detach().t() / temperature
    return out


class Picks(NamedTuple):
    """What each anchor of one direction chose among its candidates, by the current similarity."""

    hardest: Tensor  # most similar candidate, -1: none
    second: Tensor  # next most similar, -1: none
    classes: Tensor  # of the hardest: NEGATIVE, AMBIGUOUS, CONNECTION; ALONE: there is none


def eligible(candidates: Tensor, same_image: Tensor) -> Tensor:
    """Mark the samples that may be an anchor's negatives: its candidates, or all others where none were scored.

    candidates is [n, m], -1 for none; same_image is [n, n], true for known positives, which are never negatives.
    """
    n = len(same_image)
    if candidates.shape[1] == 0:
        marks = ~torch.eye(n, dtype=torch.bool, device=same_image.device)
    else:
        marks = torch.zeros(n, n + 1, dtype=torch.bool, device=same_image.device)
        marks.scatter_(1, candidates % (n + 1), True)  # -1 lands in a column of its own
        marks = marks[:, :n]
    result: Tensor = marks & ~same_image
    return result


def mine(
    similarity: Tensor, candidates: Tensor, probabilities: Tensor, same_image: Tensor, *, high: float = 0.8, low: float = 0.5,
    negatives: str = "hardest", draw: Generator | None = None,
) -> Picks:  # fmt: skip
    """Choose the hardest and the second-hardest candidate of every anchor, and class the hardest by Con-D's probability.

    high and low come from `Recipe.bounds`, as records say their threshold. Equal similarities go to the lower index. In a batch that nobody scored every other sample is a candidate and a negative.
    negatives "multinomial" draws both by the softmax of the similarities (ALBEF, TCL), and "random" uniformly. Use one
    generator for i2t and then t2i: with batch.generator("itm negatives") the draws are the built-in trainer's.
    """
    n = len(same_image)
    sim = similarity.detach()[:, :n]
    marks = eligible(candidates, same_image)
    ranked = sim.masked_fill(~marks, float("-inf"))
    order = torch.sort(ranked, dim=1, descending=True, stable=True).indices if negatives == "hardest" else _drawn(ranked, negatives, draw)
    count = marks.sum(1)
    none = torch.full((n,), -1, dtype=torch.int64, device=sim.device)
    hardest = torch.where(count > 0, order[:, 0], none)
    second = torch.where(count > 1, order[:, min(1, n - 1)], none)
    classes = torch.full_like(hardest, NEGATIVE)
    if candidates.shape[1]:
        table = torch.zeros(n, n + 1, dtype=torch.float32, device=sim.device)
        table.scatter_(1, candidates % (n + 1), probabilities.to(torch.float32))
        p = table.gather(1, hardest.clamp(min=0)[:, None])[:, 0]
        bounds = torch.tensor([low, high], dtype=torch.float32, device=sim.device)
        classes = torch.where(p > bounds[1], CONNECTION, torch.where(p >= bounds[0], AMBIGUOUS, NEGATIVE))
    classes = torch.where(hardest.lt(0), torch.full_like(classes, ALONE), classes)
    return Picks(hardest, second, classes)


def _drawn(ranked: Tensor, negatives: str, draw: Generator | None) -> Tensor:
    """Draw two candidates of every anchor, one number each. What is no candidate has a similarity of minus infinity."""
    if negatives not in ("multinomial", "random") or draw is None:
        raise ValueError(f"negatives are {negatives!r}, want hardest, or multinomial or random with a generator")
    rows = []
    for row in ranked.to(torch.float32).tolist():
        highest = max(row)
        weights = [0.0 if s == -math.inf else 1.0 if negatives == "random" else math.exp(s - highest) for s in row]
        first = _draw(weights, draw)
        weights[first] = 0.0
        rows.append([first, _draw(weights, draw)])
    drawn: Tensor = torch.tensor(rows, device=ranked.device).reshape(len(rows), 2)
    return drawn


def _draw(weights: list[float], draw: Generator) -> int:
    """Invert the cumulative distribution at a uniform number."""
    at, last = draw.random() * sum(weights), 0
    for j, w in enumerate(weights):
        if w == 0:
            continue
        if at < w:
            return j
        at -= w
        last = j
    return last


class Targets(NamedTuple):
    """The row targets of one direction before softening."""

    values: Tensor  # every row sums to 1
    drop: Tensor | None = None  # candidates that are out of their rows


def hard_targets(
    same_image: Tensor, picks: Picks | None = None, *, queue_same: Tensor | None = None, eliminate: bool = False, dtype: torch.dtype = torch.float64
) -> Targets:
    """Share each row equally among the anchor's own pair, the samples that show its image, and its connection.

    queue_same is [n, queue], true where a queue's entry shows the anchor's image. With eliminate a connection leaves the
    row instead (ECM-E). Without picks there are no connections. A connection is not mirrored into the other direction.
    """
    n = len(same_image)
    marks = same_image | torch.eye(n, dtype=torch.bool, device=same_image.device)
    if queue_same is not None:
        marks = torch.cat([marks, queue_same], dim=1)
    drop = None
    if picks is not None:
        found = picks.classes.eq(CONNECTION).nonzero()[:, 0]
        connected = torch.zeros_like(marks)
        connected[found, picks.hardest[found]] = True
        if eliminate:
            drop = connected if len(found) else None
        else:
            marks = marks | connected
    values = marks.to(torch.float64)
    return Targets((values / values.sum(1, keepdim=True)).to(dtype), drop)


class OneHot(NamedTuple):
    """Nothing softens the targets (GRIT-VLP eq. 2, MAFA eq. 1)."""


class Smoothed(NamedTuple):
    """A uniform share alpha (S-ITC, MAFA eq. 5; its code begins with the second epoch of a group)."""

    alpha: float = 0.5


class Consistency(NamedTuple):
    """The softmax of the other direction's row (GRIT-VLP eq. 6).

    form is "additive" (the code: rows sum to 1 + weight), "mix" (MAFA section 4.2), or "literal" (MAFA's index notation).
    report_kl reports the divergence that the paper prints, not the cross-entropy of the code; the gradient is the same.
    """

    weight: float = 0.2
    form: str = "additive"
    report_kl: bool = False


class Distilled(NamedTuple):
    """The softmax of a momentum model (ALBEF; without a queue MDNQ): its similarities in both directions."""

    teacher_i2t: Tensor
    teacher_t2i: Tensor
    alpha: float = 0.4


Softening = OneHot | Smoothed | Consistency | Distilled


def itc(sim_i2t: Tensor, sim_t2i: Tensor, i2t: Targets, t2i: Targets, softening: Softening = OneHot()) -> Tensor:  # noqa: B008
    """Return half the sum over both directions of the mean over rows of -sum(target * log softmax(row))."""
    first = _half(sim_i2t, sim_t2i, i2t, softening, 0)
    result: Tensor = 0.5 * (first + _half(sim_t2i, sim_i2t, t2i, softening, 1))
    return result


def sigmoid(anchors: Tensor, keys: Tensor, targets: Targets, temperature: Tensor | float, bias: Tensor | float) -> Tensor:
    """Return the mean over anchors of -sum(log sigmoid(z * (similarity / temperature + bias))) over all candidates (SigLIP eq. 1).

    anchors is [rows, E] and keys [columns, E], both of unit rows; gradients reach both. z is 1 where a target is above 0
    and -1 elsewhere: one positive does not take from another, so that a connection is one more. What targets drop has no
    part. Half the sum of both directions is the loss of a step. SigLIP begins with temperature 0.1 and bias -10.
    """
    z = torch.ones_like(targets.values).masked_fill(targets.values == 0, -1)
    loss = functional.logsigmoid(z * (anchors @ keys.t() / temperature + bias)).neg()
    if targets.drop is not None:
        loss = loss.masked_fill(targets.drop, 0)
    result: Tensor = loss.sum(1).mean()
    return result


def _half(sim: Tensor, other: Tensor, targets: Targets, softening: Softening, way: int) -> Tensor:
    target = soft_targets(sim, other, targets, softening, way)
    loss: Tensor = row_cross_entropy(target, _masked(sim, targets.drop))
    if isinstance(softening, Consistency) and softening.report_kl:
        soft = _soft(sim, other, targets, softening, way)
        assert soft is not None
        result: Tensor = loss - row_cross_entropy(soft, _masked(other.detach(), targets.drop)).mul(softening.weight)
        return result
    return loss


def soft_targets(sim: Tensor, other: Tensor, targets: Targets, softening: Softening, way: int = 0) -> Tensor:
    """Return the softened row targets of sim; way is 0 for i2t and 1 for t2i."""
    hard = targets.values.to(sim.dtype)
    soft = _soft(sim, other, targets, softening, way)
    result: Tensor = hard
    if soft is None:
        return result
    if isinstance(softening, Consistency):
        kept = 1.0 if softening.form == "additive" else 1 - softening.weight
        result = kept * hard + softening.weight * soft
    else:
        assert isinstance(softening, (Smoothed, Distilled))
        result = (1 - softening.alpha) * hard + softening.alpha * soft
    return result


def _soft(sim: Tensor, other: Tensor, targets: Targets, softening: Softening, way: int) -> Tensor | None:
    """Return the constant that softens the rows."""
    if isinstance(softening, OneHot):
        return None
    if isinstance(softening, Smoothed):
        return torch.softmax(_masked(torch.zeros_like(sim), targets.drop), 1)
    if isinstance(softening, Distilled):
        teacher = softening.teacher_t2i if way else softening.teacher_i2t
        return torch.softmax(_masked(teacher.detach(), targets.drop), 1)
    if softening.form == "literal":
        p = torch.softmax(other.detach(), 1).t()
        result: Tensor = p if targets.drop is None else p.masked_fill(targets.drop, 0)
        return result
    return torch.softmax(_masked(other.detach(), targets.drop), 1)


def _masked(sim: Tensor, drop: Tensor | None) -> Tensor:
    return sim if drop is None else sim.masked_fill(drop, OUT_OF_ROW)


def row_cross_entropy(target: Tensor, sim: Tensor) -> Tensor:
    """Return the mean over rows of -sum(target * log softmax(row))."""
    result: Tensor = (target * torch.log_softmax(sim, 1)).sum(1).mean().neg()
    return result


class Pairs(NamedTuple):
    """(image, text) pairs as indices into the batch; labels are 1 for a match (ITM), empty for MLM."""

    images: Tensor
    texts: Tensor
    labels: Tensor


def plan_itm(i2t: Picks, t2i: Picks, *, connections: bool = True, eliminate: bool = False) -> Pairs:
    """List the pairs of the matching loss in the order of the authors' code.

    The n true pairs; negatives of the texts, of the images; connections of the texts, of the images, as matches; and for
    ambiguous anchors the second-hardest candidate as a negative, of the texts, of the images (MAFA section 4.1). An anchor
    without a candidate left gives no pair; with eliminate a connection gives none. Without connections every hardest
    candidate is a negative, as in GRIT-VLP.
    """
    n, device = len(i2t.hardest), i2t.hardest.device
    own = torch.arange(n, device=device)
    images, texts, labels = [own], [own], [torch.ones_like(own)]
    for kind in (NEGATIVE, CONNECTION, AMBIGUOUS):
        if kind == CONNECTION and eliminate:
            continue
        for picks, image_anchor in ((t2i, False), (i2t, True)):
            classes = picks.classes
            if not connections:
                classes = torch.where(classes.eq(ALONE), classes, torch.full_like(classes, NEGATIVE))
            other = picks.second if kind == AMBIGUOUS else picks.hardest
            anchors = (classes.eq(kind) & other.ge(0)).nonzero()[:, 0]
            images.append(anchors if image_anchor else other[anchors])
            texts.append(other[anchors] if image_anchor else anchors)
            labels.append(torch.full_like(anchors, int(kind == CONNECTION)))
    return Pairs(torch.cat(images), torch.cat(texts), torch.cat(labels))


def itm(logits: Tensor, pairs: Pairs) -> Tensor:
    """Return the mean cross-entropy of [pairs, 2] logits; class 1 is a match."""
    return functional.cross_entropy(logits, pairs.labels)


def plan_mlm(i2t: Picks, t2i: Picks, *, connections: bool = True) -> Pairs:
    """List the rows of MLM: the n true pairs, then as extra rows the connections of the images and those of the texts.

    Each row has a mask of its own (MAFA eq. 4). With ECM-E, or without MLM's connections, pass connections=False.
    """
    own = torch.arange(len(i2t.hardest), device=i2t.hardest.device)
    images, texts = [own], [own]
    if connections:
        image = i2t.classes.eq(CONNECTION).nonzero()[:, 0]
        text = t2i.classes.eq(CONNECTION).nonzero()[:, 0]
        images += [image, t2i.hardest[text]]
        texts += [i2t.hardest[image], text]
    return Pairs(torch.cat(images), torch.cat(texts), own.new_empty(0))


def mlm(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy over all tokens of all rows whose label is not IGNORE_LABEL; 0 when there is none."""
    flat = labels.reshape(-1)
    if not bool((flat != IGNORE_LABEL).any()):
        result: Tensor = logits.sum() * 0
        return result
    return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), flat, ignore_index=IGNORE_LABEL)


def mlm_distilled(logits: Tensor, labels: Tensor, teacher: Tensor, share: float) -> Tensor:
    """Return (1 - share) of mlm and share of the cross-entropy with a momentum model's distribution, over masked tokens (ALBEF)."""
    at = labels.ne(IGNORE_LABEL)
    hard = mlm(logits, labels)
    if share == 0 or not bool(at.any()):
        return hard
    soft = row_cross_entropy(torch.softmax(teacher.detach()[at], 1), logits[at])
    result: Tensor = hard.mul(1 - share) + soft.mul(share)
    return result


def mask_tokens(
    rows: Sequence[Sequence[int]], draw: Generator, *, vocabulary: int, pad: int, cls: int, mask: int, probability: float = 0.5
) -> tuple[list[list[int]], list[list[int]]]:
    """Hide tokens as BERT and the papers' code do; return the masked ids and the labels.

    Every token but [CLS] and padding is selected with the probability ([SEP] can be). Of the selected 80 % become [MASK],
    10 % any id of the vocabulary, and 10 % stay. With the built-in trainer's key, generator(seed, "mlm", lane, group, epoch,
    sequence), the draws are the built-in trainer's.
    """
    masked, labels = [], []
    for row in rows:
        out, wanted = list(row), [IGNORE_LABEL] * len(row)
        for i, token in enumerate(row):
            if token in (pad, cls) or draw.random() >= probability:
                continue
            wanted[i] = token
            u = draw.random()
            if u < 0.8:
                out[i] = mask
            elif u < 0.9:
                out[i] = draw.integer(vocabulary)
        masked.append(out)
        labels.append(wanted)
    return masked, labels


def uni(image: Tensor, positive: Tensor, temperature: Tensor | float, reading: str = "infonce") -> Tensor:
    """Return the mean of GPN-S eq. 10 over the batch: each image pulls its positive, against the other images."""
    result: Tensor = uni_rows(image, positive, temperature, reading).mean()
    return result


def uni_rows(image: Tensor, positive: Tensor, temperature: Tensor | float, reading: str = "infonce") -> Tensor:
    """Return GPN-S eq. 10 for every anchor, with unit features.

    "infonce" sums over the positive and the other images; "printed" over all images of the batch, as printed; "with_pos"
    adds the positive to that.
    """
    near = (image * positive).sum(1, keepdim=True) / temperature
    others = image @ image.t() / temperature
    if reading == "printed":
        printed: Tensor = torch.logsumexp(others, 1) - near[:, 0]
        return printed
    if reading == "infonce":
        others = others.masked_fill(torch.eye(len(image), dtype=torch.bool, device=image.device), OUT_OF_ROW)
    elif reading != "with_pos":
        raise ValueError(f"reading is {reading!r}, want infonce, printed or with_pos")
    result: Tensor = -torch.log_softmax(torch.cat([near, others], 1), 1)[:, 0]
    return result
