"""Images of buckets: how often a bucket is asked, and what is kept on a disk."""

from __future__ import annotations

import errno
import os
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crawl import Picture, draw
from test_plans import write

from pairstream import SettingError
from pairstream.ids import image_id
from pairstream.records import ImageRef
from pairstream.torch import Images, PlannedTars, augment
from pairstream.torch.disk import Disk


class Bucket:
    """A store that counts what it is asked for, as fsspec gives it for a scheme."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects, self.asked = objects, Counter[str]()

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        self.asked[path] += 1
        return self.objects[path][start:end]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Bucket, list[Picture], Path]:
    """A tar in a bucket, and a plan of its images."""
    pictures = draw(tmp_path)
    store = Bucket({"crawl/0.tar": Path(pictures[0].ref.uri.removeprefix("file://")).read_bytes()})
    monkeypatch.setattr("pairstream.torch.images._remote", lambda scheme: store)
    pictures = [replace(p, ref=replace(p.ref, uri="s3://crawl/0.tar")) for p in pictures]
    return store, pictures, write(tmp_path / "plan", pictures)


def epochs(plan: Path, images: Images) -> list[list[str]]:
    return [b.texts for b in PlannedTars(plan, transform=augment(8), images=images)]


def test_neighbours_are_read_at_once_and_images_once(bucket: tuple[Bucket, list[Picture], Path], tmp_path: Path) -> None:
    """A plan of two epochs asks at most once for a mini-batch whose images lie together, and a run that follows asks for nothing."""
    store, _, plan = bucket
    want = epochs(plan, Images(roots=[], disk=tmp_path / "disk"))
    assert 0 < store.asked.total() <= 7, "24 images, one tar, seven mini-batches an epoch"
    store.asked.clear()
    assert epochs(plan, Images(roots=[], disk=tmp_path / "disk")) == want and not store.asked
    assert epochs(plan, Images(roots=[], cache_bytes=0)) == want and store.asked.total() == 14, "one for each mini-batch without a cache"


def test_far_images_are_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies between two images is read as well, up to 64 KiB, and up to 8 MiB at once."""
    store = Bucket({"crawl/a": os.urandom(20 << 20), "crawl/b": os.urandom(1 << 10)})
    monkeypatch.setattr("pairstream.torch.images._remote", lambda scheme: store)

    def asks(*ranges: tuple[str, int, int]) -> int:
        store.asked.clear()
        refs = [ImageRef(uri=f"s3://crawl/{name}", offset=offset, size=size) for name, offset, size in ranges]
        data = [store.objects[f"crawl/{name}"][offset : offset + size] for name, offset, size in ranges]
        images = Images(roots=[])
        images.announce(refs, [image_id(d) for d in data])
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(images.read, refs, map(image_id, data))) == data
        return store.asked.total()

    gap, run = 64 << 10, 8 << 20
    assert asks(("a", 0, 100), ("a", 100 + gap, 50), ("b", 0, 10)) == 2
    assert asks(("a", 0, 100), ("a", 101 + gap, 50)) == 2
    assert asks(("a", 0, run // 2), ("a", run // 2, run // 2)) == 1
    assert asks(("a", 0, run // 2), ("a", run // 2, run // 2 + 1)) == 2
    assert asks(("a", 7, 100), ("a", 7, 100), ("a", 50, 100)) == 1


def size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.glob("??/*"))


def test_the_disk_keeps_what_was_used_last(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 1000)
    kept = [bytes([i]) * 100 for i in range(10)]
    for i, data in enumerate(kept):
        disk.put(image_id(data), data)
        os.utime(disk._path(image_id(data)), (i, i))
    assert size(tmp_path) == 1000 and disk.get(image_id(kept[0])) == kept[0]
    disk.put(image_id(b"new"), b"new")
    assert size(tmp_path) <= 1000 and disk.get(image_id(b"new")) == b"new" and disk.get(image_id(kept[0])) and disk.get(image_id(kept[1])) is None
    disk.put(bytes(16), bytes(1001))
    assert disk.get(bytes(16)) is None
    (tmp_path / ".bytes").unlink()
    (tmp_path / "notes.txt").write_text("of the user")
    Disk(tmp_path, 200).put(image_id(b"more"), b"more")
    assert size(tmp_path) <= 200 and (tmp_path / "notes.txt").exists()


def test_processes_share_a_disk_within_its_bound(tmp_path: Path) -> None:
    """Each has its own Disk, and finds files whole whenever it looks."""
    images = [os.urandom(200) for _ in range(60)]

    def work(number: int) -> int:
        disk = pickle.loads(pickle.dumps(Disk(tmp_path, 3000)))
        most = 0
        for data in images[number % 3 :] + images:
            found = disk.get(image_id(data))
            assert found in (None, data)
            disk.put(image_id(data), data)
            most = max(most, int((tmp_path / ".bytes").read_text() or 0))
        return most

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(8))) <= 3000
    assert 0 < size(tmp_path) <= 3000 and size(tmp_path) == int((tmp_path / ".bytes").read_text())
    assert not list(tmp_path.glob("??/.*.tmp"))


def test_damage_and_full_disks_cost_a_read(bucket: tuple[Bucket, list[Picture], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, pictures, _ = bucket
    p = pictures[0]
    want = Images(roots=[], disk=tmp_path / "disk").read(p.ref, p.id)
    (kept,) = (tmp_path / "disk").glob("??/*")
    kept.write_bytes(b"damaged")
    assert Images(roots=[], disk=tmp_path / "disk").read(p.ref, p.id) == want and kept.read_bytes() == want and store.asked.total() == 2
    kept.unlink()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pairstream.torch.disk.tempfile.mkstemp", full)
    images = Images(roots=[], disk=tmp_path / "disk")
    with pytest.warns(RuntimeWarning, match="No space left on device") as told:
        assert images.read(p.ref, p.id) == want
        assert Images.read(images, pictures[1].ref, pictures[1].id)
    assert len(told) == 1
    with pytest.raises(SettingError, match="want a folder"):
        Images(disk=kept.parent.parent / ".bytes")
    with pytest.raises(SettingError, match="disk_bytes is 0"):
        Images(disk=tmp_path / "disk", disk_bytes=0)
