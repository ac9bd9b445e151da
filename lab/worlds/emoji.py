#!/usr/bin/env python3
"""Make a world of emoji: things that several hands drew, with words that people gave, and exact truth.

The same thing by another hand is a false negative, known by its code points. Skin tones and kindred faces are
natural hard negatives. The number of hands sets the rate of false negatives.

    pip install pillow resvg-py
    python lab/worlds/emoji.py --out data/emoji                 # five hands, 18,000 pictures, some ten minutes
    bin/lab/lab experiments --world data/emoji

The pictures come from npm packages, whose licences card.md names. Nothing of them is part of pairstream.
The same packages, options and seed give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import random
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Hands: the package, its version and licence, the folder of its pictures, and who drew them.
HANDS = {
    "google": ("emoji-datasource-google", "16.0.0", "MIT; pictures OFL 1.1 (Noto)", "package/img/google/64/", "Google"),
    "twitter": ("emoji-datasource-twitter", "16.0.0", "MIT; pictures CC BY 4.0 (Twemoji)", "package/img/twitter/64/", "Twitter"),
    "fluent-3d": ("@lobehub/fluent-emoji-3d", "1.1.0", "MIT", "package/assets/", "Microsoft"),
    "fluent-flat": ("@lobehub/fluent-emoji-flat", "1.1.0", "MIT", "package/assets/", "Microsoft"),
    "openmoji": ("openmoji", "17.0.0", "CC BY-SA 4.0", "package/color/svg/", "OpenMoji"),
}
WORDS = ("emojibase-data", "17.0.0", "MIT; words of Unicode CLDR, Unicode License v3")
PER_TAR = 1000
FEWEST_HANDS = 2  # of a thing: one hand alone makes no false negative


def fetch(name: str, version: str, into: Path) -> Path:
    """Return the package's archive, downloaded by npm unless it is there."""
    path = into / f"{name.lstrip('@').replace('/', '-')}-{version}.tgz"
    if not path.exists():
        print(f"downloading {name} {version}", file=sys.stderr)
        subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=into, check=True, stdout=subprocess.DEVNULL)
    if not path.exists():
        raise SystemExit(f"npm pack {name}@{version} left no {path}")
    return path


def code(name: str) -> str:
    """Return the code points of a file's name, without the variation selector that packages write or leave out."""
    return "-".join(p for p in name.upper().split("-") if p not in ("FE0F", "FE0E"))


