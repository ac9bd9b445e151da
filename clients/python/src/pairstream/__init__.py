"""pairstream for Python: publish image-text pairs, read what the stages write, train on it with PyTorch.

`pairstream.records` has a dataclass for every record, `Reader` and `PairProducer` speak to the brokers,
`pairstream.shards` publishes WebDataset tars as `pairstream produce` does, and `pairstream.torch` trains.
"""

from .config import Config
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
from .ids import image_id, lane_of, pair_id
from .producer import PairProducer
from .reader import Message, Position, Reader
from .records import marshal, unmarshal

__all__ = [
    "BrokerError", "BucketError", "CheckpointError", "Config", "DeliveryError", "EndedError", "GapError", "ImageError", "InvalidError", "MalformedError",
    "Message", "NotFiniteError", "PairProducer", "PairstreamError", "Position", "ReadTimeout", "Reader", "RecordError",
    "SettingError", "UnknownSchemaError", "image_id", "lane_of", "marshal", "pair_id", "unmarshal",
]  # fmt: skip
