"""Makes tcl_ranks.safetensors: steps of TCL on two ranks, computed with PyTorch alone from the papers' formulas.

It shares no code with pairstream: forward pass, six terms of alignment, ITM, MLM with distillation, momentum model, queue,
AdamW and learning rate are written here. Weights, queue, images and texts are those of golden/tcl_step.safetensors. Each of
two ranks takes a mini-batch of four of its pairs in every step, with the keys of its own mini-batch and the queue. The step
takes the mean gradient of both, and the queue the keys of both. Words that MLM hides are inputs, MASKS: [ids, labels] of
every mini-batch, drawn by the trainer with seed 0.

    pip install torch==2.11.0 numpy==2.4.6 safetensors
    python testdata/tcl_ranks.py testdata/golden/tcl_step.safetensors MASKS.json testdata/tcl_ranks.safetensors
"""

import json
import math
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn import functional

ROWS = [[[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 2, 4, 6], [1, 3, 5, 7]], [[7, 1, 6, 0], [5, 2, 4, 3]]]  # of each step and rank
ALPHA, DECAY, QUEUE = 0.4, 0.9, 16
RATE, LEAST, TOTAL = 1e-3, 1e-5, 6
BETAS, EPSILON, WEIGHT_DECAY = (0.9, 0.999), 1e-5, 0.02  # no gradient of rounding errors alone makes a step
CONSTANT = ("position_ids", "predictions.decoder.weight", "predictions.decoder.bias")  # aliases and buffers

Weights = dict[str, torch.Tensor]


def normed(x: torch.Tensor, w: Weights, name: str, eps: float) -> torch.Tensor:
    """Apply a layer norm."""
    return functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)


