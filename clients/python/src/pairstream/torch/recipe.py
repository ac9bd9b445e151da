"""What a paper's recipe means to a trainer: images, captions and losses, as `RECIPE` means them to the built-in one.

`recipes.json` is written by `make docs` from the Go package internal/process/recipe, which says the section of each value.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import AdamW

from ..errors import SettingError
from . import losses
from .batch import Batch
from .images import Sized, augment
from .wordpiece import WordPiece

DEFAULT = "mafa"
WARMUP_STRIDE = 100  # LR_SCHEDULE=reference: iterations between two updates of the warm-up
REFERENCE_EPOCHS = 30  # into which LR_SCHEDULE=reference divides LR_TOTAL_STEPS


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
    loss: str = "softmax"  # ITC_LOSS: or triple, TCL's six terms, or sigmoid
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
    step_batches: int = 4  # STEP_BATCHES: mini-batches of a step, on all ranks together
    lr: float = 1e-4  # LR, the highest rate
    lr_min: float = 1e-5
    lr_warmup: float = 1e-5
    lr_warmup_steps: int = 2000
    lr_total_steps: int = 1562490  # of the lanes' pairs, or of PAIRS
    lr_schedule: str = "cosine"  # LR_SCHEDULE: or reference, over epochs
    weight_decay: float = 0.02
    beta1: float = 0.9  # ADAMW has it, and the next two
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float = 0.0  # CLIP_NORM

    @classmethod
    def of(cls, name: str | None = None, environ: Mapping[str, str] | None = None) -> Recipe:
        """Return a paper's recipe, by default the one of RECIPE. A variable that is set overrides its value."""
        environ = os.environ if environ is None else environ
        name = name or environ.get("RECIPE") or DEFAULT
        if name not in _all():
            raise SettingError(f"RECIPE is {name!r}, want {', '.join(_all())}")
        settings = _all()[name]
        values = {field.name: _parse(field.name, field.type, environ.get(VARIABLES[field.name]) or settings[VARIABLES[field.name]]) for field in fields(cls)}
        for field, variable in (("ramp_steps", "ITC_ALPHA_RAMP_STEPS"), ("lr_total_steps", "LR_TOTAL_STEPS"), ("lr_warmup_steps", "LR_WARMUP_STEPS")):
            if not environ.get(variable):
                values[field] = _planned(settings, environ)[variable]
        recipe = cls(**values)
        recipe._check()
        return recipe

    def _check(self) -> None:
        if self.loss not in ("softmax", "triple", "sigmoid"):
            raise SettingError(f"ITC_LOSS is {self.loss!r}, want softmax, triple or sigmoid")
        if self.loss == "sigmoid" and self.targets != "onehot":
            raise SettingError(f"ITC_LOSS is sigmoid with ITC_TARGETS={self.targets}, want onehot: the sigmoid of a pair has no row to soften")
        if self.lr_schedule not in ("cosine", "reference"):
            raise SettingError(f"LR_SCHEDULE is {self.lr_schedule!r}, want cosine or reference: the built-in trainer alone sees the end of a stream")
        if self.lr_schedule == "cosine" and self.lr_total_steps <= self.lr_warmup_steps:
            raise SettingError(f"LR_TOTAL_STEPS is {self.lr_total_steps}, want more than LR_WARMUP_STEPS={self.lr_warmup_steps}")
        if self.lr <= 0 or not 0 <= self.lr_min <= self.lr:
            raise SettingError(f"LR is {self.lr:g} and LR_MIN is {self.lr_min:g}, want LR above 0, and LR_MIN from 0 to LR")
        if self.lr_schedule == "reference" and self.lr_total_steps < REFERENCE_EPOCHS:
            raise SettingError(f"LR_TOTAL_STEPS is {self.lr_total_steps}, want at least 1 for each of {REFERENCE_EPOCHS} epochs")
        if self.step_batches < 1:
            raise SettingError(f"STEP_BATCHES is {self.step_batches}, want at least 1")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0, as the built-in trainer has it."""
        if self.lr_schedule == "cosine":
            past = step - self.lr_warmup_steps
            return self._rising(step) if past < 0 else self._falling(past / (self.lr_total_steps - self.lr_warmup_steps))
        epoch, iteration = divmod(step, self.lr_total_steps // REFERENCE_EPOCHS)
        return self._falling(epoch / REFERENCE_EPOCHS) if epoch else self._rising(max(0, iteration - 1) // WARMUP_STRIDE)

    def factor(self, step: int) -> float:
        """Return the learning rate of a step as a share of the highest one: the schedule of a `Trainer`."""
        return self.rate(step) / self.lr

    def _rising(self, update: int) -> float:
        return self.lr if update >= self.lr_warmup_steps else self.lr_warmup + update * (self.lr - self.lr_warmup) / self.lr_warmup_steps

    def _falling(self, done: float) -> float:
        return self.lr_min if done >= 1 else self.lr_min + 0.5 * (self.lr - self.lr_min) * (1 + math.cos(math.pi * done))

    def accumulate(self, world: int) -> int:
        """Return the mini-batches that each of so many ranks has in a step."""
        if self.step_batches % world:
            raise SettingError(f"STEP_BATCHES is {self.step_batches}, want a multiple of the {world} ranks, which share the mini-batches of a step")
        return self.step_batches // world

    def adamw(self, groups: Iterable[Any]) -> AdamW:
        """Return the optimizer of parameters or groups of them; groups may have a weight decay of their own."""
        return AdamW(groups, lr=self.lr, betas=(self.beta1, self.beta2), eps=self.eps, weight_decay=self.weight_decay)

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
    "ramp_steps": "ITC_ALPHA_RAMP_STEPS", "loss": "ITC_LOSS", "itc": "ITC_WEIGHT", "itm": "ITM_WEIGHT", "mlm": "MLM_WEIGHT", "uni": "UNI_WEIGHT",
    "uni_reading": "UNI_READING", "ecm_itc": "ECM_LOSSES", "ecm_itm": "ECM_LOSSES", "ecm_mlm": "ECM_LOSSES", "eliminate": "ECM_ELIMINATE", "high": "ECM_HIGH",
    "low": "ECM_LOW", "negatives": "ITM_NEGATIVES", "mask_probability": "MLM_PROBABILITY", "mlm_distill": "MLM_DISTILL", "momentum": "MOMENTUM_DECAY",
    "momentum_decay": "MOMENTUM_DECAY", "momentum_queue": "MOMENTUM_QUEUE", "dropout": "DROPOUT", "min_scale": "AUGMENT_MIN_SCALE",
    "distort": "AUGMENT_DISTORT", "flip": "AUGMENT_FLIP", "color": "AUGMENT_COLOR", "ops": "AUGMENT_OPS", "level": "AUGMENT_OPS",
    "step_batches": "STEP_BATCHES", "lr": "LR", "lr_min": "LR_MIN", "lr_warmup": "LR_WARMUP", "lr_warmup_steps": "LR_WARMUP_STEPS",
    "lr_total_steps": "LR_TOTAL_STEPS", "lr_schedule": "LR_SCHEDULE",
    "weight_decay": "WEIGHT_DECAY", "beta1": "ADAMW", "beta2": "ADAMW", "eps": "ADAMW",
    "clip": "CLIP_NORM",
}  # fmt: skip


def _parse(field: str, kind: Any, text: str) -> Any:
    """Read the value of a field's variable as the type of the field, whose annotation is a text."""
    variable = VARIABLES[field]
    try:
        if variable == "ECM_LOSSES":
            return field.removeprefix("ecm_") in _names(text)
        if variable == "AUGMENT_OPS":
            return dict(zip(("ops", "level"), map(int, (text if text != "0" else "0,0").split(",")), strict=True))[field]
        if variable == "ADAMW":
            return dict(zip(("beta1", "beta2", "eps"), map(float, text.split(",")), strict=True))[field]
        if field == "momentum":
            return float(text) > 0
        if field == "momentum_decay":
            return float(text) or Recipe.momentum_decay  # of a recipe without a momentum model, for one that is added
        if kind == "bool":
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        return {"str": str, "float": float, "int": int}[kind](text)
    except (KeyError, ValueError) as err:
        kinds = {
            "ECM_LOSSES": "itc, itm and mlm, comma separated, or none",
            "ADAMW": "three numbers, comma separated",
            "MOMENTUM_DECAY": "float",
            "AUGMENT_OPS": "two whole numbers, comma separated, or 0",
        }
        raise SettingError(f"{variable} is {text!r}, want {kinds.get(variable, 'true or false' if kind == 'bool' else kind)}") from err


