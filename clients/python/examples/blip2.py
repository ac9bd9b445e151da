"""BLIP-2's Q-Former, stage 1, on pairstream's mini-batches, as MAFA trains it (supplement G.7).

    python examples/blip2.py --model Salesforce/blip2-itm-vit-g --checkpoints data/blip2      # transformers 5 or later
    torchrun --standalone --nproc_per_node 8 --max_restarts 3 examples/blip2.py --model Salesforce/blip2-itm-vit-g --checkpoints data/blip2 --device cuda

What it takes from where: the frozen image encoder, the Q-Former with its queries, and the three objectives of BLIP-2's
stage 1 (Li et al. 2023): ITC by the query that is most similar to the text, ITM over the mean of all queries, and
image-grounded text generation (ITG). From MAFA G.7: smoothed targets with alpha 0.2 and connections in ITC and ITM; an
ambiguous pair is not re-sampled but left out, and ITG has no extra rows. The feature of an image that is published for the
grouper is the query most similar to its own text.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertTokenizerFast, Blip2Config, Blip2ForImageTextRetrieval

from pairstream import Config
from pairstream.torch import Batch, Output, Recipe, ScoredBatches, Trainer, losses, pre_caption
from pairstream.torch.losses import AMBIGUOUS, Picks


class QFormer(nn.Module):
    """The Q-Former over a frozen image encoder, and one step's losses as its forward."""

    def __init__(self, inner: Blip2ForImageTextRetrieval, *, bos: int, alpha: float = 0.2) -> None:
        super().__init__()
        self.inner, self.bos, self.alpha = inner, bos, alpha
        width, words = inner.config.qformer_config.hidden_size, inner.embeddings.word_embeddings.num_embeddings
        self.temperature = nn.Parameter(torch.tensor(0.07))
        self.lm_head = nn.Linear(width, words)
        inner.vision_model.requires_grad_(False)

    @classmethod
    def at_random(cls, vocabulary: int = 100, size: int = 32) -> QFormer:
        """A small model for tests."""
        former = {
            "vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "encoder_hidden_size": 32, "cross_attention_frequency": 1, "use_qformer_text_input": True, "max_position_embeddings": 32,
        }  # fmt: skip
        vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": size, "patch_size": 8}
        config = Blip2Config(qformer_config=former, vision_config=vision, num_query_tokens=4, image_text_hidden_size=16)
        return cls(Blip2ForImageTextRetrieval(config), bos=2)

    def former(self, queries: Tensor, mask: Tensor | None, image: Tensor | None, length: int) -> Tensor:
        """The Q-Former's states of queries and texts side by side."""
        if mask is None:
            mask = torch.ones(queries.shape[:2], dtype=torch.int64, device=queries.device)
        return self.inner.qformer(
            query_embeds=queries, query_length=length, attention_mask=mask, encoder_hidden_states=image, return_dict=True,
        ).last_hidden_state  # fmt: skip

    def joint(self, image: Tensor, ids: Tensor, mask: Tensor, causal: bool) -> Tensor:
        """States of the queries and of texts that see them; causal: tokens see queries and earlier tokens, queries no text."""
        queries = self.inner.query_tokens.expand(len(ids), -1, -1)
        q, t = queries.shape[1], ids.shape[1]
        both = torch.cat([torch.ones(len(ids), q, dtype=mask.dtype, device=mask.device), mask], 1)
        if causal:
            sees = torch.ones(q + t, q + t, dtype=mask.dtype, device=mask.device)
            sees[:q, q:] = 0
            sees[q:, q:] = sees[q:, q:].tril()
            both = ((1 - both[:, None, None] * sees) * torch.finfo(image.dtype).min).to(image.dtype)  # added to scores, as it is
        return self.former(self.inner.embeddings(input_ids=ids, query_embeds=queries), both, image, q)

    def forward(self, batch: Batch) -> Output:
        with torch.no_grad():
            self.temperature.clamp_(0.001, 0.5)
            states = self.inner.vision_model(pixel_values=batch.images, return_dict=True).last_hidden_state
        ids, mask, n = batch.tokens["input_ids"], batch.tokens["attention_mask"], len(batch)
        queries = functional.normalize(
            self.inner.vision_projection(self.former(self.inner.query_tokens.expand(n, -1, -1), None, states, self.inner.query_tokens.shape[1])), dim=-1
        )
        alone = self.former(self.inner.embeddings(input_ids=ids), mask, None, 0)
        text = functional.normalize(self.inner.text_projection(alone[:, 0]), dim=-1)
        # A query is compared with every text; the best counts. The keys are constants, as in the other losses.
        sim_i2t = torch.einsum("iqd,td->itq", queries, text.detach()).amax(2) / self.temperature
        sim_t2i = torch.einsum("td,iqd->tiq", text, queries.detach()).amax(2) / self.temperature
        i2t, t2i = (
            without_ambiguous(losses.mine(sim, candidates, probs, batch.same_image))
            for sim, candidates, probs in ((sim_i2t, batch.i2t, batch.prob_i2t), (sim_t2i, batch.t2i, batch.prob_t2i))
        )
        hard = [losses.hard_targets(batch.same_image, picks) for picks in (i2t, t2i)]
        parts = {"itc": losses.itc(sim_i2t, sim_t2i, *hard, losses.Smoothed(self.alpha))}
        pairs = losses.plan_itm(i2t, t2i)
        q = queries.shape[1]
        matched = self.joint(states[pairs.images], ids[pairs.texts], mask[pairs.texts], causal=False)[:, :q]
        parts["itm"] = losses.itm(self.inner.itm_head(matched).mean(1), pairs)
        told = torch.cat([torch.full_like(ids[:, :1], self.bos), ids[:, 1:]], 1)
        logits = self.lm_head(self.joint(states, told, mask, causal=True)[:, q:-1])
        parts["itg"] = losses.mlm(logits, told.masked_fill(mask == 0, losses.IGNORE_LABEL)[:, 1:])
        total = torch.stack(list(parts.values())).sum()
        best = torch.einsum("iqd,id->iq", queries, text).argmax(1)
        image = queries[torch.arange(n, device=best.device), best]
        return Output(total, image.detach(), text.detach(), {f"loss_{k}": float(v.detach()) for k, v in parts.items()})