def linear(x: torch.Tensor, w: Weights, name: str) -> torch.Tensor:
    """Apply a linear layer."""
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return softmax(q k / sqrt(d)) v, head by head."""
    parted = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v)]
    scores = parted[0] @ parted[1].transpose(-1, -2) / math.sqrt(parted[0].shape[-1])
    if bias is not None:
        scores = scores + bias
    return (scores.softmax(-1) @ parted[2]).transpose(1, 2).flatten(2)


class Model:
    """ALBEF's model, as functions of weights."""

    def __init__(self, config: dict) -> None:
        """Take the sizes of the vectors."""
        self.c = config

    def image(self, w: Weights, pixels: torch.Tensor) -> torch.Tensor:
        """Return the tokens of images."""
        v = "visual_encoder."
        x = functional.conv2d(pixels, w[v + "patch_embed.proj.weight"], w[v + "patch_embed.proj.bias"], stride=self.c["patch"])
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([w[v + "cls_token"].expand(len(x), -1, -1), x], 1) + w[v + "pos_embed"]
        for i in range(self.c["vdepth"]):
            b = f"{v}blocks.{i}."
            q, k, value = linear(normed(x, w, b + "norm1", 1e-6), w, b + "attn.qkv").chunk(3, -1)
            x = x + linear(attend(q, k, value, self.c["vheads"]), w, b + "attn.proj")
            x = x + linear(functional.gelu(linear(normed(x, w, b + "norm2", 1e-6), w, b + "mlp.fc1")), w, b + "mlp.fc2")
        return normed(x, w, v + "norm", 1e-6)

    def layers(self, w: Weights, x: torch.Tensor, mask: torch.Tensor, tokens: torch.Tensor | None, span: range) -> torch.Tensor:
        """Run layers of BERT, with cross-attention where there are tokens of images."""
        bias = (1 - mask)[:, None, None, :] * -10000.0
        for i in span:
            b = f"text_encoder.bert.encoder.layer.{i}."
            for kind, to, extra in (("attention", x, bias), ("crossattention", tokens, None)):
                if kind == "crossattention":
                    if to is None:
                        continue
                    source = to
                else:
                    source = x
                s = b + kind
                y = attend(linear(x, w, s + ".self.query"), linear(source, w, s + ".self.key"), linear(source, w, s + ".self.value"), self.c["heads"], extra)
                x = normed(linear(y, w, s + ".output.dense") + x, w, s + ".output.LayerNorm", 1e-12)
            y = functional.gelu(linear(x, w, b + "intermediate.dense"))
            x = normed(linear(y, w, b + "output.dense") + x, w, b + "output.LayerNorm", 1e-12)
        return x

    def text(self, w: Weights, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the hidden states of the text encoder."""
        e = "text_encoder.bert.embeddings."
        words = functional.embedding(ids, w[e + "word_embeddings.weight"], padding_idx=0)
        x = words + w[e + "token_type_embeddings.weight"][0] + w[e + "position_embeddings.weight"][: ids.shape[1]]
        return self.layers(w, normed(x, w, e + "LayerNorm", 1e-12), mask, None, range(self.c["fusion"]))

    def fuse(self, w: Weights, hidden: torch.Tensor, mask: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Run the fusion encoder."""
        return self.layers(w, hidden, mask, tokens, range(self.c["fusion"], self.c["layers"]))

    def words(self, w: Weights, ids: torch.Tensor, mask: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the masked words."""
        p = "text_encoder.cls.predictions."
        x = self.fuse(w, self.text(w, ids, mask), mask, tokens)
        x = normed(functional.gelu(linear(x, w, p + "transform.dense")), w, p + "transform.LayerNorm", 1e-12)
        return x @ w["text_encoder.bert.embeddings.word_embeddings.weight"].T + w[p + "bias"]


def unit(x: torch.Tensor) -> torch.Tensor:
    """Bring vectors to length 1."""
    return functional.normalize(x, dim=-1)


def local(anchors: torch.Tensor, features: torch.Tensor, valid: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """Contrast every sample with each of its local features, against those of all other samples."""
    means = []
    for i in range(len(anchors)):
        others = torch.cat([features[j][valid[j]] for j in range(len(anchors)) if j != i])
        away = others @ anchors[i] / temperature
        own = features[i][valid[i]] @ anchors[i] / temperature
        rows = torch.cat([own[:, None], away.expand(len(own), -1)], 1)
        means.append(-rows.log_softmax(1)[:, 0].mean())
    return torch.stack(means).mean()


def crossed(target: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy of rows."""
    return -(target * logits.log_softmax(1)).sum(1).mean()


class Rank:
    """What one rank computes of a step."""

    def __init__(self, model: Model, w: Weights, average: Weights, queue: list[torch.Tensor]) -> None:
        """Share the state of all ranks."""
        self.m, self.w, self.a, self.queue = model, w, average, queue

    def losses(self, x: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
        """Return the losses of a mini-batch, and its keys."""
        m, w, n = self.m, self.w, len(x["image"])
        temperature = w["temp"].clamp(0.001, 0.5)
        tokens, hidden = m.image(w, x["image"]), m.text(w, x["ids"], x["mask"])
        image, text = unit(linear(tokens[:, 0], w, "vision_proj")), unit(linear(hidden[:, 0], w, "text_proj"))
        with torch.no_grad():
            tokens_m, hidden_m = m.image(self.a, x["second"]), m.text(self.a, x["ids"], x["mask"])
            patches, pieces = unit(linear(tokens_m, self.a, "vision_proj")), unit(linear(hidden_m, self.a, "text_proj"))
            keys = [patches[:, 0], pieces[:, 0]]
            images, texts = torch.cat([keys[0], self.queue[0]]), torch.cat([keys[1], self.queue[1]])
            hard = torch.eye(n, len(images), dtype=images.dtype)
            soft = [ALPHA * (a @ k.T / temperature).softmax(1) + (1 - ALPHA) * hard for a, k in ((keys[0], texts), (keys[1], images))]
            side = math.isqrt(patches.shape[1] - 1)
            window = math.isqrt(side)
            grid = patches[:, 1:].transpose(1, 2).unflatten(2, (side, side))
            regions = functional.avg_pool2d(grid, window, window).flatten(2).transpose(1, 2)
        sims = [a @ k.T / temperature for a, k in ((image, texts), (text, images))]
        terms = [crossed(soft[0], sims[0]), crossed(soft[1], sims[1]), crossed(hard, image @ images.T / temperature), crossed(hard, text @ texts.T / temperature)]
        whole = torch.ones(regions.shape[:2], dtype=torch.bool)
        terms += [local(image, regions, whole, temperature), local(text, pieces[:, 1:], x["mask"][:, 1:].bool(), temperature)]
        away = [s[:, :n].detach().masked_fill(torch.eye(n, dtype=torch.bool), -math.inf).argmax(1) for s in sims]
        order = torch.arange(n)
        which, what = torch.cat([order, away[1], order]), torch.cat([order, order, away[0]])
        fused = m.fuse(w, hidden[what], x["mask"][what], tokens[which])
        labels = (torch.arange(3 * n) < n).long()
        itm = functional.cross_entropy(linear(fused[:, 0], w, "itm_head"), labels)
        asked = x["labels"] != -100
        guess = m.words(w, x["masked"], x["mask"], tokens)[asked]
        with torch.no_grad():
            taught = m.words(self.a, x["masked"], x["mask"], tokens_m)[asked].softmax(1)
        mlm = (1 - ALPHA) * functional.cross_entropy(guess, x["labels"][asked]) + ALPHA * crossed(taught, guess)
        itc = torch.stack(terms).mean()
        return {"itc": itc, "itm": itm, "mlm": mlm, "total": itc + itm + mlm}, keys


def sketch(x: torch.Tensor) -> list[float]:
    """Return a tensor's sum of squares and its products with two vectors, which tell one place from another."""
    flat = x.detach().flatten()
    places = torch.arange(1, len(flat) + 1, dtype=flat.dtype)
    return [float((flat * flat).sum()), float((flat * places.cos()).sum()), float((flat * (places * places).sin()).sum())]


def main() -> None:
    """Make the steps and write the file."""
    source, masks, out = sys.argv[1:]
    drawn = json.loads(Path(masks).read_text())
    with safe_open(source, "pt") as f:
        config = json.loads(f.metadata()["config"])
        given = {k: f.get_tensor(k) for k in f.keys()}  # noqa: SIM118
    weights = {k[2:]: v.double() for k, v in given.items() if k.startswith("w.") and not k.endswith(CONSTANT)}
    online = {k: v.clone().requires_grad_() for k, v in weights.items() if "_m." not in k}
    average = {k.replace("_m.", ".", 1): v.clone() for k, v in weights.items() if "_m." in k}
    queue = [given[k].double().T for k in ("in.image_queue", "in.text_queue")]
    moments = {k: [torch.zeros_like(v), torch.zeros_like(v)] for k, v in online.items()}
    model, tensors, at = Model(config), {}, 0
    for step, ranks in enumerate(ROWS):
        with torch.no_grad():
            for k, v in average.items():
                v.mul_(DECAY).add_(online[k], alpha=1 - DECAY)
        keys = []
        for v in online.values():
            v.grad = None
        for rank, rows in enumerate(ranks):
            x = {"image": given["in.image"][rows].double(), "second": given["in.image_aug"][rows].double(), "ids": given["in.input_ids"][rows]}
            x["mask"] = given["in.attention_mask"][rows].double()
            for name, part in (("masked", 0), ("labels", 1)):
                x[name] = torch.full_like(x["ids"], (0, -100)[part])
                for i, row in enumerate(drawn[at][part]):
                    x[name][i, : len(row)] = torch.tensor(row)
            at += 1
            losses, own = Rank(model, online, average, queue).losses(x)
            (losses["total"] / len(ranks)).backward()
            keys.append(own)
            tensors[f"out.{step}.{rank}.losses"] = torch.stack([losses[k].detach() for k in ("itc", "itm", "mlm", "total")])
        rate = LEAST + (RATE - LEAST) * (1 + math.cos(math.pi * step / TOTAL)) / 2
        with torch.no_grad():
            for k, v in online.items():
                g = v.grad if v.grad is not None else torch.zeros_like(v)
                first, second = moments[k]
                first.mul_(BETAS[0]).add_(g, alpha=1 - BETAS[0])
                second.mul_(BETAS[1]).add_(g * g, alpha=1 - BETAS[1])
                if v.dim() != 1:
                    v.mul_(1 - rate * WEIGHT_DECAY)
                up = first / (1 - BETAS[0] ** (step + 1)) / ((second / (1 - BETAS[1] ** (step + 1))).sqrt() + EPSILON)
                v.sub_(up, alpha=rate)
            queue = [torch.cat([own[i] for own in keys[::-1]] + [queue[i]])[:QUEUE] for i in range(2)]  # newest first
        tensors[f"out.{step}.rate"] = torch.tensor([rate], dtype=torch.float64)
        for k, v in online.items():
            tensors[f"out.{step}.w.{k}"] = torch.tensor(sketch(v), dtype=torch.float64)
        for k, v in average.items():
            tensors[f"out.{step}.average.{k}"] = torch.tensor(sketch(v), dtype=torch.float64)
        tensors[f"out.{step}.image_queue"], tensors[f"out.{step}.text_queue"] = queue[0].contiguous(), queue[1].contiguous()
    settings = {"rows": ROWS, "alpha": ALPHA, "decay": DECAY, "queue": QUEUE, "rate": RATE, "least": LEAST, "total": TOTAL, "epsilon": EPSILON, "masks": drawn}
    save_file(tensors, out, metadata={"config": json.dumps(settings)})


main()
