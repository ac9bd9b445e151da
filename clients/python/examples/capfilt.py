"""Captions and scores of BLIP for a crawl (CapFilt, Li et al. 2022, section 3.3): what MAFA and GRIT-VLP call 4M-Clean and 14M-Clean.

    python examples/capfilt.py /data/crawl/00000.tar /data/clean/00000.tar
    FILTER='clean: !has(meta.match) || meta.match > 0.5' pairstream up         # or with `pairstream batches`; then produce /data/clean

That rule keeps pairs without a score: COCO and Visual Genome, which both papers take as they are. CC3M and SBU are refined, and CC12M for 14M-Clean.
Each image of a tar gets BLIP's caption beside its own. Both become pairs of the new tar, with BLIP's probability that the caption holds, and where
the caption is from: the columns match and made (web or blip). So the filter is a rule of pairstream, and may change without a second run. Give
`refine` another `score` for another judge.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from PIL import Image
from transformers import BlipForConditionalGeneration, BlipForImageTextRetrieval, BlipProcessor

from pairstream.errors import ImageError
from pairstream.picture import decode

Write = Callable[[list[Image.Image]], list[str]]  # captions of images
Score = Callable[[list[Image.Image], list[str]], list[float]]  # probabilities that captions hold, one for each image
Captioned = tuple[str, str, bytes, str]  # the key, the ending, the bytes and the caption of an image
KINDS = (".jpg", ".jpeg", ".png", ".webp")


def pairs(tar: tarfile.TarFile) -> Iterator[Captioned]:
    """The images of a tar with their captions. Members of one key stand beside each other."""
    held: dict[str, bytes] = {}
    key = ""
    for member in [*tar, None]:
        at, dot, end = member.name.rpartition(".") if member else ("", "", "")
        if at != key or member is None:
            found = [kind for kind in KINDS if kind in held]
            if found and ".txt" in held:
                yield key, found[0], held[found[0]], held[".txt"].decode()
            key, held = at, {}
        if member is not None and member.isfile() and (body := tar.extractfile(member)):
            held[dot + end.lower()] = body.read()


def refine(source: Path, out: Path, write: Write, score: Score, batch: int = 32) -> int:
    """Write a tar with both captions of each image, and return the number of pairs."""
    count = 0
    part = out.with_suffix(".partial")
    with tarfile.open(source) as tar, tarfile.open(part, "w") as clean:

        def add(name: str, body: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            clean.addfile(member, io.BytesIO(body))

        def flush(held: list[tuple[Captioned, Image.Image]]) -> int:
            images = [image for _, image in held]
            made = write(images)
            chances = score(images * 2, [text for (*_, text), _ in held] + made)
            for i, ((key, kind, body, text), _) in enumerate(held):
                for suffix, caption, chance in (("web", text, chances[i]), ("blip", made[i], chances[len(held) + i])):
                    add(f"{key}_{suffix}{kind}", body)
                    add(f"{key}_{suffix}.txt", caption.encode())
                    add(f"{key}_{suffix}.json", json.dumps({"match": round(chance, 6), "made": suffix}).encode())
            return 2 * len(held)

        held: list[tuple[Captioned, Image.Image]] = []
        for pair in pairs(tar):
            try:
                held.append((pair, decode(pair[2])))
            except ImageError as err:
                print(f"{pair[0]}{pair[1]} is left out: {err}", file=sys.stderr)
                continue
            if len(held) == batch:
                count, held = count + flush(held), []
        if held:
            count += flush(held)
    part.rename(out)
    return count


def blip(captioner: str, matcher: str, device: str, seed: int = 0) -> tuple[Write, Score]:
    """BLIP's captioner, which samples from the likeliest words (nucleus 0.9, as the authors do), and its matching head."""
    tells = BlipForConditionalGeneration.from_pretrained(captioner).to(device).eval()
    judges = BlipForImageTextRetrieval.from_pretrained(matcher).to(device).eval()
    eyes, words = BlipProcessor.from_pretrained(captioner), BlipProcessor.from_pretrained(matcher)
    torch.manual_seed(seed)

    @torch.no_grad()
    def write(images: list[Image.Image]) -> list[str]:
        ids = tells.generate(**eyes(images=images, return_tensors="pt").to(device), do_sample=True, top_p=0.9, min_length=5, max_length=20)
        return [text.strip() for text in eyes.batch_decode(ids, skip_special_tokens=True)]

    @torch.no_grad()
    def score(images: list[Image.Image], texts: list[str]) -> list[float]:
        inputs = words(images=images, text=texts, padding=True, truncation=True, max_length=35, return_tensors="pt").to(device)
        inputs.pop("token_type_ids", None)
        inputs["input_ids"][:, 0] = words.tokenizer.convert_tokens_to_ids("[ENC]")
        return judges(**inputs, use_itm_head=True)[0].softmax(1)[:, 1].tolist()

    return write, score


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--captioner", default="Salesforce/blip-image-captioning-base")
    parser.add_argument("--matcher", default="Salesforce/blip-itm-base-coco")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args(argv)
    print(f"{refine(args.source, args.out, *blip(args.captioner, args.matcher, args.device), args.batch)} pairs in {args.out}")


if __name__ == "__main__":
    main()
