"""Images by range reads, and what varies them.

A transform is a function of a picture and a generator: `transform(image, draw)` makes a tensor of a PIL image, and takes
every random number from draw. The generator is keyed by the seed and the sample's place, so a resumed run, or one with
another number of workers, augments alike. `seeded` makes such a function of a transform that draws from torch's own
generator, as torchvision's do.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from ..errors import BucketError, ImageError, SettingError
from ..ids import image_id
from ..picture import decode
from ..records import MAX_IMAGE_BYTES, ImageRef
from ..rng import Generator
from . import variation
from .disk import Disk

Transform = Callable[[Image.Image, Generator], Tensor]

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
_STORES = {"file", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "hf", "memory"}  # that references may name without roots
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0


class Images:
    """Reads images of file://, s3:// and gs:// objects by range, and keeps the latest used of remote ones.

    roots are the places that references may name, such as file:///data or s3://bucket/prefix; by default those of the
    variable BUCKET_ROOTS, and without it every place on this machine and in stores. No link leads out of a root. An image that is not there for good raises ImageError. A bucket that
    fails is asked again for timeout seconds; then BucketError. Safe for several threads.

    disk names a folder that keeps the images of buckets, up to disk_bytes, for the epochs and runs that follow; the processes of a
    machine share it.
    """

    def __init__(
        self, *, roots: Sequence[str] | None = None, cache_bytes: int = 256 << 20, timeout: float = 60.0,
        disk: str | os.PathLike[str] | None = None, disk_bytes: int = 64 << 30,
    ) -> None:  # fmt: skip
        if roots is None:
            roots = [r for r in os.environ.get("BUCKET_ROOTS", "").split(",") if r]
        self.roots = tuple(_split(r.strip().rstrip("/") + "/") for r in roots)
        self.cache_bytes, self.timeout = cache_bytes, timeout
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self._runs: dict[_Range, _Run] = {}
        self._lock = threading.Lock()
        self.disk = None if disk is None else Disk(disk, disk_bytes)

    def read(self, ref: ImageRef, image: bytes) -> bytes:
        """Return the encoded bytes of an image, whose id must be image, or of the copy that ref names by its own hash."""
        wanted = ref.bytes_id(image)
        try:
            data = self._read(ref, wanted)
            if len(data) < ref.size:
                raise ImageError("the object ends before the image")
            if image_id(data) != wanted:
                raise ImageError("the bytes do not have the image id")
        except (ImageError, BucketError, SettingError) as err:
            raise type(err)(f"reading image {image.hex()} of {ref.size} bytes at {ref.offset} of {ref.uri}: {err}") from err
        if not ref.uri.startswith("file:"):  # the system keeps what lies in files
            self._keep(wanted, data)
            if self.disk is not None:
                self.disk.put(wanted, data)
        return data

    def _read(self, ref: ImageRef, wanted: bytes) -> bytes:
        place = _place(ref.uri, self.roots)
        if place is None or not 0 < ref.size <= MAX_IMAGE_BYTES:
            raise ImageError("it is outside the bucket roots (BUCKET_ROOTS)")
        with self._lock:
            if wanted in self._kept:
                self._kept.move_to_end(wanted)
                return self._kept[wanted]
            run = self._runs.pop((ref.uri, ref.offset, ref.size), None)
        if self.disk is not None and place[0] != "file" and (data := self.disk.get(wanted)) is not None:
            if image_id(data) == wanted:
                return data
            self.disk.drop(wanted)
        if run is None:
            return self._fetch(*place, ref)
        with run.lock:
            if run.data is None:
                run.data = self._fetch(*place, ImageRef(uri=ref.uri, offset=run.start, size=run.stop - run.start))
            return run.data[ref.offset - run.start :][: ref.size]

    def decode(self, ref: ImageRef, image: bytes) -> Image.Image:
        """Return an image as RGB, over white and upright, as the stages see it (`pairstream.picture`)."""
        return decode(self.read(ref, image))

    def announce(self, refs: Sequence[ImageRef], ids: Sequence[bytes] = ()) -> None:
        """Let the system begin to read what lies in files. One that is not there is a matter of read.

        With the images' ids beside refs, neighbours in a tar of a bucket will be read at once, unless they are kept.
        """
        with self._lock:
            missing = [ref for ref, image in zip(refs, ids, strict=False) if not ref.uri.startswith("file:") and ref.bytes_id(image) not in self._kept]
            self._runs = _joined(missing)
        if not hasattr(os, "posix_fadvise"):
            return
        ranges: dict[str, list[ImageRef]] = {}
        for ref in refs:
            ranges.setdefault(ref.uri, []).append(ref)
        for uri, among in ranges.items():
            place = _place(uri, self.roots)
            if place is None or place[0] != "file":
                continue
            with contextlib.suppress(OSError, ImageError), self._opened(place[2]) as file:
                for ref in among:
                    os.posix_fadvise(file, ref.offset, ref.size, os.POSIX_FADV_WILLNEED)

    def _fetch(self, scheme: str, host: str, path: str, ref: ImageRef) -> bytes:
        until, pause = time.monotonic() + self.timeout, _FIRST_PAUSE
        while True:
            try:
                if scheme == "file":
                    with self._opened(path) as file:
                        return os.pread(file, ref.size, ref.offset)
                data: bytes = _remote(scheme).cat_file(f"{host}{path}", start=ref.offset, end=ref.offset + ref.size)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as err:
                raise ImageError(str(err)) from err
            except ImageError:
                raise
            except ImportError as err:
                raise SettingError(f"pip install what fsspec needs for {scheme}: {err}") from err
            except Exception as err:
                if time.monotonic() + pause > until:
                    raise BucketError(str(err)) from err
                time.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            else:
                return data

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """Open a file, unless a link on the way to it leads out of the roots, or it is a pipe, which would be waited for."""
        real = os.path.realpath(path)
        if self.roots and not any(s == "file" and f"{real}/".startswith(os.path.realpath(p).rstrip("/") + "/") for s, _, p in self.roots):
            raise ImageError("a link leads out of the bucket roots (BUCKET_ROOTS)")
        file = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            kind = os.fstat(file).st_mode
            if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # reading a folder fails by itself
                raise ImageError("it is no regular file")
            yield file
        finally:
            os.close(file)

    def _keep(self, image: bytes, data: bytes) -> None:
        with self._lock:
            if image in self._kept or len(data) > self.cache_bytes:
                return
            self._kept[image] = data
            self._size += len(data)
            while self._size > self.cache_bytes:
                _, old = self._kept.popitem(last=False)
                self._size -= len(old)

    def __getstate__(self) -> dict[str, Any]:
        """Go to a worker process without the lock and without what is kept."""
        return self.__dict__ | {"_lock": None, "_kept": OrderedDict(), "_size": 0, "_runs": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()


_Range = tuple[str, int, int]  # an object, offset and size
_GAP = 64 << 10  # bytes between two images that are read as well, rather than asking twice
_RUN = 8 << 20  # most bytes that are read at once


class _Run:
    """Images of an object that are neighbours. The first one that is read brings them all."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop
        self.data: bytes | None = None
        self.lock = threading.Lock()


