"""What a topic holds at this moment."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from ._kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from .config import Config
from .errors import BrokerError, ReadTimeout, RecordError
from .records import Seal, unmarshal
from .topics import HEADER_SCHEMA, PAIRS, topic_name


def contents(config: Config, topic: str, starts: Mapping[int, int], *, timeout: float) -> Iterator[Message]:
    """Yield the records that lanes hold now, from an offset of each. A negative offset counts from the end."""
    with _Held(config, topic) as consumer:
        left = {}
        for lane, start in starts.items():
            low, high = consumer.bounds(lane, timeout)
            start = max(low, high + start if start < 0 else start)
            if start < high:
                left[lane] = (start, high)
        yield from consumer.read(left, timeout)


def final_seals(config: Config, lanes: int, *, timeout: float) -> dict[int, Seal]:
    """Return the final seals of the lanes of pairs that end with one."""
    out = {}
    for message in contents(config, PAIRS, dict.fromkeys(range(lanes), -1), timeout=timeout):
        if dict(message.headers() or []).get(HEADER_SCHEMA) != Seal.SCHEMA.encode():
            continue
        try:
            seal = unmarshal(Seal.SCHEMA, message.value() or b"")
        except RecordError:
            continue  # anyone may write there
        lane = message.partition()
        if isinstance(seal, Seal) and seal.final and lane is not None:
            out[lane] = seal
    return out


class _Held:
    """A client that looks at one topic."""

    def __init__(self, config: Config, topic: str) -> None:
        self.name = topic_name(topic, config.namespace)
        self._client = Consumer({
            **config.client(), "group.id": "pairstream-python", "enable.auto.commit": False, "enable.partition.eof": True,
            "auto.offset.reset": "earliest", "enable.metrics.push": False,
        })  # fmt: skip

    def __enter__(self) -> _Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def bounds(self, lane: int, timeout: float) -> tuple[int, int]:
        try:
            found = self._client.get_watermark_offsets(TopicPartition(self.name, lane), timeout=timeout)
        except KafkaException as err:
            raise BrokerError(f"looking for the end of {self.name}, lane {lane} (NAMESPACE; `pairstream topics create` makes topics): {err}") from err
        if found is None:
            raise ReadTimeout(f"{self.name}, lane {lane}: its end was not told within {timeout:g} s")
        return found

    def read(self, left: dict[int, tuple[int, int]], timeout: float) -> Iterator[Message]:
        """Yield the records of lanes between two offsets."""
        self._client.assign([TopicPartition(self.name, lane, start) for lane, (start, _) in left.items()])
        until = time.monotonic() + timeout
        while left:
            if time.monotonic() > until:
                raise ReadTimeout(f"{self.name}: the rest of lanes {sorted(left)} could not be read within {timeout:g} s")
            try:
                message = self._client.poll(0.1)
            except KafkaException as err:
                raise BrokerError(f"reading {self.name}: {err}") from err
            if message is None:
                continue
            lane, error = message.partition(), message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF and lane is not None:
                    left.pop(lane, None)
                continue
            offset = message.offset()
            assert lane is not None and offset is not None
            if lane not in left:
                continue  # came after the end was told
            until = time.monotonic() + timeout
            high = left[lane][1]
            if offset >= high - 1:
                del left[lane]
            if offset < high:
                yield message
