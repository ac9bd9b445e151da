"""Reading lanes of a topic, in order and each record once."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ._kafka import AdminClient, Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from ._kafka import Message as KafkaMessage
from .config import Config
from .errors import BrokerError, GapError, MalformedError, ReadTimeout
from .records import Record, unmarshal
from .topics import HEADER_SCHEMA, HEADER_SEQ, SCORED, SEQUENCED, topic_name

_SEQ = re.compile(r"0|[1-9][0-9]{0,18}")
_POLL_SECONDS = 0.5
_MAX_AHEAD = 16 << 20  # bytes of a lane that wait to be taken before its reading is paused

# Answers of the brokers that waiting does not change.
_FOR_GOOD = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION, KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.TOPIC_EXCEPTION, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
    KafkaError._SSL, KafkaError._FATAL,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Position:
    """A place in one lane of a topic. The zero position is the start of the lane."""

    offset: int = 0  # next offset to read
    seq: int = 0  # seq of the next record that is new; 0 on topics without seqs


@dataclass(frozen=True, slots=True)
class Message:
    """A record as it came, and the place after it."""

    topic: str
    lane: int
    offset: int
    seq: int  # -1 on topics without seqs
    schema: str
    value: bytes
    after: Position

    def record(self) -> Record:
        """Decode the value; a RecordError tells what is wrong with it, and where it lies."""
        try:
            return unmarshal(self.schema, self.value)
        except ValueError as err:
            raise type(err)(f"{self.topic}, lane {self.lane}, offset {self.offset}: {err}") from err


class Reader:
    """Reads lanes of one topic. Repetitions are dropped by their seq; a seq that is skipped raises GapError.

    `next(lane)` waits for the next record of a lane, at most timeout seconds; then it raises ReadTimeout. It may be
    called again afterwards. A broker that is gone is waited for within that time. Records that no stage has written
    (without a seq) raise MalformedError once; the next call goes on after them. A reader is for one thread.
    """

    def __init__(self, config: Config, topic: str, lanes: Mapping[int, Position] | list[int] | int, *, timeout: float = 60.0) -> None:
        if isinstance(lanes, int):
            lanes = [lanes]
        if not isinstance(lanes, Mapping):
            lanes = {lane: Position() for lane in lanes}
        self.topic, self.timeout = topic, timeout
        self._name = topic_name(topic, config.namespace)
        self._at = dict(lanes)
        self._ahead: dict[int, deque[KafkaMessage]] = {lane: deque() for lane in lanes}
        self._bytes = dict.fromkeys(lanes, 0)
        self._paused: set[int] = set()
        self._trouble = ""
        self._broken: BrokerError | None = None
        self._checked = False
        self._consumer = Consumer({
            **config.client(),
            "group.id": "pairstream-python",  # required by the client; nothing is committed
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": 32 << 10,
            "enable.metrics.push": False,
            "error_cb": self._on_error,
        })  # fmt: skip
        self._consumer.assign([TopicPartition(self._name, lane, at.offset) for lane, at in lanes.items()])

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()

    def position(self, lane: int) -> Position:
        """Return the place after the last record of a lane that next returned or passed over."""
        return self._at[lane]

    def __iter__(self) -> Iterator[Message]:
        """Yield the records of the only lane, without an end but ReadTimeout."""
        (lane,) = self._at
        while True:
            yield self.next(lane)

    def next(self, lane: int, timeout: float | None = None) -> Message:
        """Return the next record of a lane's sequence, and wait for it."""
        limit = self.timeout if timeout is None else timeout
        until = time.monotonic() + limit
        while True:
            message = self.poll(lane, max(0.0, min(_POLL_SECONDS, until - time.monotonic())))
            if message is not None:
                return message
            if time.monotonic() >= until:
                trouble = f"; the last trouble with the brokers: {self._trouble}" if self._trouble else ""
                raise ReadTimeout(f"{self._name}, lane {lane}: no record within {limit:g} s{trouble}")

    def poll(self, lane: int, timeout: float = 0.0) -> Message | None:
        """Return the next record of a lane if it arrives within the timeout."""
        while True:
            while self._ahead[lane]:
                message = self._accept(lane, self._take(lane))
                if message is not None:
                    return message
            if not self._fetch(timeout):
                return None
            timeout = 0.0 if not self._ahead[lane] else timeout

    def _take(self, lane: int) -> KafkaMessage:
        message = self._ahead[lane].popleft()
        self._bytes[lane] -= len(message)
        if lane in self._paused and self._bytes[lane] < _MAX_AHEAD // 2:
            self._paused.discard(lane)
            self._consumer.resume([TopicPartition(self._name, lane)])
        return message

    def _fetch(self, timeout: float) -> bool:
        """Take one message over from the client; False if there is none."""
        try:
            message = self._consumer.poll(timeout)
        except KafkaException as err:
            raise BrokerError(f"reading {self._name}: {err}") from err
        if self._broken:
            raise self._broken
        if message is None:
            self._check_topic()
            return False
        error = message.error()
        if error is not None:
            self._refuse(message, error)
            return True
        lane = message.partition()
        assert lane is not None
        self._ahead[lane].append(message)
        self._bytes[lane] += len(message)
        if self._bytes[lane] > _MAX_AHEAD and lane not in self._paused:
            self._paused.add(lane)
            self._consumer.pause([TopicPartition(self._name, lane)])
        return True

    def _check_topic(self) -> None:
        """Look once, when nothing comes, whether the lanes are there: the client waits for those that are not."""
        if self._checked:
            return
        try:
            described = self._consumer.list_topics(self._name, timeout=2).topics[self._name]
        except KafkaException as err:
            self._trouble = str(err)
            return
        missing = [lane for lane in self._at if lane not in described.partitions]
        if described.error or missing:
            raise BrokerError(f"reading {self._name} (NAMESPACE), lane {missing}: {described.error or 'the topic has fewer lanes'}")
        self._checked = True

    def _refuse(self, message: KafkaMessage, error: KafkaError) -> None:
        lane = message.partition()
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET, KafkaError._NO_OFFSET):
            wanted = self._at[lane].offset if lane in self._at else message.offset()
            raise GapError(f"{self._name}, lane {lane}: offset {wanted} is wanted, and the log does not have it: retention has removed it, or the topic was recreated")
        if error.code() in _FOR_GOOD or error.fatal():
            raise BrokerError(f"reading {self._name}, lane {lane}: {error}")
        self._trouble = str(error)

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = str(error)
        if error.code() in _FOR_GOOD:
            self._broken = BrokerError(f"reading {self._name}: {error}")

    def _accept(self, lane: int, message: KafkaMessage) -> Message | None:
        """Move the position past a message; None if it is a repetition."""
        headers = dict(message.headers() or [])
        offset, value = message.offset(), message.value() or b""
        assert offset is not None and isinstance(value, bytes)
        schema = _text(headers.get(HEADER_SCHEMA))
        at = self._at[lane]
        if self.topic not in SEQUENCED:
            self._at[lane] = Position(offset + 1)
            return Message(self.topic, lane, offset, -1, schema, value, self._at[lane])
        digits = _text(headers.get(HEADER_SEQ))
        if not _SEQ.fullmatch(digits):
            self._at[lane] = Position(offset + 1, at.seq)
            raise MalformedError(f"{self._name}, lane {lane}, offset {offset}: seq header {digits[:64]!r} is no sequence number: not written by a stage")
        seq = int(digits)
        if seq > at.seq:
            raise GapError(f"{self._name}, lane {lane}, offset {offset}: records {at.seq} to {seq - 1} are missing")
        if seq < at.seq:  # written again after a crash: the same record
            self._at[lane] = Position(offset + 1, at.seq)
            return None
        self._at[lane] = Position(offset + 1, seq + 1)
        return Message(self.topic, lane, offset, seq, schema, value, self._at[lane])


