"""VQA, NLVR2 and SNLI-VE on weights of pairstream, as ALBEF fine-tunes for them (Li et al. 2021, sections 5 and 6.1).

    python examples/downstream.py vqa data/checkpoints/LAST.safetensors vqa_train.json --images data/coco --test vqa_test.json
    python examples/downstream.py assign data/checkpoints/LAST.safetensors coco.json --images data/coco --out nlvr.pt
    python examples/downstream.py nlvr2 data/checkpoints/LAST.safetensors nlvr_train.json --images data/nlvr --start nlvr.pt --test nlvr_test.json
    python examples/downstream.py ve data/checkpoints/LAST.safetensors ve_train.json --images data/flickr30k --test ve_test.json

The lists are those of ALBEF: VQA has image, question and answer (a text or a list of texts), NLVR2 images, sentence and label, SNLI-VE image,
sentence and label. `assign` is ALBEF's further pre-training for NLVR2 on image, caption: which of two images has the text, or neither?
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from albef import ALBEF, PADDED
from torch import Tensor, nn
from torch.nn import functional

from pairstream.picture import decode
from pairstream.torch import pre_caption, resize
from pairstream.torch.losses import IGNORE_LABEL
from pairstream.torch.wordpiece import WordPiece

Row = dict[str, Any]
LABELS: dict[str, list[Any]] = {"ve": ["entailment", "neutral", "contradiction"], "nlvr2": ["False", "True"], "assign": [0, 1, 2]}


class Downstream(nn.Module):
    """The pre-trained model with what a task adds. rows are lines of the task's list."""

    def __init__(self, base: ALBEF, task: str, images: Path, answers: list[str] | None = None, words: int = 30) -> None:
        super().__init__()
        assert base.vocab is not None
        self.base, self.task, self.images, self.answers, self.words = base, task, images, sorted(answers or []), words
        self.tokenizer, size, h = WordPiece(base.vocab), base.shape.image_size, base.shape.text_hidden
        self.transform = resize(size)
        fusion = base.text_encoder.bert.encoder.layer[base.shape.fusion_layer :]
        if task == "vqa":  # a decoder of the same layers, which sees earlier tokens and what became of the question
            assert base.shape.vision_dim == h, "the decoder begins as the fusion encoder, whose images must be as wide as its texts"
            self.decoder = copy.deepcopy(fusion)
            return
        self.head = nn.Sequential(nn.Linear(h, h), nn.ReLU(), nn.Linear(h, len(LABELS[task])))
        if task != "ve":  # every fusion layer a second time, for the second image; keys and values of images are shared
            self.twins = copy.deepcopy(fusion)
            for layer, twin in zip(fusion, self.twins, strict=True):
                twin.crossattention.self.key, twin.crossattention.self.value = layer.crossattention.self.key, layer.crossattention.self.value

    def see(self, names: list[str]) -> Tensor:
        """The states of images, by their files."""
        pictures = (decode((self.images / name).read_bytes()) for name in names)
        pixels = torch.stack([self.transform(picture, None) for picture in pictures])
        return self.base.visual_encoder(pixels)

    def read(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        tokens = self.tokenizer.padded(min(self.words, self.base.shape.max_positions))([pre_caption(t, self.words) for t in texts])
        return tokens["input_ids"], tokens["attention_mask"]

    def classes(self, rows: list[Row]) -> Tensor:
        """Logits of the labels."""
        ids, mask = self.read([row["sentence"] for row in rows])
        hidden, scores = self.base.text(ids, mask), ((1 - mask.float()) * PADDED)[:, None, None]
        if self.task == "ve":
            return self.head(self.base.fuse(hidden, mask, self.see([row["image"] for row in rows]))[:, 0])
        first, second = (self.see([row["images"][i] for row in rows]) for i in (0, 1))
        for layer, twin in zip(self.base.text_encoder.bert.encoder.layer[self.base.shape.fusion_layer :], self.twins, strict=True):
            hidden = twin(layer(hidden, scores, first), scores, second)
        return self.head(hidden[:, 0])

    def question(self, rows: list[Row]) -> tuple[Tensor, Tensor]:
        ids, mask = self.read([row["question"] for row in rows])
        return self.base.fuse(self.base.text(ids, mask), mask, self.see([row["image"] for row in rows])), ((1 - mask.float()) * PADDED)[:, None, None]

    def telling(self, states: Tensor, seen: Tensor, answers: list[str]) -> Tensor:
        """The loss of telling each answer from its question: the sum over its tokens."""
        ids, mask = self.read(answers)
        later = torch.ones(ids.shape[1], ids.shape[1]).triu(1) * PADDED
        x = self.base.embed(ids)
        for layer in self.decoder:
            x = layer.crossattention(layer.attention(x, x, later), states, seen)
            x = layer.output.LayerNorm(layer.output.dense(functional.gelu(layer.intermediate.dense(x))) + x)
        labels = ids.masked_fill(mask == 0, IGNORE_LABEL)[:, 1:]
        return functional.cross_entropy(self.base.decode(x)[:, :-1].transpose(1, 2), labels, ignore_index=IGNORE_LABEL, reduction="none").sum(1)

    def loss(self, rows: list[Row]) -> Tensor:
        if self.task != "vqa":
            return functional.cross_entropy(self.classes(rows), torch.tensor([LABELS[self.task].index(row["label"]) for row in rows]))
        states, seen = self.question(rows)
        given = [row["answer"] if isinstance(row["answer"], list) else [row["answer"]] for row in rows]
        of = torch.tensor([i for i, texts in enumerate(given) for _ in texts])  # an answer of k weighs 1/k
        share = torch.tensor([1 / len(texts) for texts in given for _ in texts])
        return (share * self.telling(states[of], seen[of], [text for texts in given for text in texts])).sum() / len(rows)

    @torch.no_grad()
    def best(self, rows: list[Row]) -> list[Any]:
        """The label, or the answer of the list that is told best."""
        if self.task != "vqa":
            return [LABELS[self.task][i] for i in self.classes(rows).argmax(1).tolist()]
        states, seen = self.question(rows)
        n, k = len(rows), len(self.answers)
        losses = self.telling(states.repeat_interleave(k, 0), seen.repeat_interleave(k, 0), self.answers * n).view(n, k)
        return [self.answers[i] for i in losses.argmin(1).tolist()]


def assignments(rows: list[Row], draw: random.Random) -> list[Row]:
    """Rows of text assignment: the text's image comes first (0), second (1) or not at all (2)."""
    out = []
    for row in rows:
        text = row["caption"] if isinstance(row["caption"], str) else draw.choice(row["caption"])
        others, label = draw.sample([r["image"] for r in rows if r["image"] != row["image"]], 2), draw.randrange(3)
        out.append({"sentence": text, "images": [row["image"] if i == label else others[i] for i in (0, 1)], "label": label})
    return out


def batches(rows: list[Row], size: int, draw: random.Random) -> Iterator[list[Row]]:
    order = draw.sample(rows, len(rows))
    return (order[i : i + size] for i in range(0, len(order), size))


def train(model: Downstream, rows: list[Row], *, epochs: int, lr: float, batch: int, seed: int = 0) -> list[float]:
    """Train, and return the mean loss of each epoch."""
    draw, optimizer, means = random.Random(seed), torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.02), []
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        losses = []
        for part in batches(assignments(rows, draw) if model.task == "assign" else rows, batch, draw):
            optimizer.zero_grad()
            loss = model.loss(part)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        schedule.step()
        means.append(sum(losses) / len(losses))
    return means


