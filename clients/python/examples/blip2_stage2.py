"""BLIP-2's stage 2 and captioning on a plan: the Q-Former of stage 1 learns to tell captions through a frozen OPT (Li et al. 2023; MAFA G.7, G.8).

    python examples/blip2_stage2.py plan/ --model Salesforce/blip2-opt-2.7b --stage1 data/blip2/weights --out data/stage2       # 512 pairs a step
    python examples/blip2_stage2.py plan/ --model data/stage2 --prompt 'a photo of' --train-images --out data/captioner         # captioning, 128
    python examples/blip2_stage2.py plan/ --model data/captioner --prompt 'a photo of' --tell cat.jpg

Mini-batches are those of `pairstream batches` (STRATEGY=random: the paper samples by GRIT in stage 1 alone), as many a step as make the pairs of
--step-pairs. OPT is never trained, and the image
encoder in captioning alone. The rate rises to its top in 2,000 steps, and falls by a cosine; AdamW has weight decay 0.05 and betas 0.9, 0.98.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer, Blip2ForConditionalGeneration

from pairstream.picture import decode
from pairstream.torch import Batch, PlannedTars, resize
from pairstream.torch.losses import IGNORE_LABEL


class Teller(nn.Module):
    """The model of transformers, and what is trained of it."""

    def __init__(self, inner: Blip2ForConditionalGeneration, prompt: list[int], *, images: bool = False) -> None:
        super().__init__()
        self.inner, self.prompt = inner, prompt
        inner.language_model.requires_grad_(False)
        inner.vision_model.requires_grad_(images)

    def train(self, mode: bool = True) -> Teller:
        super().train(mode)
        self.inner.language_model.eval()  # frozen: no dropout either
        return self

    def prefix(self, pixels: Tensor) -> Tensor:
        """What the language model sees of images: a token for each query."""
        states = self.inner.vision_model(pixel_values=pixels, return_dict=True).last_hidden_state
        queries = self.inner.query_tokens.expand(len(pixels), -1, -1)
        seen = self.inner.qformer(query_embeds=queries, encoder_hidden_states=states, return_dict=True).last_hidden_state
        return self.inner.language_projection(seen)

    def loss(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """The mean loss of the captions' tokens behind the prompt, with which ids begin. Padding stands behind."""
        prefix, model = self.prefix(pixels), self.inner.language_model
        words = model.get_input_embeddings()(ids)
        sees = torch.cat([torch.ones(prefix.shape[:2], dtype=mask.dtype, device=mask.device), mask], 1)
        logits = model(inputs_embeds=torch.cat([prefix, words], 1), attention_mask=sees, return_dict=True).logits
        labels = ids.masked_fill(mask == 0, IGNORE_LABEL)
        labels[:, : len(self.prompt)] = IGNORE_LABEL
        return functional.cross_entropy(logits[:, prefix.shape[1] - 1 : -1].transpose(1, 2), labels, ignore_index=IGNORE_LABEL)

    @torch.no_grad()
    def tell(self, pixels: Tensor, beams: int = 5, most: int = 30) -> Tensor:
        """The ids of captions by beam search, without the prompt."""
        prefix, model = self.prefix(pixels), self.inner.language_model
        start = torch.tensor([self.prompt] * len(pixels), device=pixels.device)
        embeds = torch.cat([prefix, model.get_input_embeddings()(start)], 1)
        sees = torch.ones(embeds.shape[:2], dtype=torch.int64, device=pixels.device)
        return model.generate(inputs_embeds=embeds, attention_mask=sees, num_beams=beams, max_new_tokens=most)


def rate(step: int, total: int, *, top: float = 1e-4, least: float = 1e-5, first: float = 1e-6, warmup: int = 2000) -> float:
    """The learning rate of a step: linear from first to top, then a cosine to least."""
    if step < warmup:
        return first + (top - first) * step / warmup
    return least + (top - least) * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, total - warmup)))) / 2


def train(model: Teller, batches: Iterable[Batch], total: int, *, accumulate: int = 1, top: float = 1e-4, warmup: int = 2000, device: str = "cpu") -> list[float]:
    """Train for a pass over the batches, and return the loss of each step: the mean of its mini-batches."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=top, weight_decay=0.05, betas=(0.9, 0.98))
    losses: list[float] = []
    held: list[float] = []
    model.train()
    for batch in batches:
        batch = batch.to(device)
        loss = model.loss(batch.images, batch.tokens["input_ids"], batch.tokens["attention_mask"])
        (loss / accumulate).backward()
        held.append(float(loss.detach()))
        if len(held) == accumulate:
            for group in optimizer.param_groups:
                group["lr"] = rate(len(losses), total, top=top, least=top / 10, first=top / 100, warmup=warmup)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(sum(held) / accumulate)
            held = []
    return losses


def of_step(sizes: list[int], pairs: int = 0, *, images: bool = False) -> int:
    """The mini-batches of a step, by their sizes: as many as make the pairs of G.7, 512 in stage 2 and 128 for captioning."""
    return min(len(sizes), max(1, round((pairs or (128 if images else 512)) / max(sizes))))


def tokenize(tokenizer: Any, prompt: list[int], texts: list[str]) -> dict[str, Tensor]:
    """Make ids of captions behind the prompt, with the end of a text behind them."""
    rows = [[*prompt, *tokenizer(" " + text.strip(), add_special_tokens=False)["input_ids"][:32], tokenizer.eos_token_id] for text in texts]
    width = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--model", default="Salesforce/blip2-opt-2.7b")
    parser.add_argument("--stage1", type=Path, help="folder of weights that blip2.py has saved; its Q-Former is taken")
    parser.add_argument("--prompt", default="", help="words before every caption, which have no loss")
    parser.add_argument("--train-images", action="store_true", help="train the image encoder as well")
    parser.add_argument("--step-pairs", type=int, default=0, help="pairs of a step, in as many mini-batches; 0: 512, or 128 with --train-images")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--warmup", type=int, default=2000)
    parser.add_argument("--tell", type=Path, help="tell what an image shows, and train nothing")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args(argv)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    inner = Blip2ForConditionalGeneration.from_pretrained(args.model)
    if args.stage1:
        state = {k: v for k, v in load_file(args.stage1 / "model.safetensors").items() if k.startswith(("qformer.", "query_tokens"))}
        unknown = [k for k in inner.load_state_dict(state, strict=False).unexpected_keys if "embeddings" not in k and ".intermediate." not in k and ".output." not in k]
        assert state and not unknown, f"{args.stage1} has other tensors than the Q-Former: {unknown[:3]}"
    prompt = [tokenizer.bos_token_id, *(tokenizer(args.prompt, add_special_tokens=False)["input_ids"] if args.prompt else [])]
    model, size = Teller(inner, prompt, images=args.train_images).to(args.device), inner.config.vision_config.image_size
    if args.tell:
        pixels = resize(size)(decode(args.tell.read_bytes()), None)[None].to(args.device)
        print(tokenizer.batch_decode(model.eval().tell(pixels), skip_special_tokens=True)[0].strip())
        return
    tars = PlannedTars(args.plan, transform=resize(size), tokenize=partial(tokenize, tokenizer, prompt))
    sizes = [where.kept for epoch in range(tars.plan.epochs) for where in tars.plan.find(epoch) if where.kept]
    accumulate = of_step(sizes, args.step_pairs, images=args.train_images)
    total = len(sizes) // accumulate
    losses = train(model, tars, total, accumulate=accumulate, top=args.lr, warmup=args.warmup, device=args.device)
    print(f"{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    if args.out:
        inner.save_pretrained(args.out)
        tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