def _names(text: str) -> set[str]:
    """Read a list of losses, which may be none."""
    names = set() if text == "none" else {name.strip() for name in text.split(",")}
    if not names <= {"itc", "itm", "mlm"}:
        raise ValueError(text)
    return names


def _planned(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, int]:
    """Return the steps that follow from the data: of the ramp, of the cosine and of the warm-up, as RECIPE derives them in Go."""
    usual, epoch = _steps_of_epoch(settings, {}), _steps_of_epoch(settings, environ)
    epochs, of_paper = _size("EPOCHS", settings, environ), int(settings["EPOCHS"])
    total = int(settings["LR_TOTAL_STEPS"]) // usual * epoch
    if epochs != of_paper:
        total = max(1, total * epochs // of_paper)
    warmup = int(settings["LR_WARMUP_STEPS"])
    if not environ.get("LR_TOTAL_STEPS"):
        warmup = min(warmup, total // 10)  # a short run keeps nine tenths of its steps
    return {"ITC_ALPHA_RAMP_STEPS": int(settings["ITC_ALPHA_RAMP_STEPS"]) // usual * epoch, "LR_TOTAL_STEPS": total, "LR_WARMUP_STEPS": warmup}


def _steps_of_epoch(settings: Mapping[str, str], environ: Mapping[str, str]) -> int:
    """Return the steps of an epoch: of PAIRS, or else as if every lane closed one full group."""
    batches, batch = _size("STEP_BATCHES", settings, environ), _size("BATCH_SIZE", settings, environ)
    if settings["STEP_BATCHES"] == "1" and not environ.get("BATCH_SIZE"):
        batch = max(1, (batch + batches // 2) // batches)  # GPN-S gives the size of a whole step, which its mini-batches share
    pairs = _size("PAIRS", {"PAIRS": "0"}, environ, least=0) or _size("LANES", settings, environ) * _size("GROUP_SIZE", settings, environ)
    return max(1, pairs // batch // batches)


def _size(variable: str, settings: Mapping[str, str], environ: Mapping[str, str], least: int = 1) -> int:
    text = environ.get(variable) or settings[variable]
    if not re.fullmatch(r"[0-9]+", text) or int(text) < least:
        raise SettingError(f"{variable} is {text!r}, want a whole number of at least {least}")
    return int(text)
