from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from conftest import golden, pairstream, running_broker

from pairstream import (
    BrokerError,
    Config,
    DeliveryError,
    EndedError,
    GapError,
    InvalidError,
    MalformedError,
    PairProducer,
    Position,
    Reader,
    ReadTimeout,
    RecordError,
    SettingError,
    image_id,
    lane_of,
)  # fmt: skip
from pairstream.producer import Publisher
from pairstream.records import Pair, ScoredBatch, Seal
from pairstream.topics import BATCHES, PAIRS, SCORED, topic_name

NewLog = Callable[..., Config]


def read_all(config: Config, lanes: int) -> list[list[Pair | Seal]]:
    """Return what lies in pairs, lane by lane."""
    out: list[list[Pair | Seal]] = []
    for lane in range(lanes):
        records = []
        with Reader(config, PAIRS, lane) as reader:
            while (message := reader.poll(lane, 0.7)) is not None:
                record = message.record()
                assert isinstance(record, (Pair, Seal)) and message.seq == -1
                records.append(record)
        out.append(records)
    return out


def test_pairs_come_back(new_log: NewLog) -> None:
    config = new_log(lanes=3)
    encoded = b"\xff\xd8 bytes of a JPEG file"
    with PairProducer(config) as producer:
        assert producer.lanes == 3
        inline = producer.send(encoded, "a cat \u2013 \u732b", source="test", crawl_time=5)
        ref = producer.send(encoded, "a cat", uri="s3://crawl/0.tar", offset=1536)
        producer.seal(final=True, note="over")
        with pytest.raises(EndedError, match="lane 0 has ended"):
            producer.send(encoded, "behind the end")
    lanes = read_all(config, 3)
    seals = [lane[-1] for lane in lanes]
    assert isinstance(seals[0], Seal) and seals[0].id and all(seal == seals[0] for seal in seals)
    assert (seals[0].final, seals[0].note) == (True, "over")
    with PairProducer(config) as late:
        for put_behind in (lambda: late.send(encoded, "behind the end"), late.seal):
            with pytest.raises(EndedError, match=r"lane 0 has ended with a final seal .*note 'over'"):
                put_behind()
    pairs = {p.id: p for lane in lanes for p in lane if isinstance(p, Pair)}
    assert set(pairs) == {inline, ref}
    for i, lane in enumerate(lanes):
        assert all(lane_of(p.image_id, 3) == i for p in lane if isinstance(p, Pair))
    assert bytes(pairs[inline].inline) == encoded and pairs[inline].image is None and pairs[inline].crawl_time == 5
    image = pairs[ref].image
    assert image is not None and (image.uri, image.offset, image.size) == ("s3://crawl/0.tar", 1536, len(encoded))
    assert pairs[ref].image_id == image_id(encoded)


def put(config: Config, topic: str, lane: int, *seqs: int, value: bytes | None = None) -> None:
    schema, default = golden("scored-batch")
    with Publisher(config) as publisher:
        for seq in seqs:
            publisher.put(topic, lane, schema, value if value is not None else default, seq=seq)


def test_reader_drops_repetitions_and_stops_at_gaps(new_log: NewLog) -> None:
    config = new_log()
    put(config, SCORED, 1, 0, 1, 1, 0, 1, 2, 4)
    with Reader(config, SCORED, [0, 1], timeout=10) as reader:
        got = [reader.next(1) for _ in range(3)]
        assert [m.seq for m in got] == [0, 1, 2] and all(isinstance(m.record(), ScoredBatch) for m in got)
        assert got[-1].after == reader.position(1) and reader.position(0) == Position()
        with pytest.raises(GapError, match="records 3 to 3 are missing"):
            reader.next(1)
    with Reader(config, SCORED, {1: got[0].after}, timeout=10) as reader:
        assert reader.next(1).seq == 1


def test_reader_waits_no_longer_than_its_timeout(new_log: NewLog) -> None:
    started = time.monotonic()
    with Reader(new_log(), SCORED, 0, timeout=0.5) as reader, pytest.raises(ReadTimeout, match="lane 0: no record within 0.5 s"):
        reader.next(0)
    assert time.monotonic() - started < 10


def test_position_that_the_log_does_not_have(new_log: NewLog) -> None:
    config = new_log()
    put(config, SCORED, 0, 0)
    with Reader(config, SCORED, {0: Position(99, 99)}, timeout=20) as reader, pytest.raises(GapError, match="offset 99 is wanted"):
        reader.next(0)


def test_records_that_no_stage_has_written(new_log: NewLog) -> None:
    config = new_log()
    name = topic_name(SCORED, config.namespace)
    foreign = Producer({"bootstrap.servers": config.brokers[0]})
    for headers in ([], [("seq", b"01")], [("seq", b"-1")], [("seq", b"x")]):
        foreign.produce(name, b"x", partition=0, headers=headers)
    foreign.flush(10)
    put(config, SCORED, 0, 0, value=b"\x80")
    with Reader(config, SCORED, 0, timeout=10) as reader:
        for _ in range(4):
            with pytest.raises(MalformedError, match="no sequence number"):
                reader.next(0)
        with pytest.raises(InvalidError, match=r"scored, lane 0, offset 4: decoding pairstream.scored_batch/1"):
            reader.next(0).record()