def lanes_of(config: Config, topic: str, *, timeout: float = 10.0) -> int:
    """Return how many lanes a topic has."""
    name = topic_name(topic, config.namespace)
    try:
        described = AdminClient({**config.client(), "enable.metrics.push": False}).list_topics(name, timeout=timeout).topics[name]
    except KafkaException as err:
        raise BrokerError(f"looking for topic {name} (KAFKA_BROKERS, NAMESPACE): {err}") from err
    if described.error or not described.partitions:
        raise BrokerError(f"looking for topic {name} (NAMESPACE): {described.error or 'it has no partitions'}")
    return len(described.partitions)


def identity(config: Config, *, timeout: float = 10.0) -> dict[str, str]:
    """Return what tells this log from others: cluster, namespace, and the id of the topic scored."""
    name = topic_name(SCORED, config.namespace)
    admin = AdminClient({**config.client(), "enable.metrics.push": False})
    try:
        cluster = admin.list_topics(name, timeout=timeout).cluster_id
        described = admin.describe_topics(TopicCollection([name]), request_timeout=timeout)[name].result(timeout)
    except KafkaException as err:
        raise BrokerError(f"looking for topic {name} (KAFKA_BROKERS, NAMESPACE): {err}") from err
    return {"cluster": str(cluster), "namespace": config.namespace, "scored": str(described.topic_id)}


