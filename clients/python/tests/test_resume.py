"""A producer that was killed goes on where it was, in either language, and a second run publishes what is new alone."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import BINARY
from test_shards import JPEG, add, by_go, notes, produced

from pairstream import Config, EndedError, MalformedError, PairProducer, PairstreamError, shards
from pairstream.__main__ import main
from pairstream._log import _Held, ends
from pairstream.producer import Publisher
from pairstream.topics import PAIRS, SOURCES

NewLog = Callable[..., Config]
LANES, TARS, IMAGES, CAPTIONS = 3, 4, 100, 100
ALL = TARS * IMAGES * CAPTIONS


def crawl(folder: Path, tars: int = TARS, images: int = IMAGES, captions: int = CAPTIONS) -> Path:
    """Write tars of images with many captions each, and some problems."""
    folder.mkdir(exist_ok=True)
    for n in range(tars):
        with tarfile.open(folder / f"{n}.tar", "w") as tar:
            for i in range(images):
                add(tar, f"{i:05}.jpg", JPEG + bytes([n, i]))
                add(tar, f"{i:05}.json", json.dumps({"captions": [f"image {i} of tar {n}, caption {c}" for c in range(captions)]}).encode())
    return folder


def publish(config: Config, *paths: Path, final: bool = True, resume: bool = True) -> shards.Totals:
    with PairProducer(config) as producer:
        return shards.publish(producer, paths, final=final, resume=resume)


def in_log(config: Config) -> int:
    return sum(high for _, high in ends(config, PAIRS, LANES, timeout=30))


def start(config: Config, language: str, folder: Path) -> subprocess.Popen[str]:
    """Start a producer in Go or in Python."""
    command = [str(BINARY)] if language == "go" else [sys.executable, "-m", "pairstream"]
    env = os.environ | {"KAFKA_BROKERS": config.brokers[0], "NAMESPACE": config.namespace, "LANES": str(LANES)}
    return subprocess.Popen([*command, "produce", "--final", str(folder)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def kill_at(config: Config, producer: subprocess.Popen[str], more: int) -> bool:
    """Kill a producer when so many records more are in the log; False if it ends before."""
    with _Held(config, PAIRS) as look:
        began = sum(look.bounds(lane, 30)[1] for lane in range(LANES))
        while sum(look.bounds(lane, 30)[1] for lane in range(LANES)) < began + more:
            if producer.poll() is not None:
                return False
    producer.send_signal(signal.SIGKILL)
    producer.communicate()
    return True


def firsts(lanes: list[list[tuple[str, bytes]]]) -> tuple[list[list[tuple[str, bytes]]], int]:
    """Return the first of equal records each, and the number of the others."""
    return [list(dict.fromkeys(lane)) for lane in lanes], sum(len(lane) - len(set(lane)) for lane in lanes)


def test_killed_at_any_moment_and_continued_by_the_other(new_log: NewLog, tmp_path: Path) -> None:
    """Python and Go take turns at being killed; the lanes hold what an undisturbed run of Go's publishes, in its order."""
    folder = crawl(tmp_path / "crawl")
    calm = new_log(LANES)
    by_go(calm, folder)
    want = produced(calm, LANES)
    assert sum(map(len, want)) == ALL + LANES
    draw, languages, kills = random.Random(17), itertools.cycle(["python", "go"]), 0
    while kills < 10:
        config = new_log(LANES)
        while kill_at(config, producer := start(config, next(languages), folder), draw.randrange(1, ALL // 8)):
            kills += 1
        out, _ = producer.communicate(timeout=120)
        assert producer.returncode == 0, out
        got, again = firsts(produced(config, LANES))
        assert got == want
        assert again <= ALL // 100, "more than a request that arrived after its producer was killed"
        held = in_log(config)
        totals = publish(config, folder)
        assert (totals.pairs, totals.done, in_log(config)) == (0, TARS, held)
        assert "published 0 pairs" in by_go(config, folder) and in_log(config) == held


def test_a_second_run_publishes_what_is_new(new_log: NewLog, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    config = new_log(LANES)
    one, two = crawl(tmp_path / "one", 2, 2, 3), crawl(tmp_path / "two", 1, 3, 3)
    assert publish(config, one, final=False).pairs == 12
    totals = publish(config, one, one, final=False)
    assert (totals.pairs, totals.done, totals.tars, in_log(config)) == (0, 2, 0, 12)
    os.utime(one / "0.tar")
    totals = publish(config, one, final=False)
    assert (totals.pairs, totals.done, totals.before, totals.changed) == (0, 1, 6, [])
    crawl(two, 1, 4, 3)
    (one / "1.tar").write_bytes((two / "0.tar").read_bytes())
    totals = publish(config, one, final=False)
    assert (totals.pairs, totals.examples, totals.changed) == (12, 4, [shards.file_uri(str(one / "1.tar"))])
    assert publish(config, one, final=False, resume=False).pairs == 18
    monkeypatch.setenv("KAFKA_BROKERS", config.brokers[0])
    monkeypatch.setenv("NAMESPACE", config.namespace)
    os.utime(one / "1.tar")
    assert main(["produce", "--final", str(one)]) == 0
    said = capsys.readouterr().out
    assert "published 0 pairs" in said and "1  tars were published before" in said and "12  pairs were published before" in said
    held = in_log(config)
    assert held == 12 + 12 + 18 + LANES
    assert publish(config, one).seals == 0 and in_log(config) == held
    for paths in ([one, two], [two]):
        with pytest.raises(EndedError, match="lane 0 has ended with a final seal"):
            publish(config, *paths)
    with pytest.raises(EndedError, match="final seal"):
        publish(config, one, resume=False)
    assert in_log(config) == held


def test_a_tar_that_has_grown_is_published_from_its_old_end(new_log: NewLog, tmp_path: Path) -> None:
    config = new_log(LANES)
    folder = crawl(tmp_path / "crawl", 1, 3, 3)
    publish(config, folder, final=False)
    crawl(folder, 1, 5, 3)
    assert "6 pairs" in by_go(config, folder).splitlines()[0]
    got, again = firsts(produced(config, LANES))
    assert sum(map(len, got)) == 15 + LANES and not again


def test_notes_are_those_of_go(new_log: NewLog, tmp_path: Path) -> None:
    """After every kill they are read by the other; here are their bytes, and what is refused."""
    ours, theirs = new_log(LANES), new_log(LANES)
    folder = crawl(tmp_path / "some & <tars>", 2, 3, 3)
    for second, nanos in ((0, 1), (1, 120_000_000), (1_700_000_000, 0)):
        os.utime(folder / "1.tar", ns=(0, second * 1_000_000_000 + nanos))
        publish(ours, folder)
        by_go(theirs, folder)
        assert notes(ours) == notes(theirs)
    with Publisher(ours) as publisher:
        uri = shards.file_uri(str(folder / "1.tar"))
        note = json.loads(notes(ours)[uri.encode()])
        assert note.pop("topic") == "ITS OWN" and len(note["before"]) == LANES
        publisher.note(SOURCES, uri, json.dumps(note | {"done": False, "ends": [0] * (LANES + 1), "new": 1}).encode())
    with pytest.raises(PairstreamError, match="published to 4 lanes: the topic has 3"):
        publish(ours, folder)
    for broken, words in (({"held_out": 5}, "5 images were held out"), ({"topic": "0" * 32}, "it was made anew"), ({"before": [1 << 20] * LANES}, "has lost records"), ({"topic": 7}, "note of file://"), ({"messages": "x"}, "note of file://"), ({"digest": None}, "note of file://")):
        with Publisher(ours) as publisher:
            publisher.note(SOURCES, uri, json.dumps(note | broken).encode())
        with pytest.raises(PairstreamError, match=words):
            publish(ours, folder)
    for raw in (b"[]", b"no JSON", b"7"):
        with Publisher(ours) as publisher:
            publisher.note(SOURCES, uri, raw)
        with pytest.raises(MalformedError, match="note of file://"):
            publish(ours, folder)


def test_what_cannot_be_read_is_looked_at_again(new_log: NewLog, tmp_path: Path) -> None:
    config = new_log(LANES)
    folder = crawl(tmp_path / "crawl", 2, 3, 3)
    whole = (folder / "1.tar").rename(tmp_path / "1.tar")
    (folder / "1.tar").symlink_to(tmp_path / "gone.tar")
    totals = publish(config, folder, final=False)
    assert (totals.pairs, totals.tars, totals.problems) == (9, 1, {"file_unreadable": 1})
    assert "published 0 pairs" in by_go(config, folder).splitlines()[0]
    held = in_log(config)
    assert held == 9 + 1 + LANES, "the problem is published once"
    whole.rename(tmp_path / "gone.tar")
    with pytest.raises(EndedError):
        publish(config, folder)