def test_reads_far_ahead_lanes_within_bounds(new_log: NewLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pairstream.reader._MAX_AHEAD", 1000)
    config = new_log()
    put(config, SCORED, 0, *range(50))
    put(config, SCORED, 1, *range(50))
    with Reader(config, SCORED, [0, 1], timeout=20) as reader:
        assert [reader.next(1).seq for _ in range(50)] == list(range(50))
        assert reader._paused and reader._bytes[0] < 8000
        assert [reader.next(0).seq for _ in range(50)] == list(range(50))


def test_topics_that_are_not_there(new_log: NewLog) -> None:
    config = Config(brokers=new_log().brokers, namespace="nowhere")
    with pytest.raises(BrokerError, match="nowhere.pairs"):
        PairProducer(config, timeout=5)
    with Reader(config, SCORED, 0, timeout=20) as reader, pytest.raises(BrokerError, match="lane"):
        reader.next(0)
    with Reader(new_log(), SCORED, [2, 3], timeout=20) as reader, pytest.raises(BrokerError, match="lane|partition"):
        reader.next(2)


def test_no_broker_at_all() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        config = Config(brokers=(f"127.0.0.1:{s.getsockname()[1]}",))
        with pytest.raises(BrokerError, match="KAFKA_BROKERS"):
            PairProducer(config, timeout=1)
        with Reader(config, SCORED, 0, timeout=1) as reader, pytest.raises(ReadTimeout, match="trouble with the brokers"):
            reader.next(0)
        publisher = Publisher(config, timeout=1)
        publisher.publish(PAIRS, 0, Seal())
        with pytest.raises(DeliveryError):
            publisher.flush()
        with pytest.raises(DeliveryError):
            publisher.publish(PAIRS, 0, Seal())


def test_backpressure_ends(broker: str) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        publisher = Publisher(Config(brokers=(f"127.0.0.1:{s.getsockname()[1]}",)), timeout=2, max_bytes=1)
        with pytest.raises(DeliveryError):
            for _ in range(100):
                publisher.put(PAIRS, 0, Pair.SCHEMA, bytes(1 << 20))


def test_broker_gone_for_a_while(tmp_path: Path) -> None:
    """Reading and writing go on when the broker is back."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    config = Config(brokers=(address,), namespace="gone")
    with running_broker(tmp_path, address):
        pairstream("topics", "create", KAFKA_BROKERS=address, NAMESPACE="gone", LANES="1")
        put(config, SCORED, 0, 0)
        reader, publisher = Reader(config, SCORED, 0, timeout=60), Publisher(config)
        assert reader.next(0).seq == 0
    publisher.put(SCORED, 0, *golden("scored-batch"), seq=1)
    back = threading.Event()

    def come_back() -> None:
        time.sleep(2)
        with running_broker(tmp_path, address):
            back.wait(90)

    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        assert reader.next(0).seq == 1
        publisher.close()
        reader.close()
    finally:
        back.set()
        thread.join()


def test_values_that_are_refused_are_not_sent(new_log: NewLog) -> None:
    config = new_log()
    with PairProducer(config) as producer:
        with pytest.raises(InvalidError, match="caption is empty"):
            producer.send(b"x", " ")
        with pytest.raises(RecordError, match="inline image of"):
            producer.send(bytes((20 << 20) + 1), "x")
    assert read_all(config, 3) == [[], [], []]


def test_an_error_in_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), Publisher(Config(brokers=("127.0.0.1:9",)), timeout=1) as publisher:
        publisher.publish(PAIRS, 0, Seal())
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"KAFKA_BROKERS": "nowhere"}, "KAFKA_BROKERS=nowhere: want host:port"),
        ({"KAFKA_TLS": "maybe"}, "KAFKA_TLS is 'maybe'"),
        ({"KAFKA_TLS_CA": "/etc/passwd"}, "no effect without KAFKA_TLS=true"),
        ({"KAFKA_TLS": "true", "KAFKA_TLS_CA": "/nowhere"}, "is no file"),
        ({"KAFKA_TLS": "true", "KAFKA_TLS_CERT": "/etc/passwd"}, "set both or none"),
        ({"KAFKA_TLS_SERVER_NAME": "x"}, "KAFKA_TLS_SERVER_NAME"),
        ({"KAFKA_SASL": "GSSAPI"}, "KAFKA_SASL=GSSAPI"),
        ({"KAFKA_SASL": "PLAIN"}, "set all or none"),
    ],
)
def test_settings_that_are_refused(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Config.from_env(environ)


def test_settings() -> None:
    assert Config.from_env({}) == Config()
    config = Config.from_env({
        "KAFKA_BROKERS": "a:1, b:2", "NAMESPACE": "exp", "KAFKA_TLS": "true", "KAFKA_TLS_CA": "/etc/passwd", "KAFKA_SASL": "SCRAM-SHA-512",
        "KAFKA_SASL_USER": "u", "KAFKA_SASL_PASSWORD": "secret",
    })  # fmt: skip
    assert "secret" not in repr(config)
    client = config.client()
    assert (client["bootstrap.servers"], client["security.protocol"]) == ("a:1,b:2", "SASL_SSL")
    assert (client["sasl.mechanism"], client["sasl.password"], client["ssl.ca.location"]) == ("SCRAM-SHA-512", "secret", "/etc/passwd")
    assert topic_name(BATCHES, config.namespace) == "exp.batches"
