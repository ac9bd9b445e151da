"""Fits the head that maps images into the space of sentences: head.safetensors, beside this file.

    python fit.py FOLDER_OF_TARS [OUT]

It runs the frozen towers on photographs with captions, and solves one ridge regression: from what the image tower says of a
photograph to the mean of what the text tower says of its captions. It prints how well photographs are found that a head of
the other four fifths has not seen. The same photographs give the same head.
"""

import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from export import CHANNELS, towers
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "clients/python/src"))
from pairstream.picture import decode  # as the encoder decodes, to which the head belongs

RIDGE = 0.3  # of the mean variance of a channel


def photographs(folder: Path) -> Iterator[tuple[Tensor, list[str]]]:
    """Yields 224 x 224 pixels, normalised as for CLIP, and captions."""
    mean, std = torch.tensor([0.48145466, 0.4578275, 0.40821073]), torch.tensor([0.26862954, 0.26130258, 0.27577711])
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            files = {m.name: tar.extractfile(m) for m in tar if m.isfile()}
            for name in sorted(n for n in files if n.endswith(".jpg")):
                meta = files.get(name[:-3] + "json")
                if meta is None or files[name] is None:
                    continue
                im = decode(files[name].read())
                short = min(im.size)
                im = im.resize((224 * im.width // short, 224 * im.height // short), Image.Resampling.BICUBIC)
                left, top = round((im.width - 224) / 2), round((im.height - 224) / 2)
                pixels = torch.from_numpy(np.asarray(im.crop((left, top, left + 224, top + 224)))) / 255
                yield ((pixels - mean) / std).permute(2, 0, 1), json.loads(meta.read())["captions"]


def tokens(text: str, ids: dict[str, int]) -> list[int]:
    """Cuts plain text as BERT's tokenizer does: words and marks, the longest pieces first."""
    out = [ids["[CLS]"]]
    for word in "".join(c if c.isalnum() else f" {c} " for c in text.lower()).split():
        pieces: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in ids:
                    pieces.append(ids[piece])
                    start = end
                    break
            else:
                pieces, start = [ids["[UNK]"]], len(word)
        out += pieces
    return [*out[:62], ids["[SEP]"]]


def solve(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    mx, my = x.mean(0), y.mean(0)
    cov = (x - mx).T @ (x - mx)
    cov += RIDGE * cov.diagonal().mean() * torch.eye(CHANNELS, dtype=x.dtype)
    w = torch.linalg.solve(cov, (x - mx).T @ (y - my)).T
    return w, my - w @ mx


def main(folder: Path, out: Path) -> None:
    torch.set_num_threads(1)
    made, vocab = towers(None)
    ids = {token: i for i, token in enumerate(vocab)}
    xs, ys, each = [], [], []
    with torch.no_grad():
        for image, captions in photographs(folder):
            rows = [tokens(c, ids) for c in captions]
            width = max(map(len, rows))
            text = made.encode_text(torch.tensor([r + [0] * (width - len(r)) for r in rows]))
            xs.append(made.features(image[None]).mean([2, 3])[0].double())
            each.append(F.normalize(text, dim=1).double())
            ys.append(each[-1].mean(0))
        x, y = torch.stack(xs), torch.stack(ys)
        found, chance = [0, 0], 0.0
        for fold in range(5):
            held = [i for i in range(len(x)) if i % 5 == fold]
            rest = [i for i in range(len(x)) if i % 5 != fold]
            w, b = solve(x[rest], y[rest])
            sim = F.normalize(x[held] @ w.T + b, dim=1) @ torch.cat([each[i] for i in held]).T
            own = torch.tensor([k for k, i in enumerate(held) for _ in range(len(each[i]))])
            order = sim.argsort(0, descending=True)
            for k, n in enumerate((1, 10)):
                found[k] += int((order[:n] == own).any(0).sum())
            chance += len(own) / len(held)
        texts = sum(map(len, each))
        print(f"{len(x)} photographs, {texts} captions; unseen, by caption: R@1 {found[0] / texts:.3f} R@10 {found[1] / texts:.3f}, "
              f"chance {chance / texts:.3f}")
        w, b = solve(x, y)
        save_file({"weight": w.half().contiguous(), "bias": b.half().contiguous()}, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).with_name("head.safetensors"))
