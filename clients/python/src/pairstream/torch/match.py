"""Matching heads for the discriminator: TorchScript with match(pixels, ids, mask)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import PairstreamError

_torch: Any = torch  # for what annotations of PyTorch leave out, in one version or another

class BlipMatch(nn.Module):
    """The ITM head of Hugging Face's BlipForImageTextRetrieval: the probability that text i is true of image i."""

    def __init__(self, retrieval: Any, enc: int) -> None:
        super().__init__()
        self.retrieval, self.enc = retrieval, enc

    def forward(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        # BLIP's first token says that a text is encoded with an image.
        ids = torch.cat([torch.full_like(ids[:, :1], self.enc), ids[:, 1:]], 1)
        image = self.retrieval.vision_model(pixel_values=pixels, return_dict=True).last_hidden_state
        states = self.retrieval.text_encoder(input_ids=ids, attention_mask=mask, encoder_hidden_states=image, return_dict=True)
        probabilities: Tensor = self.retrieval.itm_head(states.last_hidden_state[:, 0]).softmax(1)[:, 1]
        return probabilities


class _Match(nn.Module):
    """A module whose method match is another's forward."""

    def __init__(self, matcher: nn.Module) -> None:
        super().__init__()
        self.matcher = matcher

    def match(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        probabilities: Tensor = self.matcher(pixels, ids, mask)
        return probabilities


def export(matcher: nn.Module, path: str, vocabulary: Sequence[str], *, image_size: int, text_tokens: int, caption_words: int = 0) -> None:
    """Write a module as COND_CHECKPOINT takes it, with the WordPiece vocabulary and the sizes inside.

    Its forward takes pixels [n, 3, image_size, image_size], normalised as for CLIP, ids [n, length] and mask [n, length], and
    returns n probabilities, each of its own row alone. It is traced for any n and any length up to text_tokens.
    caption_words above 0: captions go through ALBEF's pre_caption with so many words.
    """
    ids = torch.ones(2, text_tokens, dtype=torch.int64)
    example = (torch.zeros(2, 3, image_size, image_size), ids, torch.ones_like(ids))
    script = _torch.jit.trace_module(_Match(matcher.eval()), {"match": example}, check_trace=False)
    config = {"image_size": image_size, "text_tokens": text_tokens, "caption_words": caption_words}
    _torch.jit.save(script, path, _extra_files={"pairstream.config": json.dumps(config), "pairstream.vocab": "\n".join(vocabulary)})


def export_blip(model: str, path: str, *, text_tokens: int = 35) -> None:
    """Write the ITM head of a BLIP model of Hugging Face, by its name or folder."""
    try:
        from transformers import BertTokenizer, BlipForImageTextRetrieval
    except ImportError as err:
        raise PairstreamError(f"transformers cannot be loaded: {err}; pip install transformers") from err
    tokenizer = BertTokenizer.from_pretrained(model)
    places: dict[str, int] = tokenizer.get_vocab()
    vocabulary = sorted(places, key=lambda token: places[token])
    if "[ENC]" not in places:
        raise PairstreamError(f"the vocabulary of {model} has {len(vocabulary)} tokens and no [ENC], want BLIP's")
    retrieval: Any = BlipForImageTextRetrieval.from_pretrained(model)
    matcher = BlipMatch(retrieval, places["[ENC]"])
    export(matcher, path, vocabulary, image_size=retrieval.config.vision_config.image_size, text_tokens=text_tokens)
