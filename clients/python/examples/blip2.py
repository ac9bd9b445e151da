"""BLIP-2's Q-Former, stage 1, on pairstream's mini-batches, as MAFA trains it (supplement G.7).

    export RECIPE=mafa BATCH_SIZE=48 STEP_BATCHES=8 SEARCH_SPACE=3840 EPOCHS=10 PAIRS=5000000      # for the stages, and for this
    python examples/blip2.py --model Salesforce/blip2-itm-vit-g --bert bert-base-uncased --checkpoints data/blip2
    torchrun --standalone --nproc_per_node 8 --max_restarts 3 examples/blip2.py --bert bert-base-uncased --checkpoints data/blip2 --device cuda

What it takes from where: the frozen image encoder, the Q-Former with its queries, and the three objectives of BLIP-2's
stage 1 (Li et al. 2023): ITC by the query that is most similar to the text, ITM over the mean of all queries, and
image-grounded text generation (ITG). ITC compares with the pairs of all ranks, as BLIP-2's code does; ITM's negatives are those of the
mini-batch. From MAFA G.7: 384 pairs a step, smoothed targets with alpha 0.2, and connections in ITC and ITM; an ambiguous pair is not
re-sampled but left out, and ITG has no extra rows. The feature of an image that is published for the grouper is the query most similar
to its own text.

The rate is BLIP-2's: from 1e-6 to 1e-4 in 2,000 steps, then a cosine to 1e-5 at the end of the epochs; AdamW has betas 0.9 and 0.98 and
a weight decay of 0.05. A variable that is set overrides a value. The weights are those of transformers' Blip2ForImageTextRetrieval.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from albef import Names, attend
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertModel, BertTokenizerFast, Blip2Config, Blip2VisionModel

from pairstream import CheckpointError, Config
from pairstream.torch import Batch, Output, Recipe, ScoredBatches, Trainer, everyone, losses, pre_caption
from pairstream.torch.losses import AMBIGUOUS, Picks

# What G.7 and BLIP-2 have other than MAFA's recipe.
G7 = {
    "BATCH_SIZE": "48", "STEP_BATCHES": "8", "SEARCH_SPACE": "3840", "EPOCHS": "10", "ITC_ALPHA": "0.2", "ECM_LOSSES": "itc,itm",
    "LR_WARMUP": "1e-6", "ADAMW": "0.9,0.98,1e-8", "WEIGHT_DECAY": "0.05",
}  # fmt: skip


def planned(environ: dict[str, str]) -> Recipe:
    """The recipe of stage 1. MAFA's cosine would end after 30 of 20 epochs, and BLIP-2's ends with the last."""
    recipe = Recipe.of("mafa", G7 | {name: value for name, value in environ.items() if value})
    return recipe if environ.get("LR_TOTAL_STEPS") else replace(recipe, lr_total_steps=recipe.lr_total_steps * 2 // 3)


class Layer(nn.Module):
    """A layer of BERT. Queries see the image, if the layer has cross-attention, and are fed forward by themselves."""

    def __init__(self, width: int, inner: int, heads: int, image: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout

        def attention(keys: int) -> Names:
            of = Names(query=nn.Linear(width, width), key=nn.Linear(keys, width), value=nn.Linear(keys, width))
            return Names(attention=of, output=Names(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12)))

        self.attention = attention(width)
        if image:
            self.crossattention = attention(image)
        for end in ("", "_query"):
            setattr(self, f"intermediate{end}", Names(dense=nn.Linear(width, inner)))
            setattr(self, f"output{end}", Names(dense=nn.Linear(inner, width), LayerNorm=nn.LayerNorm(width, eps=1e-12)))

    def _added(self, out: Any, x: Tensor, to: Tensor) -> Tensor:
        return out.LayerNorm(functional.dropout(out.dense(x), self.dropout, self.training) + to)

    def _seen(self, part: Any, x: Tensor, keys: Tensor, scores: Tensor | None) -> Tensor:
        of = part.attention
        mixed = attend(of.query(x), of.key(keys), of.value(keys), self.heads, scores, self.dropout if self.training else 0.0)
        return self._added(part.output, mixed, x)

    def forward(self, x: Tensor, scores: Tensor | None, image: Tensor | None, queries: int) -> Tensor:
        x = self._seen(self.attention, x, x, scores)
        q, t = x[:, :queries], x[:, queries:]
        if queries and image is not None and hasattr(self, "crossattention"):
            q = self._seen(self.crossattention, q, image, None)
        q = self._added(self.output_query, functional.gelu(self.intermediate_query.dense(q)), q)
        return torch.cat([q, self._added(self.output, functional.gelu(self.intermediate.dense(t)), t)], 1)


class QFormer(nn.Module):
    """The Q-Former over a frozen image encoder, and one step's losses as its forward."""

    together = True  # ITC has the keys of all ranks

    def __init__(self, config: Blip2Config, *, bos: int, recipe: Recipe | None = None) -> None:
        super().__init__()
        c, self.config, self.bos = config.qformer_config, config, bos
        self.recipe = recipe or Recipe(alpha=0.2)
        width, drop = c.hidden_size, c.hidden_dropout_prob
        self.vision_model = Blip2VisionModel(config.vision_config)
        self.query_tokens = nn.Parameter(torch.zeros(1, config.num_query_tokens, width))
        self.embeddings = Names(word_embeddings=nn.Embedding(c.vocab_size, width), position_embeddings=nn.Embedding(c.max_position_embeddings, width))
        layers = nn.ModuleList(
            Layer(width, c.intermediate_size, c.num_attention_heads, 0 if i % c.cross_attention_frequency else c.encoder_hidden_size, drop) for i in range(c.num_hidden_layers)
        )
        self.qformer = Names(layernorm=nn.LayerNorm(width, eps=1e-12), encoder=Names(layer=layers))
        self.vision_projection, self.text_projection = (nn.Linear(width, config.image_text_hidden_size) for _ in range(2))
        self.itm_head, self.lm_head, self.temperature = nn.Linear(width, 2), nn.Linear(width, c.vocab_size), nn.Parameter(torch.tensor(0.07))
        for name, p in self.named_parameters():
            if p.dim() > 1 and not name.startswith("vision_model."):
                nn.init.normal_(p, std=0.02)
        self.vision_model.requires_grad_(False)

    @classmethod
    def at_random(cls, vocabulary: int = 100, size: int = 32, dropout: float = 0.1) -> QFormer:
        """A small model for tests."""
        former = {
            "vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_dropout_prob": dropout,
            "encoder_hidden_size": 32, "cross_attention_frequency": 2, "use_qformer_text_input": True, "max_position_embeddings": 32,
        }  # fmt: skip
        vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": size, "patch_size": 8}
        return cls(Blip2Config(qformer_config=former, vision_config=vision, num_query_tokens=4, image_text_hidden_size=16), bos=2)

    @classmethod
    def load(cls, name: str, **options: Any) -> QFormer:
        """Read a folder, or a name of Hugging Face, with the weights of a Blip2ForImageTextRetrieval, or of `save`."""
        folder = Path(name)
        if not folder.is_dir():
            from huggingface_hub import snapshot_download

            folder = Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))
        model = cls(Blip2Config.from_pretrained(folder), **options)
        state = {key: tensor for file in sorted(folder.glob("*.safetensors")) for key, tensor in load_file(file).items()}
        missing = [key for key in model.load_state_dict(state, strict=False).missing_keys if not key.startswith(("lm_head.", "temperature"))]
        if missing:
            raise CheckpointError(f"{name} has no {missing[0]}, nor {len(missing) - 1} others: want the safetensors of a Blip2ForImageTextRetrieval, such as Salesforce/blip2-itm-vit-g")
        return model

    def begin(self, bert: BertModel) -> None:
        """Begin the Q-Former with BERT's weights, as BLIP-2 does: texts and queries are fed forward alike at first; the rest is drawn."""
        state = {}
        for name, tensor in bert.state_dict().items():
            ours = name.replace(".attention.self.", ".attention.attention.") if name.startswith("encoder.") else ""
            if ours:
                state[f"qformer.{ours}"] = tensor
                if ".attention." not in ours:
                    state["qformer." + ours.replace("intermediate.", "intermediate_query.").replace("output.", "output_query.")] = tensor
            elif name in ("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"):
                of = self.get_parameter(name).detach().clone()
                of[: len(tensor)] = tensor[: len(of)]
                state[name] = of
            elif name.startswith("embeddings.LayerNorm."):
                state[name.replace("embeddings.LayerNorm", "qformer.layernorm")] = tensor
        for p in self.parameters():
            if p.requires_grad and p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        unknown = self.load_state_dict(state, strict=False).unexpected_keys
        if unknown:
            raise CheckpointError(f"BERT has {unknown[0]}, which the Q-Former has not: want as many layers of the same width")

    def save(self, folder: Path) -> None:
        """Write what `load` and transformers' Blip2ForImageTextRetrieval read."""
        self.config.save_pretrained(folder)
        save_file({name: t.detach().cpu().contiguous() for name, t in self.state_dict().items()}, folder / "model.safetensors", {"format": "pt"})

    def former(self, x: Tensor, mask: Tensor | None, image: Tensor | None, queries: int) -> Tensor:
        """The Q-Former's states of queries and texts side by side. mask [n, keys] has tokens, [n, 1, length, keys] is added to scores."""
        x = functional.dropout(self.qformer.layernorm(x), self.config.qformer_config.hidden_dropout_prob, self.training)
        if mask is not None and mask.dim() == 2:
            mask = ((1 - mask[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min).to(x.dtype)
        for layer in self.qformer.encoder.layer:
            x = layer(x, mask, image, queries)
        return x

    def embed(self, ids: Tensor) -> Tensor:
        return self.embeddings.word_embeddings(ids) + self.embeddings.position_embeddings.weight[: ids.shape[1]]

    def joint(self, image: Tensor, ids: Tensor, mask: Tensor, causal: bool) -> Tensor:
        """States of the queries and of texts that see them; causal: tokens see queries and earlier tokens, queries no text."""
        queries = self.query_tokens.expand(len(ids), -1, -1)
        q, t = queries.shape[1], ids.shape[1]
        both = torch.cat([torch.ones(len(ids), q, dtype=mask.dtype, device=mask.device), mask], 1)
        if causal:
            sees = torch.ones(q + t, q + t, dtype=mask.dtype, device=mask.device)
            sees[:q, q:] = 0
            sees[q:, q:] = sees[q:, q:].tril()
            both = ((1 - both[:, None, None] * sees) * torch.finfo(image.dtype).min).to(image.dtype)  # added to scores, as it is
        return self.former(torch.cat([queries, self.embed(ids)], 1), both, image, q)

    def forward(self, batch: Batch) -> Output:
        with torch.no_grad():
            self.temperature.clamp_(0.001, 0.5)
            states = self.vision_model(pixel_values=batch.images, return_dict=True).last_hidden_state
        ids, mask, n = batch.tokens["input_ids"], batch.tokens["attention_mask"], len(batch)
        seen = self.former(self.query_tokens.expand(n, -1, -1), None, states, self.query_tokens.shape[1])
        queries = functional.normalize(self.vision_projection(seen), dim=-1)
        text = functional.normalize(self.text_projection(self.former(self.embed(ids), mask, None, 0)[:, 0]), dim=-1)
        all_queries, all_texts, same = self.keys(batch, queries, text)
        # A query is compared with every text; the best counts. The keys are constants, as in the other losses.
        sim_i2t = torch.einsum("iqd,td->itq", queries, all_texts).amax(2) / self.temperature
        sim_t2i = torch.einsum("td,iqd->tiq", text, all_queries).amax(2) / self.temperature
        bounds = self.recipe.bounds(batch)
        i2t, t2i = (
            without_ambiguous(losses.mine(sim, candidates, probs, batch.same_image, **bounds))
            for sim, candidates, probs in ((sim_i2t, batch.i2t, batch.prob_i2t), (sim_t2i, batch.t2i, batch.prob_t2i))
        )
        hard = [losses.hard_targets(batch.same_image, picks, queue_same=same) for picks in (i2t, t2i)]
        parts = {"itc": losses.itc(sim_i2t, sim_t2i, *hard, losses.Smoothed(self.recipe.alpha))}
        pairs = losses.plan_itm(i2t, t2i)
        q = queries.shape[1]
        matched = self.joint(states[pairs.images], ids[pairs.texts], mask[pairs.texts], causal=False)[:, :q]
        parts["itm"] = losses.itm(self.itm_head(matched).mean(1), pairs)
        told = torch.cat([torch.full_like(ids[:, :1], self.bos), ids[:, 1:]], 1)
        logits = self.lm_head(self.joint(states, told, mask, causal=True)[:, q:-1])
        parts["itg"] = losses.mlm(logits, told.masked_fill(mask == 0, losses.IGNORE_LABEL)[:, 1:])
        total = torch.stack(list(parts.values())).sum()
        best = torch.einsum("iqd,id->iq", queries, text).argmax(1)
        image = queries[torch.arange(n, device=best.device), best]
        return Output(total, image.detach(), text.detach(), {f"loss_{k}": float(v.detach()) for k, v in parts.items()})


    def keys(self, batch: Batch, queries: Tensor, text: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries and texts of the batch, behind them those of the other ranks, and which of these show an anchor's image."""
        own = dist.get_rank() if dist.is_initialized() else 0
        given = slice(0) if batch.spare else slice(None)  # of a batch that another rank has, that rank gives them
        assert batch.image_ids is not None
        of_ranks = [everyone(rows.detach().float()[given]) for rows in (queries, text)] + [everyone(batch.image_ids[given])]
        images, texts, ids = (torch.cat([like[:0], *(rows for rank, rows in enumerate(ranks) if rank != own)]) for like, ranks in zip((queries, text, batch.image_ids), of_ranks, strict=True))
        same = (batch.image_ids[:, None] == ids[None]).all(2) if len(ids) else None
        return torch.cat([queries.detach(), images]), torch.cat([text.detach(), texts]), same


def without_ambiguous(picks: Picks) -> Picks:
    """Leave ambiguous anchors without a second candidate, so that they give no pair: G.7 re-samples nothing."""
    return picks._replace(second=picks.second.masked_fill(picks.classes == AMBIGUOUS, -1))


def tokenize(tokenizer: BertTokenizerFast, texts: list[str]) -> dict[str, Any]:
    """Make tokens of captions. A closure would not reach loader workers by spawn or forkserver."""
    return dict(tokenizer([pre_caption(t) for t in texts], padding=True, truncation=True, max_length=32, return_tensors="pt", return_token_type_ids=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Salesforce/blip2-itm-vit-g", help="weights of Hugging Face to start from: sizes, image encoder, Q-Former")
    parser.add_argument("--bert", default="", help="weights of BERT to begin the Q-Former with, as stage 1 does: bert-base-uncased; empty: those of --model")
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    recipe, tokenizer = planned(dict(os.environ)), BertTokenizerFast.from_pretrained(args.model)
    bos = tokenizer.convert_tokens_to_ids("[DEC]")
    model = QFormer.load(args.model, bos=tokenizer.cls_token_id if bos == tokenizer.unk_token_id else bos, recipe=recipe)
    if args.bert:
        torch.manual_seed(0)  # all ranks draw the same
        model.begin(BertModel.from_pretrained(args.bert))
    batches = ScoredBatches(Config.from_env(), transform=recipe.images(model.config.vision_config.image_size), tokenize=partial(tokenize, tokenizer))
    optimizer = recipe.adamw(p for p in model.parameters() if p.requires_grad)
    Trainer(
        model, optimizer, batches, args.checkpoints, device=args.device, precision="bfloat16" if args.device == "cuda" else "float32", clip=1.0, workers=2,
        accumulate=recipe.accumulate(batches.world), schedule=recipe.factor,
    ).run()  # fmt: skip
    if batches.rank == 0:
        model.save(Path(args.checkpoints) / "weights")


if __name__ == "__main__":
    main()
