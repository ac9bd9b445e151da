"""What the tests share: the repository's files, and a broker of the repository's own binary."""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pairstream import Config

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "schemas/testdata/golden/v1"
BINARY = Path(os.environ.get("PAIRSTREAM_BIN", ROOT / "bin/pairstream"))
VECTORS = Path(os.environ.get("PAIRSTREAM_GOLDEN", ROOT / "testdata/golden"))


def golden(name: str) -> tuple[str, bytes]:
    """Return the schema and the bytes of a golden record."""
    schema, _, digits = (GOLDEN / f"{name}.hex").read_text().partition("\n")
    return schema, bytes.fromhex(digits.replace("\n", ""))


def pairstream(*args: str, **env: str) -> str:
    """Run the binary and return what it prints."""
    done = subprocess.run([str(BINARY), *args], env=os.environ | env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the embedded broker and yield its address."""
    if not BINARY.exists():
        if "PAIRSTREAM_BIN" in os.environ:
            pytest.fail(f"PAIRSTREAM_BIN is {BINARY}, which is no file")
        pytest.skip(f"{BINARY} is missing: make build, or PAIRSTREAM_BIN")
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(folder, "127.0.0.1:0") as (address, _):
        yield address


class running_broker:
    """A broker process with its data in a folder."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address

    def __enter__(self) -> tuple[str, subprocess.Popen[str]]:
        log = (self.folder / "log.txt").open("a+")
        self.process = subprocess.Popen(
            [str(BINARY), "broker", "--addr", self.address, "--data", str(self.folder / "data")], stdout=log, stderr=log, text=True
        )
        until = time.monotonic() + 30
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"127\.0\.0\.1:([1-9]\d+)", (self.folder / "log.txt").read_text().rpartition("starting")[2])
            if found:
                try:
                    Producer({"bootstrap.servers": found[0], "log_level": 0}).list_topics(timeout=5)
                except Exception:
                    time.sleep(0.1)
                else:
                    return found[0], self.process
            time.sleep(0.05)
        raise AssertionError((self.folder / "log.txt").read_text())

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def new_log(broker: str) -> Callable[..., Config]:
    """Return a function that makes the topics of a namespace of its own."""

    def make(lanes: int = 3) -> Config:
        config = Config(brokers=(broker,), namespace="py-" + uuid.uuid4().hex[:8])
        pairstream("topics", "create", KAFKA_BROKERS=broker, NAMESPACE=config.namespace, LANES=str(lanes))
        return config

    return make
