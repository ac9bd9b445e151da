"""Make siglip.bin and siglip.json: a small unigram model with every kind of piece that is read, and SentencePiece's ids.

    pip install sentencepiece; python make.py
"""

import html
import json
import re
import string
from pathlib import Path

import sentencepiece

colours = "red green blue yellow black white crème orange".split()
things = "dog cat horse bicycle Straße café train kite umbrella ﬁsh zebra".split()
lines = [f"a {c} {t} beside the {d} {u}s on a {p}" for c in colours for d in colours for t in things for u in things for p in ("street", "beach", "sofa")]
rules = {"ﬁ": "fi", "e\u0301": "\u00e9", "ａ": "a", "…": "...", "\u00a0": " ", "㎏": "kg", "ﷺ": "صلى الله", "\u200b": "", "ｈｅｌ": "hel", "ｈ": "h"}
here = Path(__file__).parent
here.joinpath("rules.tsv").write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rules.items()))
here.joinpath("lines.txt").write_text("\n".join(line.lower() for line in lines))
sentencepiece.SentencePieceTrainer.train(
    input=str(here / "lines.txt"), model_prefix=str(here / "siglip"), vocab_size=120, character_coverage=1.0, model_type="unigram", num_threads=1,
    pad_id=0, eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols="<img>,ab ba", normalization_rule_tsv=str(here / "rules.tsv"), hard_vocab_limit=False,
    minloglevel=2,
)


def canonical(text: str) -> str:
    text = html.unescape(html.unescape(text)).replace("_", " ").translate(str.maketrans("", "", string.punctuation)).lower()
    return re.sub(r"\s+", " ", text).strip()


here.joinpath("siglip.model").rename(here / "siglip.bin")
words = sentencepiece.SentencePieceProcessor(model_file=str(here / "siglip.bin"))
texts = [
    "", " ", "a", "A red dog", "  a   BLACK\tcat,\n on a sofa!! ", "the_green_horses & 3 kites", "crème brûlée", "Straße STRASSE straße", "ﬁsh ﬁ ﬁ", "cafe\u0301 café",
    "猫 と dog", "zzzz 猫猫猫 dog猫", "a\u00a0red\u00a0\u00a0dog", "\u200ba\u200b dog\u200b", "\u200b", "ＡＢＣ ａｂ ｈｅｌ ｈｅ ｈ", "wait… …", "㎏ ﷺ ﷺﷺ", "&lt;img&gt; <img>", "ab ba abba ab  ba",
    "İstanbul ΣΑΣ ΑΣ.", "▁ ▁a a▁b", "\x1c\x1da\x1f red", "&amp;eacute; &#233;", "don't it's 's", "beside beside besides thezebras umbrellasonastreet", "☃", "a☃b☃☃", "~^$+=|<>`", "é" * 70,
    "on a beach " * 30, "\ufffd bad", "e\u0301e\u0301", "\u3000red\u3000", "кот Кот",
]  # fmt: skip
cases = [{"text": t, "canonical": canonical(t), "ids": words.encode(canonical(t))} for t in texts]
raw = [{"text": t, "ids": words.encode(t)} for t in [*texts, *lines[:40:7]]]
here.joinpath("siglip.json").write_text(json.dumps({"captions": cases, "texts": raw}, ensure_ascii=True, indent=0, separators=(",", ":")))
