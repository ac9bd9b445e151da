from __future__ import annotations

import hashlib
import io
import os
import pickle
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import golden
from crawl import WORDS, Picture, batch, draw, score
from PIL import ExifTags, Image
from torch.utils.data import DataLoader

from pairstream import BucketError, CheckpointError, Config, GapError, ImageError, InvalidError, MalformedError, ReadTimeout, SettingError, image_id
from pairstream.picture import decode
from pairstream.producer import Publisher
from pairstream.records import ImageRef, Mask, ScoredBatch
from pairstream.rng import Generator, generator
from pairstream.topics import SCORED
from pairstream.torch import Batch, Images, ScoredBatches, augment, resize, seeded
from pairstream.torch.images import CLIP_MEAN, CLIP_STD, normalized
from pairstream.torch.wordpiece import WordPiece

NewLog = Callable[..., Config]
SIZE = 16


@pytest.fixture
def pictures(tmp_path: Path) -> list[Picture]:
    return draw(tmp_path)


def make(config: Config, **options: Any) -> ScoredBatches:
    return ScoredBatches(config, **{
        "transform": augment(SIZE), "tokenize": WordPiece(WORDS).padded(12), "seed": 3, "timeout": 30, "threads": 2, "positives": True, "rank": 0, "world": 1,
    } | options)  # fmt: skip


def digest(b: Batch) -> str:
    """A hash of everything that is in a batch."""
    h = hashlib.sha256(repr((b.lane, b.group, b.epoch, b.sequence, b.texts, b.dropped, b.after)).encode())
    for t in (b.positions, b.images, b.positives, b.i2t, b.t2i, b.prob_i2t, b.prob_t2i, b.same_image, *b.tokens.values()):
        h.update(repr((t.shape, t.dtype)).encode() + t.numpy().tobytes())
    return f"{b.lane}/{b.sequence} {h.hexdigest()}"


def digests(source: Iterable[Batch]) -> list[str]:
    return [digest(b) for b in source]


