"""What was published of which tar: the notes in the topic `sources`, as internal/crawl/dataset keeps them.

A tar gives its messages in a fixed order. Its note says how many of them are in the log for sure, with a digest, and an
offset of every lane before which none of the others lies. So a producer that goes on reads what lies behind these offsets,
and publishes what it does not find there. A producer in Go goes on where one in Python was killed, and the other way round.

Messages go out in blocks. Before each, notes say how far the blocks before it have come.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ._log import contents, ends, final_seals
from ._paths import file_uri, unreadable
from ._scan import Example, Problem, Scanner
from ._table import Row, TableError, beside, need_pyarrow
from ._table import read as read_table
from .errors import MalformedError, PairstreamError
from .ids import lane_of
from .producer import PairProducer, refuse_ended
from .reader import topic_id
from .records import Pair, Seal, marshal
from .topics import PAIRS, SOURCES

BLOCK_MESSAGES = 1 << 14
BLOCK_BYTES = 8 << 20


@dataclass(slots=True)
class Totals:
    """What was found in tars and published."""

    tars: int = 0  # read to their end
    examples: int = 0
    pairs: int = 0  # published
    problems: Counter[str] = field(default_factory=Counter)  # found, by reason; each is a record for the dead letters
    seals: int = 0
    before: int = 0  # messages that an earlier run has published, of tars that were read again
    done: int = 0  # tars that an earlier run has published, and that were not read
    ignored: dict[str, tuple[int, str]] = field(default_factory=dict)  # files that are no part of a pair: how many and the first, by what to do
    changed: list[str] = field(default_factory=list)  # sources that are others now than when they were published

    def _assign(self, other: Totals) -> None:
        for name in ("tars", "examples", "before"):
            setattr(self, name, getattr(other, name))
        self.problems = Counter(other.problems)


class ChangedError(Exception):
    """A source does not begin with what was published of it."""


@dataclass(slots=True)
class Note:
    """A note of the topic `sources`."""

    uri: str
    size: int = 0
    version: str = ""  # changes whenever the source does; empty: not known
    messages: int = 0
    digest: str = ""  # of these messages
    ends: list[int] | None = None
    done: bool = False  # there are no other messages
    before: list[int] | None = None  # done: all messages lie before these offsets of the lanes
    topic: str = ""  # id of the topic that has them; empty: not known
    held_out: int = 0

    def encode(self) -> bytes:
        """Return the note in the bytes that Go writes."""
        out: dict[str, Any] = {"uri": self.uri, "size": self.size}
        out |= {"version": self.version} if self.version else {}
        out |= {"messages": self.messages, "digest": self.digest}
        out |= {"ends": self.ends} if self.ends else {}
        out |= {"done": True} if self.done else {}
        out |= {"before": self.before} if self.before else {}
        out |= {"topic": self.topic} if self.topic else {}
        out |= {"held_out": self.held_out} if self.held_out else {}
        text = json.dumps(out, separators=(",", ":"), ensure_ascii=False)
        for c in "&<>":  # in URIs alone
            text = text.replace(c, f"\\u{ord(c):04x}")
        return text.encode()

    @classmethod
    def decode(cls, key: str, value: bytes) -> Note:
        """Read a note; keys that are not known are ignored."""
        try:
            found = json.loads(value)
            note = cls(**{name: found[name] for name in cls.__slots__ if name in found})
            lanes = [*(note.ends or []), *(note.before or [])]
            ok = all(isinstance(n, int) for n in (note.size, note.messages, note.held_out, *lanes)) and isinstance(note.version, str) and isinstance(note.topic, str)
        except (ValueError, TypeError) as err:
            raise MalformedError(f"note of {key} in topic {SOURCES}: {err}") from err
        if not ok or not isinstance(note.digest, str):
            raise MalformedError(f"note of {key} in topic {SOURCES}: {value[:200]!r}")
        return note


class Source:
    """A tar that is being read, or a path that is none."""

    def __init__(self, path: str, lost: Problem | None = None) -> None:
        self.path, self.lost = path, lost
        self.table = "" if lost else beside(path)
        self.note = Note(lost.uri if lost else file_uri(path))
        if not lost:
            self.note.size, self.note.version = _stamp(path)
        self.final: Note | None = None  # its last note, when it is published to its end
        self.whole = False  # all of it is published: it is not read
        self.trouble = ""  # why it could not be read to its end
        self.scanner: Scanner | None = None
        self.forget()

    def forget(self) -> None:
        """Begin the source anew."""
        self.read = self.skip = self.before = 0  # messages: so far, published before, of the totals' before
        self.want = ""
        self._digest = hashlib.sha256()
        self.note.messages, self.note.digest = 0, ""

    def take(self, value: bytes) -> bool:
        """Count a message; True if it was published before."""
        self._digest.update(_uvarint(len(value)))
        self._digest.update(value)
        self.read += 1
        if self.read == self.skip and self.sum() != self.want:
            raise ChangedError
        return self.read <= self.skip

    def sum(self) -> str:
        """Return the digest of the messages so far."""
        return self._digest.hexdigest()[:32]

    def items(self) -> Iterator[Example | Problem]:
        """Yield what the tar gives; where it cannot be read, a problem says so, and the next run looks at it again."""
        self.trouble = ""
        if self.lost:
            yield self.lost
            return
        try:
            with open(self.path, "rb") as file:
                rows, problem = self._rows()
                if problem:
                    yield problem
                self.scanner = Scanner(file, self.note.uri, rows)
                yield from self.scanner.run()
        except OSError as err:
            self.note.version = ""
            problem = unreadable(self.path, err)
            self.trouble = problem.detail
            yield problem


    def check(self) -> None:
        """Raise SettingError if something is missing to read the source."""
        if self.table:
            need_pyarrow(self.table)

    def _rows(self) -> tuple[dict[str, Row], Problem | None]:
        """Return the rows of the table beside the tar; without one that can be used, why the pairs go without its columns."""
        if not self.table:
            return {}, None
        try:
            return read_table(self.table), None
        except OSError as err:
            why = unreadable(self.table, err).detail
        except TableError as err:
            why = str(err)
        return {}, Problem(file_uri(self.table), 0, "", "sidecar_broken", f"the pairs of the tar go without its columns: {why}")


def _stamp(path: str) -> tuple[int, str]:
    """Return the size and the time of a file, as Go writes it; nothing if it cannot be asked."""
    try:
        info = Path(path).stat()
    except OSError:
        return 0, ""
    seconds, nanos = divmod(info.st_mtime_ns, 1_000_000_000)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    return info.st_size, f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def _uvarint(n: int) -> bytes:
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


@dataclass(frozen=True, slots=True)
class _Message:
    lane: int
    value: bytes
    pair: bool


def _name(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()[:16]


class Book:
    """Publishes sources in blocks, and notes how far they are."""

    def __init__(self, producer: PairProducer, totals: Totals, *, resume: bool) -> None:
        self.producer, self.totals = producer, totals
        self.known = self._notes() if resume else {}
        self.topic = topic_id(producer.config, PAIRS, timeout=producer.timeout)
        self.ends = self._ends() if self.known else []  # of the lanes, when the run began
        self.ended = final_seals(producer.config, producer.lanes, timeout=producer.timeout)
        self.begin: list[int] = []  # the lowest of the known ends
        self.there: Counter[bytes] = Counter()  # messages behind them
        self.block: list[_Message] = []
        self.bytes = 0
        self.touched: list[Source] = []  # by the block
        self.done: list[Note] = []  # to be noted when all before the block is acknowledged
        self.final: dict[str, Note] = {}

    def _notes(self) -> dict[str, Note]:
        latest: dict[str, bytes] = {}
        for message in contents(self.producer.config, SOURCES, {0: 0}, timeout=self.producer.timeout):
            key = message.key() or b""
            latest[key.decode(errors="replace") if isinstance(key, bytes) else key] = message.value() or b""
        return {key: Note.decode(key, value) for key, value in latest.items() if value}

    def plan(self, sources: list[Source]) -> None:
        """Look up how much of the sources is published, and read what lies in the log behind that."""
        starts: list[list[int]] = []
        for source in sources:
            self._recognise(source)
            was = self.known.get(source.note.uri)
            if not source.whole and was and was.ends:
                starts.append(was.ends)
        lanes = self.producer.lanes
        for start in starts:
            if len(start) != lanes:
                raise PairstreamError(f"a source was published to {len(start)} lanes: the topic has {lanes}, LANES wants {len(start)}")
        if starts:
            self.begin = [min(column) for column in zip(*starts, strict=True)]
            for message in contents(self.producer.config, PAIRS, dict(enumerate(self.begin)), timeout=self.producer.timeout):
                self.there[_name(message.value() or b"")] += 1

    def _recognise(self, source: Source) -> None:
        note, was = source.note, self.known.get(source.note.uri)
        if was is None:
            return
        self._holds(was)
        if was.held_out:
            raise PairstreamError(
                f"{note.uri}: {was.held_out} images were held out when it was published, and 0 now: with others held out, a model would be measured on "
                "pairs that it was trained on. Go on with `pairstream produce --holdout`, or publish everything again with resume=False (--no-resume)"
            )
        if was.done and was.version and (was.version, was.size) == (note.version, note.size):
            self.final[note.uri] = source.final = was
            source.whole = True
            self.totals.done += 1
            return
        source.skip, source.want = was.messages, was.digest
        note.messages, note.digest = was.messages, was.digest

    def _ends(self) -> list[int]:
        return [high for _, high in ends(self.producer.config, PAIRS, self.producer.lanes, timeout=self.producer.timeout)]

    def _holds(self, was: Note) -> None:
        """Raise PairstreamError when the log cannot have what a note says of it."""
        remedy = "publish it again with resume=False (--no-resume), which publishes everything"
        if was.topic and self.topic and was.topic != self.topic:
            raise PairstreamError(
                f"{was.uri} was published to the topic pairs with id {was.topic}, and now the topic has id {self.topic}: it was made anew, and the pairs are gone: {remedy}"
            )
        for reached in (was.ends or [], was.before or []):
            for lane, (end, least) in enumerate(zip(self.ends, reached, strict=False)):
                if end < least:
                    raise PairstreamError(
                        f"{was.uri} was published when lane {lane} of the topic pairs had {least} records, and now it has {end}: "
                        f"the topic was made anew or has lost records: {remedy}"
                    )

    def publish(self, source: Source) -> None:
        """Publish what a source gives, behind what is published already. One that has changed is published anew."""
        totals = Totals()
        totals._assign(self.totals)
        try:
            self._read(source)
        except ChangedError:  # nothing of it was published yet
            self.totals._assign(totals)
            self.totals.changed.append(source.note.uri)
            source.forget()
            self._read(source)
        note = source.note
        source.final = Note(note.uri, note.size, note.version, source.read, source.sum(), done=True)
        self.final[note.uri] = source.final
        if not self._in_block(source):
            self.done.append(source.final)

    def _in_block(self, source: Source) -> bool:
        return bool(self.touched) and self.touched[-1] is source

    def _read(self, source: Source) -> None:
        for item in source.items():
            if isinstance(item, Problem):
                self.totals.problems[item.reason] += 1
                self._take(source, item.about(), item.record(), pair=False)
                continue
            self.totals.examples += 1
            for pair in item.pairs():
                self._take(source, pair.image_id, marshal(pair), pair=True)
        if source.read < source.skip:
            raise ChangedError
        self.totals.tars += source.path != "" and not source.trouble
        if source.scanner:
            ignored = {why: (n, f"{name} of {source.note.uri}") for why, (n, name) in source.scanner.ignored.items()}
            if not source.scanner.examples:
                why = "tars are compressed: decompress them first, as references name places in a tar" if source.scanner.packed else "tars gave no pair"
                ignored[why] = (1, source.note.uri)
            for why, (n, name) in ignored.items():
                before, first = self.totals.ignored.get(why, (0, name))
                self.totals.ignored[why] = (before + n, first)

    def _take(self, source: Source, image: bytes, value: bytes, *, pair: bool) -> None:
        if source.take(value):
            self.totals.before += 1
        else:
            if not self._in_block(source):
                self.touched.append(source)
            self.block.append(_Message(lane_of(image, self.producer.lanes), value, pair))
            self.bytes += len(value)
        if len(self.block) >= BLOCK_MESSAGES or self.bytes >= BLOCK_BYTES:
            self._commit()
            source.note.messages, source.note.digest = source.read, source.sum()

    def _commit(self) -> None:
        """Publish the open block."""
        missing = self._missing()
        notes, self.done = self.done, []
        if missing:
            refuse_ended(self.ended)
            begin = self.begin  # some of the block lies behind it
            if len(missing) == len(self.block):
                begin = self._ends()
            notes += [Note(s.note.uri, s.note.size, s.note.version, s.note.messages, s.note.digest, begin) for s in self.touched]
        self._note(notes)
        for message in missing:
            self.producer.put(PAIRS, message.lane, Pair.SCHEMA, message.value)
            self.totals.pairs += message.pair
        self.done += [s.final for s in self.touched if s.final]
        self.block, self.bytes, self.touched = [], 0, []

    def _missing(self) -> list[_Message]:
        """Return the messages of the block that are not in the log yet."""
        if not self.there:
            return self.block
        missing = []
        for message in self.block:
            name = _name(message.value)
            if self.there[name] > 0:
                self.there[name] -= 1
                self.totals.before += 1
            else:
                missing.append(message)
        return missing

    def _note(self, notes: list[Note]) -> None:
        """Write notes once all before them is acknowledged, and wait for them. Those that are done say where all of it lies."""
        self.producer.flush()
        before = self._ends() if any(note.done for note in notes) else []
        for note in notes:
            note.topic = self.topic
            note.before = before if note.done else None
            self.producer.note(SOURCES, note.uri, note.encode())
        self.producer.flush()

    def close(self) -> None:
        """Publish the last block, and wait until all is noted."""
        if self.block:
            self._commit()
        self._note(self.done)
        self.done = []

    def seal(self) -> None:
        """End every lane, for good. A run that is repeated writes the same seals, and those alone that are missing."""
        digest = hashlib.sha256()
        for uri in sorted(self.final):
            note = self.final[uri]
            digest.update(f'"{uri}" {note.messages} {note.digest} {note.held_out}\n'.encode())
        seal = Seal(final=True, id=digest.hexdigest()[:16])
        refuse_ended({lane: was for lane, was in self.ended.items() if was.id != seal.id})
        for lane in range(self.producer.lanes):
            if lane not in self.ended:
                self.totals.seals += 1
                self.producer.publish(PAIRS, lane, seal)
        self.producer.flush()