def _joined(refs: Iterable[ImageRef]) -> dict[_Range, _Run]:
    """Join neighbours into runs. Images that have none are in no run."""
    runs: dict[_Range, _Run] = {}
    last: _Range | None = None
    for at in sorted({(r.uri, r.offset, r.size) for r in refs if 0 < r.size <= MAX_IMAGE_BYTES}):
        uri, offset, size = at
        if last is not None and last[0] == uri:
            run = runs.get(last) or _Run(last[1], last[1] + last[2])
            if offset - run.stop <= _GAP and offset + size - run.start <= _RUN:
                run.stop = max(run.stop, offset + size)
                runs[last] = runs[at] = run
        last = at
    return runs


@functools.lru_cache(maxsize=4096)
def _place(uri: str, roots: tuple[tuple[str, str, str], ...]) -> tuple[str, str, str] | None:
    """Return scheme, host and path of an object, or None where references must not lead."""
    scheme, host, path = _split(uri)
    parts = path.removeprefix("/").split("/")
    if any(p in ("", ".", "..") or "\0" in p or "\\" in p for p in parts):
        return None
    if not roots and scheme not in _STORES:
        return None
    if roots and not any(s == scheme and h == host and path.startswith(p) for s, h, p in roots):
        return None
    return scheme, host, path


