"""pairstream for Python: publish image-text pairs, read what the stages write, train on it with PyTorch.

`pairstream.records` has a dataclass for every record, `Reader` and `PairProducer` speak to the brokers,
`pairstream.plans` reads mini-batches from files, and `pairstream.torch` trains. A name is imported when it is first used: a plan
needs no broker's client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    BrokerError,
    BucketError,
    CheckpointError,
    DeliveryError,
    EndedError,
    GapError,
    ImageError,
    InvalidError,
    MalformedError,
    NotFiniteError,
    PairstreamError,
    ReadTimeout,
    RecordError,
    SettingError,
    UnknownSchemaError,
)  # fmt: skip

if TYPE_CHECKING:
    __version__: str
    from .config import Config
    from .ids import image_id, lane_of, pair_id
    from .producer import PairProducer
    from .reader import Message, Position, Reader
    from .records import marshal, unmarshal

__all__ = [
    "BrokerError", "BucketError", "CheckpointError", "Config", "DeliveryError", "EndedError", "GapError", "ImageError", "InvalidError", "MalformedError",
    "Message", "NotFiniteError", "PairProducer", "PairstreamError", "Position", "ReadTimeout", "Reader", "RecordError",
    "SettingError", "UnknownSchemaError", "image_id", "lane_of", "marshal", "pair_id", "unmarshal",
]  # fmt: skip

_WHERE = {
    ".config": ("Config",), ".ids": ("image_id", "lane_of", "pair_id"), ".producer": ("PairProducer",), ".reader": ("Message", "Position", "Reader"),
    ".records": ("marshal", "unmarshal"),
}  # fmt: skip
_MODULES = {name: module for module, names in _WHERE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
