#!/usr/bin/env python3
"""Turns a checkpoint of ALBEF, GRIT-VLP or MAFA (.pth) into weights for pairstream: convert_checkpoint.py ALBEF.pth albef.safetensors --vocab vocab.txt (--help for more)."""

import argparse
import sys

import torch
from safetensors.torch import save_file

POSITIONS = "visual_encoder.pos_embed"


def wanted(name: str) -> bool:
    """Whether pairstream's model has the tensor: momentum copies, queues, buffers and aliases stay behind."""
    top = name.split(".")[0]
    return not (top.endswith("_m") or "queue" in top or name.endswith("position_ids") or ".cls.predictions.decoder." in name)


def resized(positions: torch.Tensor, side: int) -> torch.Tensor:
    """Position embeddings for side x side patches, as ALBEF resizes them to fine-tune on larger images."""
    first, patches = positions[:, :1], positions[:, 1:]
    old = int(patches.shape[1] ** 0.5)
    if old == side:
        return positions
    grid = patches.reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=(side, side), mode="bicubic", align_corners=False)
    return torch.cat([first, grid.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)


def converted(state: dict, image_size: int) -> dict:
    tensors = {}
    for name, tensor in state.items():
        name = name.removeprefix("module.")
        if wanted(name):
            tensors[name] = tensor.detach().float()
    if image_size:
        patch = tensors["visual_encoder.patch_embed.proj.weight"].shape[-1]
        if image_size % patch:
            sys.exit(f"--image-size is {image_size}, want a multiple of the patch size, {patch}")
        tensors[POSITIONS] = resized(tensors[POSITIONS], image_size // patch)
    # A copy each: the format refuses tensors that share memory.
    return {name: tensor.clone().contiguous() for name, tensor in tensors.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help=".pth file of the authors")
    parser.add_argument("out", help="safetensors file to write")
    parser.add_argument("--vocab", required=True, help="WordPiece vocabulary, a token a line: bert-base-uncased's for the authors' models")
    parser.add_argument("--image-size", type=int, default=0, help="resize the position embeddings for images of so many pixels, e.g. 384; 0: as they are")
    parser.add_argument("--trust", action="store_true", help="load whatever the file holds: this runs code of those who made it")
    args = parser.parse_args()

    loaded = torch.load(args.checkpoint, map_location="cpu", weights_only=not args.trust)
    state = loaded.get("model", loaded)
    with open(args.vocab, encoding="utf-8") as file:
        vocab = file.read().splitlines()
    tensors = converted(state, args.image_size)
    words = tensors.get("text_encoder.bert.embeddings.word_embeddings.weight", tensors.get("text_encoder.embeddings.word_embeddings.weight"))
    if words is None or POSITIONS not in tensors:
        sys.exit("no model of the ALBEF architecture in this file")
    if len(words) != len(vocab):
        sys.exit(f"the vocabulary has {len(vocab)} tokens, the model {len(words)}")
    save_file(tensors, args.out, metadata={"pairstream.vocab": "\n".join(vocab)})
    print(f"{len(tensors)} tensors of {len(state)} written to {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