def accuracy(model: Downstream, rows: list[Row], batch: int) -> float:
    """The share of rows whose label or answer is right; with several answers one of them."""
    model.eval()
    found = [best for part in batches(rows, batch, random.Random(0)) for best, row in zip(model.best(part), part, strict=True) if best in _right(row)]
    model.train()
    return len(found) / len(rows)


def _right(row: Row) -> list[Any]:
    right = row["answer"] if "answer" in row else row["label"]
    return right if isinstance(right, list) else [right]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["vqa", "nlvr2", "ve", "assign"])
    parser.add_argument("weights", help="safetensors file of pairstream")
    parser.add_argument("train", type=Path)
    parser.add_argument("--images", type=Path, required=True, help="folder that the lists' names begin in")
    parser.add_argument("--test", type=Path)
    parser.add_argument("--start", type=Path, help="what assign wrote, for nlvr2")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-5)
    args = parser.parse_args(argv)
    rows = json.loads(args.train.read_text())
    answers = {text for row in rows if "answer" in row for text in _right(row)}
    model = Downstream(ALBEF.load(args.weights), args.task, args.images, sorted(answers))
    if args.start:  # all but the head, which had other classes
        state = {k: v for k, v in torch.load(args.start).items() if not k.startswith("head.2.")}
        model.load_state_dict(state, strict=False)
    print("loss by epoch:", *(f"{loss:.3f}" for loss in train(model, rows, epochs=args.epochs, lr=args.lr, batch=args.batch)))
    if args.test:
        print(f"accuracy: {accuracy(model, json.loads(args.test.read_text()), args.batch):.4f}")
    if args.out:
        torch.save(model.state_dict(), args.out)


if __name__ == "__main__":
    main()