def test_the_same_batches_for_any_number_of_workers(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log()
    score(config, pictures, 3, counts=[4, 1, 3])
    want = digests(make(config))
    assert [w.split()[0] for w in want] == ["0/0", "1/0", "2/0", "0/1", "2/1", "0/2", "2/2", "0/3"]
    for workers in (1, 3):
        assert digests(DataLoader(make(config), batch_size=None, num_workers=workers)) == want
    assert digests(make(config, threads=1)) == want
    other = digests(make(config, seed=4))
    assert [w.split()[0] for w in other] == [w.split()[0] for w in want] and other != want


def test_second_views_and_ids(new_log: NewLog, pictures: list[Picture]) -> None:
    """A second view is another variation of the sample's own image, the same whenever it is drawn."""
    config = new_log()
    score(config, pictures, 1)
    first, again = (next(iter(make(config, second=True))) for _ in range(2))
    plain = next(iter(make(config)))
    assert first.second is not None and again.second is not None and plain.second is None
    assert torch.equal(first.second, again.second) and torch.equal(first.images, plain.images)
    assert first.second.shape == first.images.shape and not torch.equal(first.second, first.images)
    assert first.image_ids is not None
    equal = (first.image_ids[:, None] == first.image_ids[None]).all(2) & ~torch.eye(len(first), dtype=torch.bool)
    assert bool((first.same_image <= equal).all())


def test_ranks_have_lanes(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log()
    score(config, pictures, 3)
    parts = [digests(make(config, rank=r, world=2)) for r in range(2)]
    assert [len(p) for p in parts] == [8, 4] and all(d.startswith("1/") for d in parts[1])
    assert [digests(make(config, rank=None, world=None, lanes=[1]))] == [parts[1]]
    for rank, world in ((3, 3), (0, 0)):
        with pytest.raises(SettingError):
            make(config, rank=rank, world=world)
    with pytest.raises(SettingError, match="leave it none"):
        make(config, rank=3, world=4)


def test_goes_on_where_it_was(new_log: NewLog, pictures: list[Picture]) -> None:
    """N batches are k, save, load in another dataset, N-k: equal to the byte, wherever it stops."""
    config = new_log()
    score(config, pictures, 3, counts=[4, 1, 3])
    want = digests(make(config))
    for k in range(len(want) + 1):
        first, source = make(config), []
        iterator = iter(first)
        source = [digest(next(iterator)) for _ in range(k)]
        state = pickle.loads(pickle.dumps(first.state_dict()))
        iterator.close()  # type: ignore[attr-defined]
        second = make(config)
        second.load_state_dict(state)
        assert source + digests(DataLoader(second, batch_size=None, num_workers=k % 3)) == want if k % 3 == 0 or state["index"] == 0 else source + digests(second) == want
    third = make(config)
    third.load_state_dict(next(iter(make(config))).after)
    assert digests(DataLoader(third, batch_size=None, num_workers=2)) == want[1:]
    with pytest.raises(CheckpointError, match=r"state is of lanes \[0, 1, 2\], this rank has \[0, 2\]"):
        make(config, rank=0, world=2).load_state_dict(state)
    for other in ({}, None, {"lanes": [1]}, {"lanes": state["lanes"]}):
        with pytest.raises(CheckpointError, match=r"the state is .*: want one of ScoredBatches.state_dict"):
            make(config).load_state_dict(other)


def test_stateful_loader(new_log: NewLog, pictures: list[Picture]) -> None:
    """torchdata's loader saves and goes on with it, whatever its number of workers."""
    loader = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata needs PyTorch 2").StatefulDataLoader
    config = new_log()
    score(config, pictures, 3, counts=[4, 1, 3])
    want = digests(make(config))
    for workers in (0, 2):
        for k in (0, 1, 5):
            first = loader(make(config), batch_size=None, num_workers=workers)
            iterator = iter(first)
            got = [digest(next(iterator)) for _ in range(k)]
            state = pickle.loads(pickle.dumps(first.state_dict()))
            second = loader(make(config), batch_size=None, num_workers=workers)
            second.load_state_dict(state)
            assert got + digests(second) == want, (workers, k)


def test_what_is_in_a_batch(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[1])
    (b,) = make(config, transform=resize(SIZE))
    record = batch(pictures, 0, 0)
    assert len(b) == 6 and b.images.shape == (6, 3, SIZE, SIZE) and b.texts == [s.text for s in record.samples]
    assert torch.equal(b.i2t, torch.from_numpy(record.i2t.reshape(6, 2)).long()) and torch.equal(b.prob_t2i, torch.from_numpy(record.prob_t2i.reshape(6, 2)))
    assert b.positives is not None and not b.same_image.any() and b.positions.tolist() == list(range(6))
    for i in range(6):
        want = b.images[(i + 1) % 6] if i % 2 else b.images[i]
        assert torch.equal(b.positives[i], want)
    assert b.high == record.high == 0.875
    moved = b.to("cpu")
    assert moved is not b and torch.equal(moved.tokens["input_ids"], b.tokens["input_ids"]) and moved.texts == b.texts
    bare = next(iter(make(config, tokenize=None, positives=False)))
    assert bare.tokens is None and bare.positives is None


def test_a_sample_without_its_image_is_dropped_and_counted(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log(lanes=1)
    record = batch(pictures, 0, 0)
    place = Path(record.samples[2].image.uri.removeprefix("file://"))
    raw = bytearray(place.read_bytes())
    at = record.samples[2].image.offset
    raw[at : at + 4] = b"gone"
    place.write_bytes(raw)
    score(config, pictures, 1, counts=[1])
    (b,) = make(config, positives=False)
    assert b.dropped == 1 and b.positions.tolist() == [0, 1, 3, 4, 5]
    assert b.i2t.tolist() == [[1, -1], [2, -1], [3, 4], [4, 0], [0, 1]]  # 2 is out, those behind have moved up
    assert bool((b.prob_i2t[b.i2t == -1] == 0).all()) and b.prob_i2t[1, 0] == record.prob_i2t[3]
    (with_positives,) = make(config)
    assert with_positives.positions.tolist() == [0, 3, 4, 5], "sample 1 has lost its positive"
    place.write_bytes(bytes(len(raw)))
    with pytest.raises(ImageError, match="no sample of batch 0 of group 0/0"):
        list(make(config))


def test_masked_samples_are_dropped(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log(lanes=1)
    with Publisher(config) as publisher:
        masks = [Mask(sample=1, reason="missing"), Mask(sample=3, positive=True, reason="changed")]
        publisher.publish(SCORED, 0, batch(pictures, 0, 0, masked=masks), seq=0)
    b = next(iter(make(config, transform=resize(SIZE))))
    assert b.dropped == 1 and b.positions.tolist() == [0, 2, 3, 4, 5]
    assert b.positives is not None and torch.equal(b.positives[2], b.images[2])


def test_one_processor_decodes_alike(new_log: NewLog, pictures: list[Picture], monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with one processor decodes files without threads; with several it has threads."""
    config = new_log()
    score(config, pictures, 3, counts=[2, 1, 1])
    seen: set[str] = set()

    def transform(image: Image.Image, draw: Generator) -> torch.Tensor:
        seen.add(threading.current_thread().name)
        return augment(SIZE)(image, draw)

    monkeypatch.setattr("pairstream.torch.dataset.processors", lambda: 2)
    want = digests(make(config, transform=transform))
    assert threading.main_thread().name not in seen
    seen.clear()
    monkeypatch.setattr("pairstream.torch.dataset.processors", lambda: 1)
    assert digests(make(config, transform=transform)) == want and seen == {threading.main_thread().name}


def test_pixels_are_written_into_the_batch_as_they_are_copied(new_log: NewLog, pictures: list[Picture]) -> None:
    """What resize and augment write into a batch equals what any transform's tensors make, also where rows are missing."""
    config = new_log(lanes=1)
    lost = batch(pictures, 0, 0).samples[2].image
    place = Path(lost.uri.removeprefix("file://"))
    raw = bytearray(place.read_bytes())
    raw[lost.offset : lost.offset + 4] = b"gone"
    place.write_bytes(raw)
    score(config, pictures, 1, counts=[3])
    for written in (augment(SIZE), resize(SIZE)):
        want = list(make(config, transform=lambda image, draw, of=written: of(image, draw)))
        for workers in (0, 1):
            got = list(DataLoader(make(config, transform=written), batch_size=None, num_workers=workers))
            assert [b.dropped for b in got] == [b.dropped for b in want] and got[0].dropped
            for a, b in zip(got, want, strict=True):
                assert a.positives is not None and b.positives is not None
                assert torch.equal(a.images, b.images) and torch.equal(a.positives, b.positives)


def test_a_batch_goes_to_another_process_with_few_shared_tensors(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[1])
    (b,) = make(config)
    shared: list[object] = []

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: object) -> object:
            if isinstance(obj, torch.Tensor):
                shared.append(obj)
            return None

    b.images = torch.zeros(6, 3, 200, 200)
    file = io.BytesIO()
    Pickler(file).dump(b)
    assert [id(t) for t in shared] == [id(b.images)], "all others are small"
    again = pickle.loads(file.getvalue())
    assert digest(again) == digest(b) and type(again.tokens) is type(b.tokens)


def test_images_of_two_shapes_are_refused(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[1])
    sizes = iter([4, 4, 5])
    with pytest.raises(InvalidError, match=r"transform made torch.float32 of shape \[3, 5, 5\] after torch.float32 of shape \[3, 4, 4\]"):
        list(make(config, threads=1, positives=False, transform=lambda image, draw: torch.zeros(3, n := next(sizes), n)))


def test_what_ends_iteration(new_log: NewLog, pictures: list[Picture]) -> None:
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[1], end=False)
    source = iter(make(config, timeout=0.5))
    next(source)
    with pytest.raises(ReadTimeout, match="lane 0"):
        next(source)
    with Publisher(config) as publisher:
        publisher.put(SCORED, 0, *golden("pair-inline"), seq=2)
    with pytest.raises(InvalidError, match=r"pairstream.pair/1 does not belong"):
        list(make(config))
    with Publisher(config) as publisher:
        publisher.put(SCORED, 0, *golden("scored-batch"), seq=9)
    source = make(config)
    source.load_state_dict({"lanes": [{"lane": 0, "scored": {"offset": 3, "seq": 3}, "features": 1, "ended": False}], "turn": 0})
    with pytest.raises(GapError, match="records 3 to 8 are missing"):
        list(source)


def test_a_broken_batch_ends_iteration_at_its_place(new_log: NewLog, pictures: list[Picture]) -> None:
    """Whichever worker has it: the others do not decode it."""
    config = new_log(lanes=1)
    score(config, pictures, 1, counts=[2], end=False)
    with Publisher(config) as publisher:
        publisher.put(SCORED, 0, ScoredBatch.SCHEMA, b"\xc1", seq=4)
    for workers in (0, 2, 3):
        got = []
        with pytest.raises(MalformedError, match="offset 4"):
            for b in DataLoader(make(config, timeout=2), batch_size=None, num_workers=workers):
                got.append(b.sequence)
        assert got == [0, 1], workers


def test_pixels_are_normalized_exactly() -> None:
    levels = np.random.default_rng(1).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    want = (levels.astype(np.float32) / np.float32(255) - np.array(CLIP_MEAN, dtype=np.float32)) / np.array(CLIP_STD, dtype=np.float32)
    assert torch.equal(normalized(Image.fromarray(levels)), torch.from_numpy(want).permute(2, 0, 1))


def test_images(tmp_path: Path, pictures: list[Picture], monkeypatch: pytest.MonkeyPatch) -> None:
    p = pictures[0]
    monkeypatch.setenv("BUCKET_ROOTS", f"file://{tmp_path}, file:///other")
    images = Images()
    assert image_id(images.read(p.ref, p.id)) == p.id and images.decode(p.ref, p.id).size == (48, 40)
    folder = tmp_path / "folder"
    folder.mkdir()
    for uri, words in (
        ("file:///etc/passwd", "outside the bucket roots"), (f"file://{tmp_path}/../passwd", "outside the bucket roots"),
        (f"file://{tmp_path}/none.tar", "No such file"), (f"file://{folder}", "Is a directory"),
    ):  # fmt: skip
        with pytest.raises(ImageError, match=words):
            images.read(ImageRef(uri=uri, size=3), p.id)
    with pytest.raises(ImageError, match="do not have the image id"):
        images.read(p.ref, bytes(16))
    copy = ImageRef(uri=p.ref.uri, offset=p.ref.offset, size=p.ref.size, copy=p.id)
    assert image_id(images.read(copy, image_id(b"the image itself"))) == p.id
    with pytest.raises(ImageError, match="do not have the image id"):
        images.read(ImageRef(uri=copy.uri, offset=copy.offset, size=copy.size, copy=bytes([1]) * 16), p.id)
    end = Path(p.ref.uri.removeprefix("file://")).stat().st_size
    with pytest.raises(ImageError, match="ends before the image"):
        images.read(ImageRef(uri=p.ref.uri, offset=end - 1, size=2), p.id)
    advised: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, offset, size, advice: advised.append((offset, size)))
    missing, outside = ImageRef(uri=f"file://{tmp_path}/none.tar", size=3), ImageRef(uri="file:///etc/passwd", size=3)
    images.announce([p.ref, missing, outside, ImageRef(uri="s3://a/b.tar", size=3)])
    assert advised == [(p.ref.offset, p.ref.size)]
    for broken in (b"", b"no image", images.read(p.ref, p.id)[:60]):
        with pytest.raises(ImageError):
            decode(broken)


def test_links_lead_nowhere_out_of_a_root(tmp_path: Path, pictures: list[Picture], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, a folder on the way and a link to a link; links that stay inside are followed, and so is a root that is one."""
    p, root = pictures[0], tmp_path / "root"
    (root / "in").mkdir(parents=True)
    tar = Path(p.ref.uri.removeprefix("file://"))
    (root / "own.tar").write_bytes(tar.read_bytes())
    (root / "out.tar").symlink_to(tar)
    (root / "folder").symlink_to(tmp_path)
    (root / "in/link.tar").symlink_to("../out.tar")
    (root / "in/own.tar").symlink_to(root / "own.tar")
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2/own.tar").write_bytes(tar.read_bytes())
    (root / "beside.tar").symlink_to(tmp_path / "root2/own.tar")
    (tmp_path / "root is a link").symlink_to(root)
    os.mkfifo(root / "pipe.tar")

    def read(name: str, images: Images) -> bytes:
        return images.read(ImageRef(uri=f"file://{name}", offset=p.ref.offset, size=p.ref.size), p.id)

    advised: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, offset, size, advice: advised.append(offset))
    for images, base in ((Images(roots=[f"file://{root}"]), root), (Images(roots=[f"file://{tmp_path}/root%20is%20a%20link/"]), tmp_path / "root is a link")):
        for name in ("own.tar", "in/own.tar"):
            assert image_id(read(f"{base}/{name}".replace(" ", "%20"), images)) == p.id
        for name in ("out.tar", f"folder/{tar.name}", "in/link.tar", "beside.tar"):
            with pytest.raises(ImageError, match="leads out of the bucket roots"):
                read(f"{base}/{name}".replace(" ", "%20"), images)
            images.announce([ImageRef(uri=f"file://{base}/{name}".replace(" ", "%20"), size=3)])
        with pytest.raises(ImageError, match="no regular file"):
            read(f"{base}/pipe.tar".replace(" ", "%20"), images)
    assert not advised
    assert image_id(read(f"{root}/out.tar", Images(roots=[]))) == p.id, "without roots every place may be named"


class Bucket:
    """What fsspec gives for a scheme, with faults."""

    def __init__(self, faults: int, error: Exception) -> None:
        self.faults, self.error, self.reads = faults, error, 0

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        self.reads += 1
        if self.reads <= self.faults:
            raise self.error
        return (path + " " * 100).encode()[start:end]


def test_remote_images(monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = Bucket(2, ConnectionError("down"))
    monkeypatch.setattr("pairstream.torch.images._remote", lambda scheme: bucket)
    images = Images(roots=["s3://crawl/a"], cache_bytes=100, timeout=5)
    data = b"crawl/a/0.tar"
    ref = ImageRef(uri="s3://crawl/a/0.tar", size=len(data))
    assert images.read(ref, image_id(data)) == data and bucket.reads == 3
    assert images.read(ref, image_id(data)) == data and bucket.reads == 3, "it was kept"
    again = pickle.loads(pickle.dumps(images))
    assert again.read(ref, image_id(data)) == data and bucket.reads == 4
    for size in (60, 70):
        large = (b"crawl/a/0.tar" + b" " * 100)[:size]
        images.read(ImageRef(uri=ref.uri, size=size), image_id(large))
    assert images._size <= 100
    bucket.faults, bucket.reads = 1 << 30, 0
    images.timeout = 0.2
    with pytest.raises(BucketError, match="down"):
        images.read(ImageRef(uri=ref.uri, size=20), bytes(16))
    bucket.error = FileNotFoundError("gone")
    with pytest.raises(ImageError, match="gone"):
        images.read(ImageRef(uri=ref.uri, size=20), bytes(16))
    bucket.error = ImportError("s3fs")
    with pytest.raises(SettingError, match="pip install what fsspec needs"):
        images.read(ImageRef(uri=ref.uri, size=20), bytes(16))
    with pytest.raises(ImageError, match="outside"):
        images.read(ImageRef(uri="s3://crawl/b/0.tar", size=20), bytes(16))


def test_memory_filesystem_of_fsspec() -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("bucket/x.tar", b"0123456789")
    data = b"345"
    assert Images(roots=[]).read(ImageRef(uri="memory://bucket/x.tar", offset=3, size=3), image_id(data)) == data


@pytest.mark.parametrize("uri", ["http://169.254.169.254/x", "local:///etc/passwd", "zip://a.jpg::file:///b.zip", "simplecache::s3://a/b", "ftp://host/x", "/etc/passwd"])
def test_references_name_files_and_stores_alone(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec knows other places, and would read them."""
    monkeypatch.setattr("pairstream.torch.images._remote", lambda scheme: pytest.fail(f"{scheme} was asked"))
    with pytest.raises(ImageError, match="outside the bucket roots"):
        Images(roots=[]).read(ImageRef(uri=uri, size=3), bytes(16))


def test_transforms_draw_from_the_sample(pictures: list[Picture]) -> None:
    image = Images(roots=[]).decode(pictures[0].ref, pictures[0].id)
    once, twice, other = (augment(SIZE)(image, generator(seed, "image")) for seed in (1, 1, 2))
    assert torch.equal(once, twice) and not torch.equal(once, other) and once.shape == (3, SIZE, SIZE)
    noise = seeded(lambda im: torch.rand(3))
    before = torch.random.get_rng_state()
    assert torch.equal(noise(image, generator(1, "x")), noise(image, generator(1, "x")))
    assert torch.equal(before, torch.random.get_rng_state())
    long = image.resize((400, 10))
    assert augment(SIZE, 0.9)(long, generator(1, "x")).shape == (3, SIZE, SIZE)


@pytest.mark.parametrize("orientation", range(10))
def test_images_stand_upright(orientation: int) -> None:
    """Whatever way the camera was held, and for values that EXIF does not know."""
    tags = Image.Exif()
    tags[ExifTags.Base.Orientation] = orientation
    encoded = io.BytesIO()
    stored = Image.new("RGB", (40, 20), "white")
    stored.paste("black", (0, 0, 10, 10))
    stored.save(encoded, "JPEG", exif=tags, quality=95)

    upright = decode(encoded.getvalue())

    width, height = (20, 40) if 5 <= orientation <= 8 else (40, 20)
    assert (upright.mode, upright.size) == ("RGB", (width, height))
    right, low = orientation in (2, 3, 6, 7), orientation in (3, 4, 7, 8)
    assert max(upright.getpixel((width - 3 if right else 2, height - 3 if low else 2))) < 10