def _split(uri: str) -> tuple[str, str, str]:
    parts = urlsplit(uri)
    host = "" if parts.scheme == "file" and parts.netloc == "localhost" else parts.netloc
    return parts.scheme, host, unquote(parts.path)


def _remote(scheme: str) -> Any:
    import fsspec

    return fsspec.filesystem(scheme)


def normalized(image: Image.Image) -> Tensor:
    """Return the pixels as [3, height, width] with CLIP's statistics, which ALBEF uses as well."""
    out = np.empty((3, image.height, image.width), dtype=np.float32)
    _normalize(image, out)
    return torch.from_numpy(out)


def _normalize(image: Image.Image, out: NDArray[np.float32]) -> None:
    pixels = np.asarray(image)
    for plane, values, mean, std in zip(out, pixels.transpose(2, 0, 1), CLIP_MEAN, CLIP_STD, strict=True):
        np.divide(values, np.float32(255), out=plane)
        plane -= np.float32(mean)
        plane /= np.float32(std)


class Sized:
    """A transform whose tensors have one shape, so that it can write them into a batch: what resize and augment make."""

    def __init__(self, size: int, vary: Callable[[Image.Image, Generator], Image.Image]) -> None:
        self.shape, self._vary = (3, size, size), vary

    def __call__(self, image: Image.Image, draw: Generator) -> Tensor:
        """Return the normalized pixels of a variation of the image."""
        return normalized(self._vary(image, draw))

    def write(self, image: Image.Image, draw: Generator, out: NDArray[np.float32]) -> None:
        """Write them into room of the transform's shape."""
        _normalize(self._vary(image, draw), out)


def resize(size: int) -> Sized:
    """Scale both sides to size, as the built-in trainer does without augmentation. That one reduces large pictures while it decodes them."""
    return Sized(size, functools.partial(_resized, size))


def _resized(size: int, image: Image.Image, draw: Generator) -> Image.Image:
    return image.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0)


def augment(size: int, min_scale: float = 0.5, flip: float = 0.5, color: float = 0.2, *, distort: bool = False, ops: int = 0, level: int = 7) -> Sized:
    """Crop, mirror and colour at random, as the built-in trainer does, with its draws. `Recipe.images` has those of a paper.

    A crop keeps min_scale..1 of the area, in a shape between 3:4 and 4:3; 1: no crop. distort: TCL's changes of colours, grey
    and blur. flip is the probability of mirroring: 0 where captions speak of left and right. Brightness, contrast and
    saturation vary by factors within 1-color..1+color. ops operations of RandAugment follow, at a level of 0 to 10.
    """
    return Sized(size, _Augment(size, min_scale, flip, color, distort, ops, level))


@dataclass(frozen=True)
class _Augment:
    """What augment does. It is no closure, which worker processes by spawn or forkserver cannot take."""

    size: int
    min_scale: float
    flip: float
    color: float
    distort: bool
    ops: int
    level: int

    def __call__(self, image: Image.Image, draw: Generator) -> Image.Image:
        box = variation.crop(image.width, image.height, self.min_scale, draw) if self.min_scale < 1 else None
        image = image.resize((self.size, self.size), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)
        if self.distort:
            image = variation.distort(image, variation.draw_distortion(draw))
        if self.flip and draw.random() < self.flip:
            image = ImageOps.mirror(image)
        if self.color:
            for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
                image = change(image).enhance(1 + self.color * (2 * draw.random() - 1))
        return variation.randaugment(image, self.ops, self.level, draw) if self.ops else image


_global_generator = threading.Lock()


def seeded(transform: Callable[[Image.Image], Tensor]) -> Transform:
    """Let a transform that draws from torch's generator, as torchvision's do, draw from the sample's.

    One image at a time is transformed then: use several workers.
    """
    return functools.partial(_with_seed, transform)


def _with_seed(transform: Callable[[Image.Image], Tensor], image: Image.Image, draw: Generator) -> Tensor:
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw.uint64() >> 1)
        return transform(image)
