"""What goes wrong around a trainer: it goes on, or ends in a documented exception, and the next run ends where none went wrong."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from conftest import pairstream, running_broker
from crawl import Picture, batch, draw, score
from test_trainer import Job, features, progress
from train_once import new_trainer, weights

from pairstream import Config, DeliveryError, GapError, PairstreamError, errors
from pairstream.producer import Publisher
from pairstream.records import Seal
from pairstream.topics import FEATURES, SCORED, topic_name

NewLog = Callable[..., Config]
GONE = float(os.environ.get("PAIRSTREAM_GONE", "3"))  # seconds


@pytest.fixture
def pictures(tmp_path: Path) -> list[Picture]:
    return draw(tmp_path)


class OwnBroker:
    """A broker that a test may stop, and start again at the same address with the same data."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        self.folder = folder
        self.start()

    def start(self) -> None:
        self.running = running_broker(self.folder, self.address)
        self.running.__enter__()

    def stop(self) -> None:
        self.running.__exit__()

    def away(self, seconds: float) -> threading.Thread:
        """Stop now, and start in so many seconds."""
        self.stop()

        def come_back() -> None:
            time.sleep(seconds)
            self.start()

        thread = threading.Thread(target=come_back)
        thread.start()
        return thread


def crawl_on(broker: OwnBroker, namespace: str, pictures: list[Picture]) -> Config:
    pairstream("topics", "create", KAFKA_BROKERS=broker.address, NAMESPACE=namespace, LANES="2")
    config = Config(brokers=(broker.address,), namespace=namespace)
    score(config, pictures, 2, counts=[4, 4])
    return config


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broker_that_is_gone_for_a_while(pictures: list[Picture], tmp_path: Path, workers: int) -> None:
    """Shorter than the timeout: the run goes on. It is stopped in the middle of a step, with features on their way."""
    broker = OwnBroker(tmp_path / "broker")
    try:
        whole, config = crawl_on(broker, "whole", pictures), crawl_on(broker, "gone", pictures)
        options: dict[str, Any] = {"timeout": GONE + 60, "patience": GONE + 60}
        want = new_trainer(whole, tmp_path / "whole", **options)
        assert want.run() == 8
        published = features(whole, 2)
        away: list[threading.Thread] = []
        trainer = new_trainer(
            config, tmp_path / "c", workers=workers, **options,
            observe=lambda step, output, batch: away.append(broker.away(GONE)) if step == 3 and not away else None,
        )  # fmt: skip
        assert trainer.run() == 8 and weights(trainer.model) == weights(want.model)
        away[0].join()
        assert features(config, 2) == published
    finally:
        broker.stop()


def test_a_broker_that_is_gone_for_longer_than_the_timeout(pictures: list[Picture], tmp_path: Path) -> None:
    broker = OwnBroker(tmp_path / "broker")
    try:
        whole, config = crawl_on(broker, "whole", pictures), crawl_on(broker, "gone", pictures)
        want = new_trainer(whole, tmp_path / "whole")
        want.run()
        trainer = new_trainer(config, tmp_path / "c", timeout=2, patience=2, observe=lambda step, *_: broker.stop() if step == 3 else None)
        with pytest.raises(DeliveryError, match="lane"):
            trainer.run()
        broker.start()
        again = new_trainer(config, tmp_path / "c")
        assert again.step in (2, 4) and again.run() == 8
        assert weights(again.model) == weights(want.model) and features(config, 2) == features(whole, 2)
    finally:
        broker.stop()


def test_features_that_the_brokers_refuse(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    whole, config = new_log(lanes=1), new_log(lanes=1)
    for log in (whole, config):
        score(log, pictures, 1, counts=[4])
    want = new_trainer(whole, tmp_path / "whole")
    want.run()

    def allow(size: int) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic_name(FEATURES, config.namespace), incremental_configs=[
            ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET),
        ])  # fmt: skip
        admin = AdminClient({"bootstrap.servers": config.brokers[0]})
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(10)

    trainer = new_trainer(config, tmp_path / "c", every=1, observe=lambda step, *_: allow(100) if step == 0 else None)
    with pytest.raises(DeliveryError, match=rf"publishing to {config.namespace}.features, lane 0: .*(size|large)"):
        trainer.run()
    allow(1 << 20)
    again = new_trainer(config, tmp_path / "c", every=1)
    assert again.step <= 1 and again.run() == 4
    assert weights(again.model) == weights(want.model) and features(config, 1) == features(whole, 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_gap_in_a_lane(new_log: NewLog, pictures: list[Picture], tmp_path: Path, workers: int) -> None:
    config = new_log(lanes=2)
    score(config, pictures, 2, counts=[3, 2], end=False)
    with Publisher(config) as publisher:
        publisher.publish(SCORED, 0, batch(pictures, 0, 3), seq=7)
        publisher.publish(SCORED, 1, Seal(final=True), seq=4)
    for _ in range(2):
        trainer = new_trainer(config, tmp_path / "c", every=1, workers=workers)
        with pytest.raises(GapError, match="lane 0, offset 6: records 6 to 6 are missing"):
            trainer.run()
        assert trainer.step == 5, "all before the gap is trained on and saved"
    assert [len(lane) for lane in features(config, 2)] == [3, 2]


def test_images_that_are_missing_are_counted(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    """In every batch, and in the reports, which say how many since the last one."""
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[12], n=4)
    place = Path(pictures[0].ref.uri.removeprefix("file://"))
    raw = bytearray(place.read_bytes())
    for p in (pictures[5], pictures[9]):
        raw[p.ref.offset : p.ref.offset + 4] = b"gone"
    place.write_bytes(raw)
    dropped: list[int] = []
    trainer = new_trainer(config, tmp_path / "c", every=0, observe=lambda step, output, batch: dropped.append(batch.dropped))
    assert trainer.run() == 12
    assert sum(dropped) == 4 and max(dropped) == 1, "24 pictures, 48 samples: each picture twice"
    reports = [r for r in progress(config) if r.kind == "step"]
    assert [r.step for r in reports] == [0, 10] and [r.values["dropped"] for r in reports] == [sum(dropped[:1]), sum(dropped[1:11])]


def test_a_folder_in_use_ends_all_ranks(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    config = new_log(lanes=2)
    score(config, pictures, 2)
    holder = new_trainer(config, tmp_path / "c")
    job = Job(config, tmp_path / "c", world=2)
    for process in job.ranks:
        _, said = process.communicate(timeout=120)
        assert process.returncode != 0 and "another job is training there" in said
    assert holder.run() == 8


def test_a_rank_that_fails_ends_the_others(new_log: NewLog, pictures: list[Picture], tmp_path: Path) -> None:
    """Rank 1 comes to a gap; rank 0 has more to do, and ends by itself."""
    config = new_log(lanes=2)
    score(config, pictures, 2, counts=[8, 2], end=False)
    with Publisher(config) as publisher:
        publisher.publish(SCORED, 1, Seal(), seq=9)
    job = Job(config, tmp_path / "c", world=2)
    said = [process.communicate(timeout=120)[1] for process in job.ranks]
    assert all(process.returncode != 0 for process in job.ranks)
    assert "GapError" in said[1] and "records 4 to 8 are missing" in said[1]
    assert list((tmp_path / "c").glob("checkpoint-*2.pt"))


def test_every_exception_is_documented() -> None:
    """The README names it, or the kind that it belongs to."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, PairstreamError)]
    named = tuple(k for k in kinds if f"`{k.__name__}`" in text and k is not PairstreamError)
    assert len(named) > 8 and not [k for k in kinds if not issubclass(k, named) and k is not PairstreamError]
