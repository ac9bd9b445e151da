"""What a paper's recipe means to a trainer: images, captions and losses, as `RECIPE` means them to the built-in one.

`recipes.json` is written by `make docs` from the Go package internal/process/recipe, which says the section of each value.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import SettingError
from . import losses
from .batch import Batch
from .images import Sized, augment
from .wordpiece import WordPiece

DEFAULT = "mafa"


@lru_cache(maxsize=1)
def _all() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("recipes.json").read_text(encoding="utf-8"))
    return table


def pre_caption(caption: str, words: int = 30) -> str:
    """Return a caption as the authors feed it to their models: lower case, without most punctuation, of at most so many words."""
    text = re.sub(r"[,.'!?\"()*#:;~]", "", caption.lower()).replace("-", " ").replace("/", " ").replace("<person>", "person")
    text = re.sub(r"\s{2,}", " ", text).rstrip("\n").strip(" ")
    return " ".join(text.split(" ")[:words])


@dataclass(frozen=True)
class Recipe:
    """The settings of a step. The defaults are MAFA's; `Recipe.of("tcl")` has another paper's."""

    targets: str = "smoothed"  # ITC_TARGETS: or onehot, consistency, distilled
    alpha: float = 0.5  # ITC_ALPHA: share of the soft part
    weight: float = 0.2  # ITC_LAMBDA: of the consistency term
    form: str = "additive"  # ITC_FORM
    soft_from_epoch: int = 0  # ITC_SOFT_FROM_EPOCH
    ramp_steps: int = 0  # ITC_ALPHA_RAMP_STEPS: over which the share of a momentum model rises
    triple: bool = False  # ITC_TRIPLE: TCL's six terms
    itc: float = 1.0  # ITC_WEIGHT, and so on
    itm: float = 1.0
    mlm: float = 1.0
    uni: float = 0.0
    uni_reading: str = "infonce"
    ecm_itc: bool = True  # connections in each loss
    ecm_itm: bool = True
    ecm_mlm: bool = True
    eliminate: bool = False  # ECM_ELIMINATE
    high: float = 0.8
    low: float = 0.5
    negatives: str = "hardest"  # ITM_NEGATIVES: or multinomial, random
    mask_probability: float = 0.5
    mlm_distill: float = 0.0
    momentum: bool = False
    momentum_decay: float = 0.995
    momentum_queue: int = 0
    dropout: float = 0.1
    min_scale: float = 0.2  # AUGMENT_MIN_SCALE, and so on
    distort: bool = False
    flip: float = 0.5
    color: float = 0.0
    ops: int = 2
    level: int = 7

    @classmethod
    def of(cls, name: str | None = None, environ: Mapping[str, str] | None = None) -> Recipe:
        """Return a paper's recipe, by default the one of RECIPE. A variable that is set overrides its value."""
        environ = os.environ if environ is None else environ
        name = name or environ.get("RECIPE") or DEFAULT
        if name not in _all():
            raise SettingError(f"RECIPE is {name!r}, want {', '.join(_all())}")
        settings = _all()[name]
        values = {field.name: _parse(VARIABLES[field.name], field.type, environ.get(VARIABLES[field.name]) or settings[VARIABLES[field.name]]) for field in fields(cls)}
        if not environ.get("ITC_ALPHA_RAMP_STEPS"):
            values["ramp_steps"] = _ramp(settings, environ)
        return cls(**values)

    def images(self, size: int) -> Sized:
        """Return the transform of training images. For evaluation take `resize`."""
        return augment(size, self.min_scale, self.flip, self.color, distort=self.distort, ops=self.ops, level=self.level)

    def captions(self, words: WordPiece, tokens: int, caption_words: int = 30) -> Callable[[list[str]], dict[str, Tensor]]:
        """Return the tokenizer of training captions; caption_words is that of the weights file, and 0 leaves captions as they are."""
        return partial(_tokens, words.padded(tokens), caption_words)

    def bounds(self, batch: Batch) -> dict[str, float]:
        """Return the thresholds of connections for `losses.mine`: the record's comes before the recipe's, as in the built-in trainer.

        So a trainer means the same connections as the guard in the discriminator, whatever its own ECM_HIGH is.
        """
        high = batch.high or self.high
        return {"high": high, "low": min(self.low, high)}

    def ramp(self, share: float, step: int) -> float:
        """Return a share of the momentum model at a step."""
        return share * step / self.ramp_steps if step < self.ramp_steps else share

    def softening(self, epoch: int, step: int = 0, teachers: tuple[Tensor, Tensor] | None = None) -> losses.Softening:
        """Return what softens the targets of ITC. teachers are the momentum model's similarities, i2t and t2i."""
        if self.targets == "consistency":
            return losses.Consistency(self.weight, self.form)
        if self.targets == "distilled":
            if teachers is None:
                raise SettingError("ITC_TARGETS is distilled, and this model has no momentum model: set RECIPE to mafa or grit-vlp, or ITC_TARGETS")
            return losses.Distilled(*teachers, self.ramp(self.alpha, step))
        return losses.Smoothed(self.alpha) if self.targets == "smoothed" and epoch >= self.soft_from_epoch else losses.OneHot()


