"""The ALBEF architecture in PyTorch, with the losses of every recipe: the built-in trainer's model, to change at will.

It loads and writes pairstream's safetensors, so weights go to and fro between this and the Go programs:

    python examples/albef.py --init data/bootstrap.safetensors --checkpoints data/python
    torchrun --standalone --nproc_per_node 8 --max_restarts 3 examples/albef.py --init data/bootstrap.safetensors --checkpoints data/python --device cuda

RECIPE (albef, tcl, grit-vlp, mafa, gpn-s, gpn-s-tcl) chooses images, captions, losses, the mini-batches of a step and the learning rate, as
for the built-in trainer. PAIRS says for how many pairs the rate is planned.

What it takes from where: the architecture and the ITC of ALBEF (Li et al. 2021) as GRIT-VLP's code has it (keys are
constants); momentum model, queue and distillation from ALBEF, and the triple contrast from TCL (Yang et al. 2022); ITC's consistency term and MLM at 50 % from GRIT-VLP (eq. 6, section 4.2); smoothed targets,
connections in ITC, ITM and MLM, and re-sampling from MAFA (eqs. 4 to 6); the uni-modal loss from GPN-S (eq. 10).
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from pairstream import Config as Brokers
from pairstream.torch import Batch, Momentum, Output, Recipe, ScoredBatches, Trainer, losses, shard, tcl, whole
from pairstream.torch.wordpiece import WordPiece

PADDED = -10000.0  # added to attention scores at padded positions, as BERT's code does


@dataclass
class Shape:
    """The sizes of a model; the names are those of pairstream's weights files."""

    image_size: int = 32
    patch_size: int = 8
    vision_dim: int = 64
    vision_depth: int = 3
    vision_heads: int = 4
    text_hidden: int = 64
    text_layers: int = 4
    fusion_layer: int = 2
    text_heads: int = 4
    text_intermediate: int = 256
    vocab_size: int = 120
    max_positions: int = 32
    embed_dim: int = 32
    text_tokens: int = 20
    caption_words: int = 0


def attend(q: Tensor, k: Tensor, v: Tensor, heads: int, scores: Tensor | None, dropout: float) -> Tensor:
    """Attention of [n, length, width] tensors; scores [n, 1, 1, keys] are added."""

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)

    q, k, v = split(q), split(k), split(v)
    a = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    p = torch.softmax(a if scores is None else a + scores, -1)
    return (functional.dropout(p, dropout, dropout > 0) @ v).transpose(1, 2).flatten(2)


