"""Hugging Face's BLIP on pairstream's mini-batches: ITC, ITM with hard negatives, and LM, with MAFA's connections.

    python examples/blip.py --model Salesforce/blip-itm-base-coco --checkpoints data/blip
    torchrun --standalone --nproc_per_node 8 --max_restarts 3 examples/blip.py --model Salesforce/blip-itm-base-coco --checkpoints data/blip --device cuda

What it takes from where: the image encoder, the text encoder with cross-attention and the projections of BLIP (Li et al.
2022, BlipForImageTextRetrieval); a text decoder for LM (BlipForConditionalGeneration's, which shares the image encoder);
ITC with smoothed targets and connections, ITM with connections and re-sampling, and connections as extra rows of LM from
MAFA (eqs. 4 to 6, and table 16, which trains BLIP); grouped mini-batches from GRIT-VLP. BLIP's momentum encoder and queue
are left out, as MAFA leaves them out: the mini-batch has the hard negatives.

`python -m pairstream export-match FOLDER con-d.pt` makes a Con-D of the weights that it saves (MAFA table 16).
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertTokenizerFast, BlipConfig, BlipForConditionalGeneration, BlipForImageTextRetrieval

from pairstream import Config
from pairstream.torch import Batch, Output, Recipe, ScoredBatches, Trainer, losses, pre_caption


class BLIP(nn.Module):
    """BLIP's parts, and one step's losses as its forward."""

    def __init__(self, retrieval: BlipForImageTextRetrieval, decoder: nn.Module | None, *, bos: int, enc: int, pad: int, recipe: Recipe | None = None) -> None:
        super().__init__()
        self.retrieval, self.decoder = retrieval, decoder
        self.bos, self.enc, self.pad, self.recipe = bos, enc, pad, recipe or Recipe()
        self.temperature = nn.Parameter(torch.tensor(0.07))

    @classmethod
    def at_random(cls, vocabulary: int = 100, size: int = 32) -> BLIP:
        """A small model for tests."""
        text = {
            "vocab_size": vocabulary, "hidden_size": 32, "encoder_hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "projection_dim": 16, "max_position_embeddings": 32, "is_decoder": True,
        }  # fmt: skip
        vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": size, "patch_size": 8}
        config = BlipConfig(text_config=text, vision_config=vision, projection_dim=16, image_text_hidden_size=16)
        return cls(BlipForImageTextRetrieval(config), BlipForConditionalGeneration(config).text_decoder, bos=2, enc=2, pad=0)

    def text_states(self, ids: Tensor, mask: Tensor, image: Tensor | None = None) -> Tensor:
        """Hidden states of texts, alone or with their images."""
        out = self.retrieval.text_encoder(input_ids=ids, attention_mask=mask, encoder_hidden_states=image, return_dict=True)
        return out.last_hidden_state

    def match_logits(self, pixels_states: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """ITM's logits [pairs, 2]; class 1 is a match. The first token says that the text is encoded with an image."""
        ids = torch.cat([torch.full_like(ids[:, :1], self.enc), ids[:, 1:]], 1)
        return self.retrieval.itm_head(self.text_states(ids, mask, pixels_states)[:, 0])

    def lm(self, image: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """The loss of telling the texts from the images, over their tokens."""
        assert self.decoder is not None
        ids = torch.cat([torch.full_like(ids[:, :1], self.bos), ids[:, 1:]], 1)
        logits = self.decoder(input_ids=ids, attention_mask=mask, encoder_hidden_states=image, return_dict=True).logits
        labels = ids.masked_fill(mask == 0, losses.IGNORE_LABEL)[:, 1:]
        return losses.mlm(logits[:, :-1], labels)

    def forward(self, batch: Batch) -> Output:
        with torch.no_grad():
            self.temperature.clamp_(0.001, 0.5)
        ids, mask = batch.tokens["input_ids"], batch.tokens["attention_mask"]
        states = self.retrieval.vision_model(pixel_values=batch.images, return_dict=True).last_hidden_state
        image = functional.normalize(self.retrieval.vision_proj(states[:, 0]), dim=-1)
        text = functional.normalize(self.retrieval.text_proj(self.text_states(ids, mask)[:, 0]), dim=-1)
        sim_i2t, sim_t2i = losses.similarities(image, text, self.temperature), losses.similarities(text, image, self.temperature)
        r = self.recipe
        i2t = losses.mine(sim_i2t, batch.i2t, batch.prob_i2t, batch.same_image, **r.bounds(batch))
        t2i = losses.mine(sim_t2i, batch.t2i, batch.prob_t2i, batch.same_image, **r.bounds(batch))
        hard = [losses.hard_targets(batch.same_image, picks if r.ecm_itc else None) for picks in (i2t, t2i)]
        parts = {"itc": losses.itc(sim_i2t, sim_t2i, *hard, r.softening(batch.epoch))}
        pairs = losses.plan_itm(i2t, t2i, connections=r.ecm_itm)
        parts["itm"] = losses.itm(self.match_logits(states[pairs.images], ids[pairs.texts], mask[pairs.texts]), pairs)
        if self.decoder is not None:
            rows = losses.plan_mlm(i2t, t2i, connections=r.ecm_mlm)
            parts["lm"] = self.lm(states[rows.images], ids[rows.texts], mask[rows.texts])
        total = torch.stack(list(parts.values())).sum()
        return Output(total, image.detach(), text.detach(), {f"loss_{k}": float(v.detach()) for k, v in parts.items()})


def tokenize(tokenizer: BertTokenizerFast, texts: list[str]) -> dict[str, Any]:
    """Make tokens of captions. A closure would not reach loader workers by spawn or forkserver."""
    return dict(tokenizer([pre_caption(t) for t in texts], padding=True, truncation=True, max_length=35, return_tensors="pt", return_token_type_ids=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="Salesforce/blip-itm-base-coco", help="weights of Hugging Face to start from")
    parser.add_argument("--decoder", default="Salesforce/blip-image-captioning-base", help="weights of the text decoder; empty: no LM")
    parser.add_argument("--checkpoints", required=True, help="folder of checkpoints to train in")
    parser.add_argument("--recipe", default=None, help="mafa or grit-vlp, which need no momentum model; by default RECIPE. A variable such as ITC_ALPHA overrides a value")
    parser.add_argument("--lr", type=float, default=3e-5, help="highest rate; it rises and falls as the recipe's does")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    retrieval = BlipForImageTextRetrieval.from_pretrained(args.model)
    tokenizer = BertTokenizerFast.from_pretrained(args.model)
    decoder = BlipForConditionalGeneration.from_pretrained(args.decoder).text_decoder if args.decoder else None
    bos, enc = (tokenizer.convert_tokens_to_ids(t) for t in ("[DEC]", "[ENC]"))
    recipe = Recipe.of(args.recipe)
    model = BLIP(retrieval, decoder, bos=bos, enc=enc, pad=tokenizer.pad_token_id, recipe=recipe)
    size = retrieval.config.vision_config.image_size

    batches = ScoredBatches(Config.from_env(), transform=recipe.images(size), tokenize=partial(tokenize, tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    Trainer(
        model, optimizer, batches, args.checkpoints, device=args.device, precision="bfloat16" if args.device == "cuda" else "float32", clip=1.0, workers=2,
        accumulate=recipe.accumulate(batches.world), schedule=recipe.factor,
    ).run()  # fmt: skip
    if batches.rank == 0:
        retrieval.save_pretrained(f"{args.checkpoints}/weights")
        tokenizer.save_pretrained(f"{args.checkpoints}/weights")


if __name__ == "__main__":
    main()
