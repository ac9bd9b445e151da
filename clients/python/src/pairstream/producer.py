"""Publishing: pairs of the crawl, and what a trainer writes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TypeVar

from ._kafka import KafkaError, KafkaException, Message, Producer
from ._log import final_seals
from .config import Config
from .errors import DeliveryError, EndedError
from .ids import Buffer, image_id, lane_of, pair_id
from .reader import lanes_of
from .records import Columns, ImageRef, Pair, Record, Seal, marshal
from .topics import HEADER_SCHEMA, HEADER_SEQ, HEADER_SOURCE, PAIRS, topic_name

_P = TypeVar("_P", bound="Publisher")

_NO_MARK = b"\x01\x00\x00"  # a resume mark that names no inputs and no outputs: version, two counts


class Publisher:
    """Writes records to lanes of topics, in order, and waits when too much is on its way.

    A record that the brokers refuse, or that is not acknowledged within timeout seconds, raises DeliveryError at the next
    call. Nothing that was published before a flush that returned is missing.
    """

    def __init__(self, config: Config, *, timeout: float = 60.0, max_bytes: int = 64 << 20, linger: float = 0.005) -> None:
        self.config, self.timeout = config, timeout
        self._failed: str = ""
        self._put = self._acked = 0
        self._producer = Producer({
            **config.client(),
            "acks": "all",
            "enable.idempotence": True,  # in order and without repetitions, whatever is sent again
            "message.max.bytes": 23 << 20,
            "queue.buffering.max.kbytes": max(max_bytes >> 10, 24 << 10),
            "linger.ms": linger * 1000,
            "enable.metrics.push": False,
            "delivery.timeout.ms": int(timeout * 1000),
            "request.timeout.ms": int(min(timeout, 10) * 1000),
        })  # fmt: skip

    def __enter__(self: _P) -> _P:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def close(self) -> None:
        """Flush."""
        self.flush()

    def abort(self) -> None:
        """Forget what is queued. What is on its way may arrive or not."""
        self._producer.purge()
        self._producer.flush(1)

    def put(self, topic: str, lane: int, schema: str, value: bytes, *, seq: int | None = None) -> None:
        """Queue an encoded record; seq is its number in the lane on topics that stages write."""
        headers: dict[str, str | bytes | None] = {HEADER_SCHEMA: schema.encode()}
        if seq is not None:
            headers |= {HEADER_SEQ: str(seq).encode(), HEADER_SOURCE: _NO_MARK}
        self._send(topic, lane, value, headers=list(headers.items()))

    def _send(self, topic: str, lane: int, value: bytes, **more: Any) -> None:
        name = topic_name(topic, self.config.namespace)
        until = time.monotonic() + self.timeout
        while True:
            self._raise()
            try:
                self._producer.produce(name, value, partition=lane, on_delivery=self._delivered, **more)
                self._put += 1
                self._producer.poll(0)
                return
            except BufferError:
                if time.monotonic() >= until:
                    raise DeliveryError(f"publishing to {name}, lane {lane}: the brokers took nothing for {self.timeout:g} s") from None
                self._producer.poll(0.1)
            except KafkaException as err:
                raise DeliveryError(f"publishing to {name}, lane {lane}: {err}") from err

    def publish(self, topic: str, lane: int, record: Record, *, seq: int | None = None) -> None:
        """Validate, encode and queue a record."""
        self.put(topic, lane, record.SCHEMA, marshal(record), seq=seq)

    def flush(self) -> None:
        """Wait until everything that was published before is acknowledged."""
        left = self._producer.flush(self.timeout + 1)
        self._raise()
        if left or self._acked < self._put:
            raise DeliveryError(f"{max(left, self._put - self._acked)} records were not acknowledged within {self.timeout:g} s")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acked += 1
        elif not self._failed:
            self._failed = f"publishing to {message.topic()}, lane {message.partition()}: {error}"

    def _raise(self) -> None:
        if self._failed:
            raise DeliveryError(self._failed)


class PairProducer(Publisher):
    """Publishes pairs to the lanes where they belong: of images inline, or of references that you name.

    Whole tars, tables and lists are published by `pairstream produce`, which goes on where it was stopped.

    Nothing goes to lanes of which one has ended with a final seal, but EndedError is raised: what comes behind that is set aside.
    """

    def __init__(self, config: Config, *, timeout: float = 60.0, max_bytes: int = 64 << 20) -> None:
        super().__init__(config, timeout=timeout, max_bytes=max_bytes, linger=0.05)
        self.lanes = lanes_of(config, PAIRS, timeout=min(timeout, 10))
        self.ended = final_seals(config, self.lanes, timeout=min(timeout, 10))

    def send(
        self, encoded: Buffer, caption: str, *, uri: str = "", offset: int = 0, source: str = "", crawl_time: int = 0, meta: Columns | None = None
    ) -> bytes:
        """Publish one caption of an image and return the pair's id.

        encoded is the image file (JPEG, PNG or WebP). With a uri, the image is sent by reference: the object must hold
        these bytes at offset. Without one, it is sent inline. meta are columns of the crawl, for filters.
        """
        image = image_id(encoded)
        ref = ImageRef(uri=uri, offset=offset, size=len(encoded)) if uri else None
        pair = Pair(
            id=pair_id(image, caption), image_id=image, image=ref, inline=b"" if uri else bytes(encoded), caption=caption, source=source,
            crawl_time=crawl_time, meta=meta or {},
        )  # fmt: skip
        self.send_pair(pair)
        return pair.id

    def send_pair(self, pair: Pair) -> None:
        """Publish a pair."""
        refuse_ended(self.ended)
        self.publish(PAIRS, lane_of(pair.image_id, self.lanes), pair)

    def seal(self, *, final: bool = False, note: str = "") -> None:
        """Close the open group of every lane; final says that the crawl ends here."""
        refuse_ended(self.ended)
        seal = Seal(final=final, note=note, id=uuid.uuid4().hex)
        for lane in range(self.lanes):
            self.publish(PAIRS, lane, seal)
        if final:
            self.ended = dict.fromkeys(range(self.lanes), seal)


def refuse_ended(ended: Mapping[int, Seal]) -> None:
    """Raise an error if a lane has ended."""
    for lane, seal in sorted(ended.items()):
        raise EndedError(f"lane {lane} has ended with a final seal (id {seal.id!r}, note {seal.note!r}), and takes nothing more: publish to another NAMESPACE")
