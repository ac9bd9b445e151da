"""BERT's uncased tokenizer over the vocabulary that a weights file of pairstream carries.

A model of another family brings its own tokenizer: any function from a list of texts to tensors will do.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from ..errors import SettingError

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_MAX_WORD = 100  # characters above which a word is unknown without being looked up
_HAN = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2CEAF), (0x2F800, 0x2FA1F))


def read_vocab(path: str | Path) -> list[str]:
    """Read a vocabulary, a token a line. A token may hold what Python takes for the end of a line elsewhere."""
    text = Path(path).read_text(encoding="utf-8-sig").removesuffix("\n")
    return text.split("\n") if text else []


class WordPiece:
    """The tokenizer whose token vocab[i] has id i."""

    def __init__(self, vocab: list[str]) -> None:
        self.vocab = vocab
        self._ids = {token: i for i, token in enumerate(vocab)}
        missing = [name for name in SPECIALS if name not in self._ids]
        if missing or len(self._ids) != len(vocab):
            raise SettingError(f"the vocabulary of {len(vocab)} tokens lacks {missing}, or has a token twice")
        self.pad, self.unknown, self.cls, self.sep, self.mask = (self._ids[name] for name in SPECIALS)

    def encode(self, text: str, limit: int) -> list[int]:
        """Return [CLS], the ids of text and [SEP], at most limit of them; what does not fit is dropped from the text's end."""
        ids = [self.cls]
        for token in self._tokens(text):
            if len(ids) >= limit - 1:
                break
            ids.append(token)
        return [*ids, self.sep]

    def padded(self, limit: int) -> Callable[[list[str]], dict[str, Tensor]]:
        """Return a function that makes input_ids and attention_mask of texts, as long as the longest of them."""
        return functools.partial(self._padded, limit)

    def _padded(self, limit: int, texts: list[str]) -> dict[str, Tensor]:
        rows = [self.encode(t, limit) for t in texts]
        width = max(map(len, rows))
        ids = torch.tensor([row + [self.pad] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": mask}

    def _tokens(self, text: str) -> Iterator[int]:
        for part in re.split(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])", text):
            if part in SPECIALS:
                yield self._ids[part]
                continue
            for word in _words(part):
                yield from self._pieces(word)

    def _pieces(self, word: str) -> list[int]:
        """Return the longest piece that fits, then the longest that goes on from there; [UNK] if it cannot be finished."""
        if len(word) > _MAX_WORD:
            return [self.unknown]
        out, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next((e for e in range(len(word), start, -1) if prefix + word[start:e] in self._ids), start)
            if end == start:
                return [self.unknown]
            out.append(self._ids[prefix + word[start:end]])
            start = end
        return out


def _words(text: str) -> Iterator[str]:
    """Cut a text into lower-cased words without accents; a punctuation mark or a Chinese character is a word."""
    cleaned = []
    for c in text:
        if c in " \t\n\r\u2028\u2029" or unicodedata.category(c) == "Zs":
            cleaned.append(" ")
        elif c == "\ufffd" or unicodedata.category(c).startswith("C"):
            continue
        elif any(low <= ord(c) <= high for low, high in _HAN):
            cleaned.append(f" {c} ")
        else:
            cleaned.append(c)
    for word in "".join(cleaned).split(" "):
        plain = "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")
        start = 0
        for i, c in enumerate(plain):
            if _is_punctuation(c):
                if start < i:
                    yield plain[start:i]
                yield c
                start = i + 1
        if start < len(plain):
            yield plain[start:]


def _is_punctuation(c: str) -> bool:
    return ("!" <= c <= "/" or ":" <= c <= "@" or "[" <= c <= "`" or "{" <= c <= "~") if c < "\x80" else unicodedata.category(c).startswith("P")