class Lag:
    """Commits how far a reader is to the stage's consumer group, for `pairstream status` and lag dashboards.

    Nothing is read from there, and a commit that fails does no harm: the next one says more.
    """

    def __init__(self, config: Config, stage: str, topic: str, *, every: float = 1.0) -> None:
        self._name, self._every, self._told = topic_name(topic, config.namespace), every, time.monotonic()
        self._consumer = Consumer({**config.client(), "group.id": topic_name("pairstream-" + stage, config.namespace), "enable.auto.commit": False, "enable.metrics.push": False, "log_level": 0})

    def tell(self, state: Mapping[str, Any]) -> None:
        """Commit the state of a dataset, if the last commit is some time ago."""
        if time.monotonic() - self._told >= self._every:
            self.commit(state)

    def commit(self, state: Mapping[str, Any]) -> None:
        """Commit the state of a dataset."""
        self._told = time.monotonic()
        with contextlib.suppress(KafkaException):
            offsets = [TopicPartition(self._name, lane["lane"], lane["scored"]["offset"]) for lane in state["lanes"]]
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        """Send what is on its way."""
        self._consumer.close()


def last_seq(config: Config, topic: str, lane: int, *, timeout: float = 60.0) -> int:
    """Return the seq of the last record of a lane, -1 if there is none."""
    name = topic_name(topic, config.namespace)
    consumer = Consumer({**config.client(), "group.id": "pairstream-python", "enable.auto.commit": False, "enable.metrics.push": False})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(name, lane), timeout=min(timeout, 10))
        until, at = time.monotonic() + timeout, high - 1
        while at >= low:
            consumer.assign([TopicPartition(name, lane, at)])
            message = consumer.poll(until - time.monotonic())
            if message is None or message.error():
                raise ReadTimeout(f"{name}, lane {lane}: offset {at} could not be read within {timeout:g} s: {message and message.error()}")
            digits = _text(dict(message.headers() or []).get(HEADER_SEQ))
            if _SEQ.fullmatch(digits):
                return int(digits)
            at -= 1
    except KafkaException as err:
        raise BrokerError(f"reading the end of {name}, lane {lane}: {err}") from err
    finally:
        consumer.close()
    return -1


def _text(raw: bytes | str | None) -> str:
    return raw if isinstance(raw, str) else (raw or b"").decode(errors="replace")
