"""Hugging Face's CLIP on pairstream's mini-batches: hard negatives by grouping, smoothed targets, no fusion encoder.

    python examples/clip.py --model openai/clip-vit-base-patch32 --checkpoints data/clip
    torchrun --standalone --nproc_per_node 8 --max_restarts 3 examples/clip.py --model openai/clip-vit-base-patch32 --checkpoints data/clip --device cuda

What it takes from where: the two encoders and the learned temperature of CLIP (Radford et al. 2021); mini-batches of
similar pairs from GRIT-VLP, which make CLIP's in-batch negatives hard; smoothed targets and connections as positives of
the contrastive loss from MAFA (eqs. 5 and 4). Unlike ALBEF's code, gradients reach both sides of the similarities, as in
CLIP. Export with transformers or open_clip as ever: the model inside is theirs.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import CLIPConfig, CLIPModel, CLIPTokenizerFast

from pairstream import Config
from pairstream.torch import Batch, Output, Recipe, ScoredBatches, Trainer, losses


class CLIP(nn.Module):
    """CLIP's two encoders, and one step's loss as its forward."""

    def __init__(self, inner: CLIPModel, recipe: Recipe | None = None) -> None:
        super().__init__()
        self.inner, self.recipe = inner, recipe or Recipe()

    @classmethod
    def at_random(cls, vocabulary: int = 100, size: int = 32) -> CLIP:
        """A small model for tests."""
        text = {"vocab_size": vocabulary, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 32}
        vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": size, "patch_size": 8}
        return cls(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)))

    def forward(self, batch: Batch) -> Output:
        tokens = batch.tokens
        vision = self.inner.vision_model(pixel_values=batch.images)
        language = self.inner.text_model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        image = functional.normalize(self.inner.visual_projection(vision[1]), dim=-1)
        text = functional.normalize(self.inner.text_projection(language[1]), dim=-1)
        scale = self.inner.logit_scale.exp().clamp(max=100)  # CLIP's bound
        sim_i2t = scale * image @ text.t()
        sim_t2i = sim_i2t.t()
        r = self.recipe
        i2t = losses.mine(sim_i2t, batch.i2t, batch.prob_i2t, batch.same_image, **r.bounds(batch))
        t2i = losses.mine(sim_t2i, batch.t2i, batch.prob_t2i, batch.same_image, **r.bounds(batch))
        hard = [losses.hard_targets(batch.same_image, picks if r.ecm_itc else None) for picks in (i2t, t2i)]
        loss = losses.itc(sim_i2t, sim_t2i, *hard, r.softening(batch.epoch))
        return Output(loss, image.detach(), text.detach(), {"loss_itc": float(loss.detach()), "scale": float(scale.detach())})


def tokenize(tokenizer: CLIPTokenizerFast, length: int, texts: list[str]) -> dict[str, Any]:
    """Make tokens of captions. A closure would not reach loader workers by spawn or forkserver."""
    return dict(tokenizer(texts, padding=True, truncation=True, max_length=length, return_tensors="pt"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="openai/clip-vit-base-patch32", help="weights of Hugging Face to start from")
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--recipe", default=None, help="mafa or grit-vlp, which need no momentum model; by default RECIPE. A variable such as ITC_ALPHA overrides a value")
    parser.add_argument("--lr", type=float, default=1e-5, help="highest rate; it rises and falls as the recipe's does")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    recipe = Recipe.of(args.recipe)
    inner = CLIPModel.from_pretrained(args.model)
    tokenizer = CLIPTokenizerFast.from_pretrained(args.model)

    words = partial(tokenize, tokenizer, inner.config.text_config.max_position_embeddings)
    batches = ScoredBatches(Config.from_env(), transform=recipe.images(inner.config.vision_config.image_size), tokenize=words)
    model = CLIP(inner, recipe)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    Trainer(
        model, optimizer, batches, args.checkpoints, device=args.device, precision="bfloat16" if args.device == "cuda" else "float32", clip=1.0, workers=2,
        accumulate=recipe.accumulate(batches.world), schedule=recipe.factor,
    ).run()  # fmt: skip
    if batches.rank == 0:
        inner.save_pretrained(f"{args.checkpoints}/weights")


if __name__ == "__main__":
    main()