def things(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the label and the keywords of each thing, by code points. A skin tone is a thing of its own."""
    with tarfile.open(path) as package:
        file = package.extractfile("package/en/data.json")
        if file is None:
            raise SystemExit(f"{path} has no package/en/data.json")
        found = {}
        for e in json.load(file):
            if "group" not in e:  # a letter of flags, or a component
                continue
            tags = [str(t) for t in e.get("tags", [])]
            found[code(e["hexcode"])] = (str(e["label"]), tags)
            for skin in e.get("skins", []):
                found[code(skin["hexcode"])] = (str(skin["label"]), tags)
        return found


def pictures(path: Path, folder: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield code points, extension and bytes of each picture in a folder of a package."""
    with tarfile.open(path) as package:
        for member in package:
            stem, dot, extension = member.name.removeprefix(folder).rpartition(".")
            if member.name.startswith(folder) and "/" not in stem and dot and extension in ("png", "webp", "svg"):
                file = package.extractfile(member)
                if file is not None:
                    yield code(stem), extension, file.read()


def drawn(raw: bytes, extension: str, side: int) -> bytes:
    """Return a picture as a PNG of side x side pixels over white."""
    from PIL import Image

    if extension == "svg":
        import resvg_py

        raw = bytes(resvg_py.svg_to_bytes(svg_string=raw.decode(), width=side, height=side))
    with Image.open(io.BytesIO(raw)) as opened:
        image = opened.convert("RGBA").resize((side, side), Image.Resampling.LANCZOS)
    white = Image.new("RGBA", image.size, "white")
    white.alpha_composite(image)
    out = io.BytesIO()
    white.convert("RGB").save(out, "PNG")
    return out.getvalue()


def captions(label: str, tags: list[str], draws: random.Random) -> list[str]:
    """Return three captions: the label, some keywords, and both. One that says again what another says is left out."""
    label = label.replace(":", ",").lower()
    words = [t.lower() for t in tags if t.lower() not in label]
    some = draws.sample(words, min(3, len(words)))
    wanted = [label, " ".join([*some, label.split(",")[-1].strip()]), f"{label}, {' '.join(draws.sample(words, min(2, len(words))))}".rstrip(", ")]
    return list(dict.fromkeys(wanted))


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    """Write a file without time, user or mode of this machine."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def card(hands: list[str], count: int, of: int, seed: int) -> str:
    """Return what the folder holds, and whose it is."""
    rows = [f"| {h} | {HANDS[h][0]} {HANDS[h][1]} | {HANDS[h][4]} | {HANDS[h][2]} |" for h in hands]
    return "\n".join([
        f"# Emoji of {len(hands)} hands", "",
        f"{count} pictures of {of} things, seed {seed}. `same` in the JSON of a picture is its thing, by code points.", "",
        "| hand | package | drawn by | licence |", "|---|---|---|---|", *rows,
        f"| words | {WORDS[0]} {WORDS[1]} | Unicode | {WORDS[2]} |", "",
    ])


def order(key: str, seed: int) -> bytes:
    """Return what sorts pictures in an order that looks drawn, and follows from the seed."""
    return hashlib.sha256(f"{seed} {key}".encode()).digest()


def main() -> None:
    """Read the packages and write tars."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", type=Path, required=True, help="folder of the tars; it must be new or empty")
    p.add_argument("--packages", type=Path, default=Path("data/packages"), help="folder of npm's archives")
    p.add_argument("--hands", default=",".join(HANDS), help=f"who drew: some of {','.join(HANDS)}")
    p.add_argument("--side", type=int, default=96, help="pixels on a side")
    p.add_argument("--things", type=int, default=0, help="so many things, drawn from the seed; 0: all")
    p.add_argument("--seed", type=int, default=0, help="seed of words, of the order and of --things")
    o = p.parse_args()
    hands = o.hands.split(",")
    if unknown := [h for h in hands if h not in HANDS]:
        p.error(f"--hands has {', '.join(unknown)}: want some of {', '.join(HANDS)}")
    if o.out.exists() and any(o.out.iterdir()):
        p.error(f"--out is {o.out}, which is not empty: name a new folder")
    o.packages.mkdir(parents=True, exist_ok=True)
    o.out.mkdir(parents=True, exist_ok=True)
    known = things(fetch(WORDS[0], WORDS[1], o.packages))
    found: dict[str, dict[str, tuple[str, bytes]]] = {}
    for hand in hands:
        name, version, _, folder, _ = HANDS[hand]
        for thing, extension, raw in pictures(fetch(name, version, o.packages), folder):
            if thing in known:
                found.setdefault(thing, {})[hand] = (extension, raw)
    fewest = min(FEWEST_HANDS, len(hands))
    chosen = sorted((t for t in found if len(found[t]) >= fewest), key=lambda t: order(t, o.seed))
    chosen = chosen[: o.things or None]
    write(o, known, [(t, h, *found[t][h]) for t in chosen for h in hands if h in found[t]])
    count = sum(len(found[t]) for t in chosen)
    (o.out / "card.md").write_text(card(hands, count, len(chosen), o.seed))
    print(f"{count} pictures of {len(chosen)} things by {len(hands)} hands are in {o.out}")


def write(o: Any, known: dict[str, tuple[str, list[str]]], all_of: list[tuple[str, str, str, bytes]]) -> None:
    """Write the pictures in an order of the seed, so that those of a thing lie apart."""
    all_of.sort(key=lambda x: order(x[0] + x[1], o.seed))
    for first in range(0, len(all_of), PER_TAR):
        with tarfile.open(o.out / f"{first // PER_TAR:05d}.tar", "w") as tar:
            for i, (thing, hand, extension, raw) in enumerate(all_of[first : first + PER_TAR], first):
                said = captions(*known[thing], random.Random(f"{o.seed} {thing} {hand}"))
                add(tar, f"{i:06d}.png", drawn(raw, extension, o.side))
                add(tar, f"{i:06d}.json", json.dumps({"captions": said, "same": thing, "hand": hand}).encode())
        print(f"{min(first + PER_TAR, len(all_of))} of {len(all_of)} pictures", file=sys.stderr)


if __name__ == "__main__":
    main()
