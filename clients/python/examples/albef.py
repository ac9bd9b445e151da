"""The ALBEF architecture in PyTorch, with the losses of GRIT-VLP and MAFA: the built-in trainer's model, to change at will.

It loads and writes pairstream's safetensors, so weights go to and fro between this and the Go programs:

    python examples/albef.py --init data/bootstrap.safetensors --checkpoints data/python

What it takes from where: the architecture and the momentum-free ITC of ALBEF (Li et al. 2021) as GRIT-VLP's code has it
(keys are constants); ITC's consistency term and MLM at 50 % from GRIT-VLP (eq. 6, section 4.2); smoothed targets,
connections in ITC, ITM and MLM, and re-sampling from MAFA (eqs. 4 to 6); the uni-modal loss from GPN-S (eq. 10).
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from pairstream import Config as Brokers
from pairstream.torch import Batch, Output, ScoredBatches, Trainer, augment, losses, resize
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


@dataclass
class Recipe:
    """The settings of a step; the defaults are MAFA's."""

    targets: str = "smoothed"  # or onehot, consistency
    alpha: float = 0.5  # of smoothed targets
    weight: float = 0.2  # of the consistency term
    soft_from_epoch: int = 0  # MAFA's code smooths from the second epoch of a group on, since its first is random
    connections: bool = True
    high: float = 0.8
    low: float = 0.5
    mask_probability: float = 0.5
    dropout: float = 0.1
    itm: bool = True
    mlm: bool = True
    uni: float = 0.0  # weight of GPN-S's uni-modal loss


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
        for name, p in self.named_parameters():
            if p.dim() > 1 and "patch_embed" not in name:
                nn.init.trunc_normal_(p, std=0.02)
        for module in self.modules():
            if isinstance(module, Attention):
                module.dropout = self.recipe.dropout

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

    def softening(self, epoch: int) -> losses.Softening:
        r = self.recipe
        if r.targets == "consistency":
            return losses.Consistency(r.weight)
        return losses.Smoothed(r.alpha) if r.targets == "smoothed" and epoch >= r.soft_from_epoch else losses.OneHot()

    def forward(self, batch: Batch, masked: tuple[Tensor, Tensor] | None = None) -> Output:
        """Return the losses of a step. masked (ids, labels of every MLM row) is drawn from the batch's generator if not given."""
        r = self.recipe
        with torch.no_grad():
            self.temp.clamp_(0.001, 0.5)
        ids, mask = batch.tokens["input_ids"], batch.tokens["attention_mask"]
        tokens, hidden = self.visual_encoder(batch.images), self.text(ids, mask)
        image, text = self.image_feature(tokens), self.text_feature(hidden)
        sim_i2t, sim_t2i = losses.similarities(image, text, self.temp), losses.similarities(text, image, self.temp)
        i2t = losses.mine(sim_i2t, batch.i2t, batch.prob_i2t, batch.same_image, high=r.high, low=r.low)
        t2i = losses.mine(sim_t2i, batch.t2i, batch.prob_t2i, batch.same_image, high=r.high, low=r.low)
        hard = [losses.hard_targets(batch.same_image, p if r.connections else None) for p in (i2t, t2i)]
        parts = {"itc": losses.itc(sim_i2t, sim_t2i, *hard, self.softening(batch.epoch))}
        if r.itm:
            pairs = losses.plan_itm(i2t, t2i, connections=r.connections)
            fused = self.fuse(hidden[pairs.texts], mask[pairs.texts], tokens[pairs.images])
            parts["itm"] = losses.itm(self.itm_head(fused[:, 0]), pairs)
        if r.mlm:
            rows = losses.plan_mlm(i2t, t2i, connections=r.connections)
            masked_ids, labels = masked if masked is not None else self.draw_masks(batch, rows)
            fused = self.fuse(self.text(masked_ids, mask[rows.texts]), mask[rows.texts], tokens[rows.images])
            at = labels != losses.IGNORE_LABEL
            parts["mlm"] = losses.mlm(self.decode(fused[at]), labels[at])
        if r.uni and batch.positives is not None:
            positive = self.image_feature(self.visual_encoder(batch.positives))
            parts["uni"] = r.uni * losses.uni(image, positive, self.temp)
        total = torch.stack(list(parts.values())).sum()
        confirmed = float((batch.prob_i2t > r.high).sum() + (batch.prob_t2i > r.high).sum())
        values = {f"loss_{k}": float(v.detach()) for k, v in parts.items()}
        return Output(total, image.detach(), text.detach(), values | {"connections": confirmed})

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
        named = list(self.named_parameters())
        spared = [p for n, p in named if p.dim() == 1 or n.endswith("bias")]
        decayed = [p for n, p in named if not (p.dim() == 1 or n.endswith("bias"))]
        return [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]

    @classmethod
    def load(cls, path: str | Path, recipe: Recipe | None = None) -> ALBEF:
        """Read a weights file or a checkpoint of pairstream."""
        with safe_open(str(path), "pt") as file:
            about = file.metadata()
            vocab = about["pairstream.vocab"].split("\n") if "pairstream.vocab" in about else None
            model = cls(Shape(**json.loads(about["pairstream.config"])), recipe, vocab)
            model.load_state_dict({name: file.get_tensor(name) for name in model.state_dict()})
        return model

    def save(self, path: str | Path) -> None:
        """Write a weights file that the Go programs read."""
        about = {"pairstream.config": json.dumps(asdict(self.shape))}
        if self.vocab is not None:
            about["pairstream.vocab"] = "\n".join(self.vocab)
        save_file({name: t.detach().cpu().contiguous() for name, t in self.state_dict().items()}, str(path), about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--init", required=True, help="weights to start from, such as bootstrap makes")
    parser.add_argument("--checkpoints", required=True, help="folder of checkpoints; training goes on from the newest")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--targets", default="smoothed", choices=["smoothed", "onehot", "consistency"])
    parser.add_argument("--every", type=int, default=1000, help="steps between two checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--augment", type=float, default=0.5, help="smallest share of an image's area that a random crop keeps; 1: no variation at all")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    model = ALBEF.load(args.init, Recipe(targets=args.targets, dropout=args.dropout))
    assert model.vocab is not None, "the weights file has a vocabulary"
    transform = augment(model.shape.image_size, args.augment) if args.augment < 1 else resize(model.shape.image_size)
    batches = ScoredBatches(
        Brokers.from_env(), transform=transform, tokenize=WordPiece(model.vocab).padded(model.shape.text_tokens), seed=args.seed,
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.decay_groups(), lr=args.lr)
    Trainer(model, optimizer, batches, args.checkpoints, every=args.every, device=args.device).run()
    model.save(Path(args.checkpoints) / "weights.safetensors")


if __name__ == "__main__":
    main()