class Names(nn.Module):
    """A module that only holds others, so that state names are those of the authors."""

    def __init__(self, **parts: nn.Module | nn.Parameter) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class VisionBlock(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = Names(qkv=nn.Linear(dim, 3 * dim), proj=nn.Linear(dim, dim))
        self.mlp = Names(fc1=nn.Linear(dim, 4 * dim), fc2=nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn.proj(attend(*self.attn.qkv(self.norm1(x)).chunk(3, -1), self.heads, None, 0.0))
        return x + self.mlp.fc2(functional.gelu(self.mlp.fc1(self.norm2(x))))


class Vision(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.patch_embed = Names(proj=nn.Conv2d(3, s.vision_dim, s.patch_size, s.patch_size))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, s.vision_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, (s.image_size // s.patch_size) ** 2 + 1, s.vision_dim))
        self.blocks = nn.ModuleList(VisionBlock(s.vision_dim, s.vision_heads) for _ in range(s.vision_depth))
        self.norm = nn.LayerNorm(s.vision_dim, eps=1e-6)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch_embed.proj(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Attention(nn.Module):
    """BERT's attention with the residual connection and the normalisation after it."""

    def __init__(self, width: int, key_width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.dropout = heads, 0.0
        self.self = Names(query=nn.Linear(width, width), key=nn.Linear(key_width, width), value=nn.Linear(key_width, width))
        self.output = Names(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))

    def forward(self, x: Tensor, seen: Tensor, scores: Tensor | None) -> Tensor:
        mixed = attend(self.self.query(x), self.self.key(seen), self.self.value(seen), self.heads, scores, self.dropout)
        return self.output.LayerNorm(functional.dropout(self.output.dense(mixed), self.dropout, self.dropout > 0) + x)


class TextLayer(nn.Module):
    def __init__(self, s: Shape, fusion: bool) -> None:
        super().__init__()
        self.attention = Attention(s.text_hidden, s.text_hidden, s.text_heads)
        if fusion:
            self.crossattention = Attention(s.text_hidden, s.vision_dim, s.text_heads)
        self.intermediate = Names(dense=nn.Linear(s.text_hidden, s.text_intermediate))
        self.output = Names(dense=nn.Linear(s.text_intermediate, s.text_hidden), LayerNorm=nn.LayerNorm(s.text_hidden, eps=1e-12))

    def forward(self, x: Tensor, scores: Tensor, images: Tensor | None) -> Tensor:
        x = self.attention(x, x, scores)
        if images is not None:
            x = self.crossattention(x, images, None)
        fed = self.output.dense(functional.gelu(self.intermediate.dense(x)))
        drop = self.attention.dropout
        return self.output.LayerNorm(functional.dropout(fed, drop, drop > 0) + x)


class Keys(NamedTuple):
    """What a batch is compared with; none of it has a gradient."""

    image: Tensor  # of the batch
    text: Tensor
    images: Tensor  # with the queue behind them
    texts: Tensor
    queue_same: Tensor | None  # marks what in the queue shows an anchor's image
    tokens: Tensor | None  # of the batch in the momentum model
    hidden: Tensor | None


class ALBEF(nn.Module):
    """The model, and one step's losses as its forward."""

    def __init__(self, shape: Shape, recipe: Recipe | None = None, vocab: list[str] | None = None) -> None:
        super().__init__()
        self.shape, self.recipe, self.vocab = shape, recipe or Recipe(), vocab
        self.visual_encoder = Vision(shape)
        h = shape.text_hidden
        embeddings = Names(
            word_embeddings=nn.Embedding(shape.vocab_size, h, padding_idx=0), position_embeddings=nn.Embedding(shape.max_positions, h),
            token_type_embeddings=nn.Embedding(2, h), LayerNorm=nn.LayerNorm(h, eps=1e-12),
        )  # fmt: skip
        layers = nn.ModuleList(TextLayer(shape, i >= shape.fusion_layer) for i in range(shape.text_layers))
        head = Names(transform=Names(dense=nn.Linear(h, h), LayerNorm=nn.LayerNorm(h, eps=1e-12)), bias=nn.Parameter(torch.zeros(shape.vocab_size)))
        self.text_encoder = Names(bert=Names(embeddings=embeddings, encoder=Names(layer=layers)), cls=Names(predictions=head))
        self.vision_proj, self.text_proj = nn.Linear(shape.vision_dim, shape.embed_dim), nn.Linear(h, shape.embed_dim)
        self.itm_head = nn.Linear(h, 2)
        self.temp = nn.Parameter(torch.tensor(0.07))
        if self.recipe.loss == "sigmoid":
            self.itc_bias = nn.Parameter(torch.tensor(-10.0))
        for name, p in self.named_parameters():
            if p.dim() > 1 and "patch_embed" not in name:
                nn.init.trunc_normal_(p, std=0.02)
        for module in self.modules():
            if isinstance(module, Attention):
                module.dropout = self.recipe.dropout
        self.momentum: Momentum[ALBEF] | None = None
        if self.recipe.momentum:
            self.momentum = Momentum(self, shape.embed_dim, decay=self.recipe.momentum_decay, queue=self.recipe.momentum_queue)

    def embed(self, ids: Tensor) -> Tensor:
        e = self.text_encoder.bert.embeddings
        x = e.word_embeddings(ids) + e.position_embeddings.weight[: ids.shape[1]] + e.token_type_embeddings.weight[0]
        return functional.dropout(e.LayerNorm(x), self.recipe.dropout, self.recipe.dropout > 0)

    def text(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Hidden states of texts alone."""
        x, scores = self.embed(ids), ((1 - mask.to(self.temp.dtype)) * PADDED)[:, None, None]
        for layer in self.text_encoder.bert.encoder.layer[: self.shape.fusion_layer]:
            x = layer(x, scores, None)
        return x

    def fuse(self, hidden: Tensor, mask: Tensor, tokens: Tensor) -> Tensor:
        """Let text i see image i."""
        x, scores = hidden, ((1 - mask.to(self.temp.dtype)) * PADDED)[:, None, None]
        for layer in self.text_encoder.bert.encoder.layer[self.shape.fusion_layer :]:
            x = layer(x, scores, tokens)
        return x

    def image_feature(self, tokens: Tensor) -> Tensor:
        return functional.normalize(self.vision_proj(tokens[:, 0]), dim=-1)

    def text_feature(self, hidden: Tensor) -> Tensor:
        return functional.normalize(self.text_proj(hidden[:, 0]), dim=-1)

    def decode(self, fused: Tensor) -> Tensor:
        """Logits over the vocabulary."""
        head = self.text_encoder.cls.predictions
        x = head.transform.LayerNorm(functional.gelu(head.transform.dense(fused)))
        return functional.linear(x, self.text_encoder.bert.embeddings.word_embeddings.weight, head.bias)

    def locals(self, states: Tensor, projection: nn.Linear) -> Tensor:
        """Unit features of all tokens but the first."""
        return functional.normalize(projection(states[:, 1:]), dim=-1)

    def forward(self, batch: Batch, masked: tuple[Tensor, Tensor] | None = None) -> Output:
        """Return the losses of a step. masked (ids, labels of every MLM row) is drawn from the batch's generator if not given."""
        r, m = self.recipe, self.momentum
        if m is not None:
            m.follow(self)
        with torch.no_grad():
            self.temp.clamp_(0.001, 0.5)
        ids, mask = batch.tokens["input_ids"], batch.tokens["attention_mask"]
        tokens, hidden = self.visual_encoder(batch.images), self.text(ids, mask)
        image, text = self.image_feature(tokens), self.text_feature(hidden)
        keys = self.average(batch, image, text)
        sim_i2t, sim_t2i = losses.similarities(image, keys.texts, self.temp), losses.similarities(text, keys.images, self.temp)
        draw = batch.generator("itm negatives")
        choice = {**r.bounds(batch), "negatives": r.negatives, "draw": draw}
        i2t = losses.mine(sim_i2t, batch.i2t, batch.prob_i2t, batch.same_image, **choice)
        t2i = losses.mine(sim_t2i, batch.t2i, batch.prob_t2i, batch.same_image, **choice)
        parts = {}
        if r.itc:
            parts["itc"] = r.itc * self.contrast(batch, image, text, keys, (sim_i2t, sim_t2i), (i2t, t2i))
        if r.itm:
            pairs = losses.plan_itm(i2t, t2i, connections=r.ecm_itm, eliminate=r.ecm_itm and r.eliminate)
            fused = self.fuse(hidden[pairs.texts], mask[pairs.texts], tokens[pairs.images])
            parts["itm"] = r.itm * losses.itm(self.itm_head(fused[:, 0]), pairs)
        if r.mlm:
            rows = losses.plan_mlm(i2t, t2i, connections=r.ecm_mlm and not r.eliminate)
            parts["mlm"] = r.mlm * self.masked_language(rows, mask, tokens, keys, masked if masked is not None else self.draw_masks(batch, rows))
        if r.uni and batch.positives is not None:
            positive = self.image_feature(self.visual_encoder(batch.positives))
            parts["uni"] = r.uni * losses.uni(image, positive, self.temp, r.uni_reading)
        if m is not None and r.momentum_queue and self.training:
            assert batch.image_ids is not None
            m.push(keys.image, keys.text, batch.image_ids)
        total = torch.stack(list(parts.values())).sum()
        confirmed = float(sum((p > r.bounds(batch)["high"]).sum() for p in (batch.prob_i2t, batch.prob_t2i)))
        values = {f"loss_{k}": float(v.detach()) for k, v in parts.items()}
        return Output(total, image.detach(), text.detach(), values | {"connections": confirmed})

    def end_step(self) -> None:
        """End a step on all ranks: the trainer calls it before the optimiser's."""
        if self.momentum is not None:
            self.momentum.end(self)

    @torch.no_grad()
    def average(self, batch: Batch, image: Tensor, text: Tensor) -> Keys:
        """Return what the batch is compared with: the momentum model's features and the queue, or its own features."""
        m, queue_same = self.momentum, None
        if m is None:
            return Keys(image, text, image, text, None, None, None)
        tokens = m.average.visual_encoder(batch.images if batch.second is None else batch.second)
        hidden = m.average.text(*(batch.tokens[name] for name in ("input_ids", "attention_mask")))
        image, text = m.average.image_feature(tokens), m.average.text_feature(hidden)
        images, texts = m.keys(image, text)
        if batch.image_ids is not None:
            queue_same = m.same(batch.image_ids)
        return Keys(image, text, images, texts, queue_same, tokens, hidden)

    def contrast(self, batch: Batch, image: Tensor, text: Tensor, keys: Keys, sims: tuple[Tensor, Tensor], picks: tuple[losses.Picks, losses.Picks]) -> Tensor:
        """ITC, and TCL's further terms."""
        r, m = self.recipe, self.momentum
        hard = [losses.hard_targets(batch.same_image, p if r.ecm_itc else None, queue_same=keys.queue_same, eliminate=r.eliminate) for p in picks]
        if r.loss == "sigmoid":
            halves = ((image, keys.texts, hard[0]), (text, keys.images, hard[1]))
            return torch.stack([losses.sigmoid(anchors, others, targets, self.temp, self.itc_bias) for anchors, others, targets in halves]).mean()
        teachers = None
        if m is not None and r.targets == "distilled":
            teachers = losses.similarities(keys.image, keys.texts, self.temp), losses.similarities(keys.text, keys.images, self.temp)
        cross = losses.itc(*sims, *hard, r.softening(batch.epoch, 0 if m is None else m.step, teachers))
        if r.loss != "triple":
            return cross
        assert m is not None and keys.tokens is not None and keys.hidden is not None, "TCL needs a momentum model"
        own = losses.hard_targets(batch.same_image, queue_same=keys.queue_same)
        regions = tcl.regions(m.average.locals(keys.tokens, m.average.vision_proj))
        return tcl.triple(
            cross, losses.similarities(image, keys.images, self.temp), losses.similarities(text, keys.texts, self.temp), own, own,
            image, regions, text, m.average.locals(keys.hidden, m.average.text_proj), batch.tokens["attention_mask"].sum(1) - 1, self.temp,
        )  # fmt: skip

    def masked_language(self, rows: losses.Pairs, mask: Tensor, tokens: Tensor, keys: Keys, masked: tuple[Tensor, Tensor]) -> Tensor:
        """MLM, with the share of the momentum model's words."""
        ids, labels = masked
        at, m = labels != losses.IGNORE_LABEL, self.momentum

        def logits(model: ALBEF, images: Tensor) -> Tensor:
            return model.decode(model.fuse(model.text(ids, mask[rows.texts]), mask[rows.texts], images[rows.images])[at])

        share = 0.0 if m is None else self.recipe.ramp(self.recipe.mlm_distill, m.step)
        own = logits(self, tokens)
        if m is None or keys.tokens is None or share == 0:
            return losses.mlm(own, labels[at])
        with torch.no_grad():
            teacher = logits(m.average, keys.tokens)
        return losses.mlm_distilled(own, labels[at], teacher, share)

    def draw_masks(self, batch: Batch, rows: losses.Pairs) -> tuple[Tensor, Tensor]:
        """Mask the rows of MLM with the draws of the built-in trainer."""
        assert self.vocab is not None
        ids, lengths = batch.tokens["input_ids"], batch.tokens["attention_mask"].sum(1).tolist()
        texts = rows.texts.tolist()
        unpadded = [ids[t, : int(lengths[t])].tolist() for t in texts]
        special = {name: self.vocab.index(name) for name in ("[PAD]", "[CLS]", "[MASK]")}
        masked, labels = losses.mask_tokens(
            unpadded, batch.generator("mlm"), vocabulary=len(self.vocab), pad=special["[PAD]"], cls=special["[CLS]"], mask=special["[MASK]"],
            probability=self.recipe.mask_probability,
        )  # fmt: skip
        out, wanted = ids[rows.texts].clone(), torch.full_like(ids[rows.texts], losses.IGNORE_LABEL)
        for i, (row, label) in enumerate(zip(masked, labels, strict=True)):
            out[i, : len(row)], wanted[i, : len(row)] = torch.tensor(row), torch.tensor(label)
        return out, wanted

    def decay_groups(self, weight_decay: float = 0.02) -> list[dict[str, object]]:
        """Spare tensors of one dimension and biases, as the authors' code does."""
        named = [(n, p) for n, p in self.named_parameters() if p.requires_grad]
        spared = [p for n, p in named if p.dim() == 1 or n.endswith("bias")]
        decayed = [p for n, p in named if not (p.dim() == 1 or n.endswith("bias"))]
        return [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]

    @classmethod
    def load(cls, path: str | Path, recipe: Recipe | None = None) -> ALBEF:
        """Read a weights file or a checkpoint of pairstream. The average begins with a checkpoint's, or else with the weights."""
        with safe_open(str(path), "pt") as file:
            about = file.metadata()
            vocab = about["pairstream.vocab"].split("\n") if "pairstream.vocab" in about else None
            model = cls(Shape(**json.loads(about["pairstream.config"])), recipe, vocab)
            there = set(file.keys())
            own = {name: file.get_tensor(name) if name != "itc_bias" or name in there else start for name, start in model.own_state().items()}
            average = {name: file.get_tensor(f"momentum.{name}") if f"momentum.{name}" in there else tensor for name, tensor in own.items()}
        model.load_state_dict(own, strict=False)
        if model.momentum is not None:
            model.momentum.average.load_state_dict(average)
        return model

    def own_state(self) -> dict[str, Tensor]:
        """The state without the momentum model."""
        return {name: tensor for name, tensor in self.state_dict().items() if not name.startswith("momentum.")}

    def save(self, path: str | Path, state: dict[str, Tensor] | None = None) -> None:
        """Write a weights file that the Go programs read; state, if not None, is the own state with whole tensors."""
        about = {"pairstream.config": json.dumps(asdict(self.shape))}
        if self.vocab is not None:
            about["pairstream.vocab"] = "\n".join(self.vocab)
        save_file({name: t.detach().cpu().contiguous() for name, t in (state or self.own_state()).items()}, str(path), about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init", required=True, help="weights to start from, such as bootstrap makes")
    parser.add_argument("--checkpoints", required=True, help="folder of checkpoints; training goes on from the newest")
    parser.add_argument("--recipe", default=None, help="albef, tcl, grit-vlp, mafa, gpn-s or gpn-s-tcl; by default RECIPE. A variable such as ITC_TARGETS overrides a value")
    parser.add_argument("--every", type=int, default=1000, help="steps between two checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shard", action="store_true", help="each rank holds a part of every weight (FSDP); not with a momentum model")
    args = parser.parse_args()

    recipe = Recipe.of(args.recipe)
    model = ALBEF.load(args.init, recipe)
    assert model.vocab is not None, "the weights file has a vocabulary"
    shape = model.shape
    batches = ScoredBatches(
        Brokers.from_env(), transform=recipe.images(shape.image_size), tokenize=recipe.captions(WordPiece(model.vocab), shape.text_tokens, shape.caption_words),
        positives=recipe.uni > 0, second=recipe.loss == "triple", seed=args.seed,
    )  # fmt: skip
    if args.shard:
        model = shard(model, args.device)
    Trainer(
        model, recipe.adamw(model.decay_groups(recipe.weight_decay)), batches, args.checkpoints,
        every=args.every, accumulate=recipe.accumulate(batches.world), schedule=recipe.factor, clip=recipe.clip, device=args.device,
    ).run()  # fmt: skip
    state = whole(model.own_state())
    if batches.rank == 0:
        model.save(Path(args.checkpoints) / "weights.safetensors", state)
    if args.shard and batches.world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