def without_ambiguous(picks: Picks) -> Picks:
    """Leave ambiguous anchors without a second candidate, so that they give no pair: G.7 re-samples nothing."""
    return picks._replace(second=picks.second.masked_fill(picks.classes == AMBIGUOUS, -1))


def tokenize(tokenizer: BertTokenizerFast, texts: list[str]) -> dict[str, Any]:
    """Make tokens of captions. A closure would not reach loader workers by spawn or forkserver."""
    return dict(tokenizer([pre_caption(t) for t in texts], padding=True, truncation=True, max_length=32, return_tensors="pt", return_token_type_ids=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Salesforce/blip2-itm-vit-g", help="weights of Hugging Face to start from")
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    inner = Blip2ForImageTextRetrieval.from_pretrained(args.model)
    tokenizer = BertTokenizerFast.from_pretrained(args.model)

    batches = ScoredBatches(Config.from_env(), transform=Recipe.of("mafa").images(inner.config.vision_config.image_size), tokenize=partial(tokenize, tokenizer))
    bos = tokenizer.convert_tokens_to_ids("[DEC]")
    model = QFormer(inner, bos=tokenizer.cls_token_id if bos == tokenizer.unk_token_id else bos)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr, weight_decay=0.05)
    Trainer(model, optimizer, batches, args.checkpoints, device=args.device, precision="bfloat16" if args.device == "cuda" else "float32", clip=1.0, workers=2).run()
    if batches.rank == 0:
        inner.save_pretrained(f"{args.checkpoints}/weights")


if __name__ == "__main__":
    main()