def _tokens(tokenize: Callable[[list[str]], dict[str, Tensor]], caption_words: int, texts: list[str]) -> dict[str, Tensor]:
    return tokenize([pre_caption(t, caption_words) for t in texts] if caption_words else texts)


VARIABLES = {
    "targets": "ITC_TARGETS", "alpha": "ITC_ALPHA", "weight": "ITC_LAMBDA", "form": "ITC_FORM", "soft_from_epoch": "ITC_SOFT_FROM_EPOCH",
    "ramp_steps": "ITC_ALPHA_RAMP_STEPS", "triple": "ITC_TRIPLE", "itc": "ITC_WEIGHT", "itm": "ITM_WEIGHT", "mlm": "MLM_WEIGHT", "uni": "UNI_WEIGHT",
    "uni_reading": "UNI_READING", "ecm_itc": "ECM_ITC", "ecm_itm": "ECM_ITM", "ecm_mlm": "ECM_MLM", "eliminate": "ECM_ELIMINATE", "high": "ECM_HIGH",
    "low": "ECM_LOW", "negatives": "ITM_NEGATIVES", "mask_probability": "MLM_PROBABILITY", "mlm_distill": "MLM_DISTILL", "momentum": "MOMENTUM",
    "momentum_decay": "MOMENTUM_DECAY", "momentum_queue": "MOMENTUM_QUEUE", "dropout": "DROPOUT", "min_scale": "AUGMENT_MIN_SCALE",
    "distort": "AUGMENT_DISTORT", "flip": "AUGMENT_FLIP", "color": "AUGMENT_COLOR", "ops": "AUGMENT_OPS", "level": "AUGMENT_LEVEL",
}  # fmt: skip


def _parse(variable: str, kind: Any, text: str) -> Any:
    """Read a value as the type of its field, whose annotation is a text."""
    try:
        if kind == "bool":
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        return {"str": str, "float": float, "int": int}[kind](text)
    except (KeyError, ValueError) as err:
        raise SettingError(f"{variable} is {text!r}, want {'true or false' if kind == 'bool' else kind}") from err


def _ramp(settings: Mapping[str, str], environ: Mapping[str, str]) -> int:
    """Return the steps of the epochs over which the share rises: from the sizes that are set, as RECIPE does."""

    def epoch(sizes: Mapping[str, str]) -> int:
        lanes, group, batch, step = (int(sizes.get(v) or settings[v]) for v in ("LANES", "GROUP_SIZE", "BATCH_SIZE", "STEP_BATCHES"))
        if settings["STEP_BATCHES"] == "1" and not sizes.get("BATCH_SIZE"):
            step = 1  # GPN-S gives the size of a whole step, which its mini-batches share
        return max(1, lanes * group // batch // step)

    return int(settings["ITC_ALPHA_RAMP_STEPS"]) // epoch({}) * epoch(environ)
