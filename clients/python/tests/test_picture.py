"""Pictures as the stages see them. clients/python/pictures_test.go compares many more with the Go programs."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pairstream import ImageError, picture
from pairstream.picture import decode

RED, WHITE = (200, 40, 0), (255, 255, 255)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(depth: int, colour: int, rows: bytes, *more: bytes) -> bytes:
    """A PNG of 4 x 1 pixels."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 1, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(more) + chunk(b"IDAT", zlib.compress(b"\0" + rows)) + chunk(b"IEND", b"")


def tiff(kind: int, orientation: int, order: str = "<") -> bytes:
    value = struct.pack(order + ("HH" if kind == 3 else "I"), *((orientation, 0) if kind == 3 else (orientation,)))
    return (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IHHHI", 8, 1, 0x112, kind, 1) + value + b"\0\0\0\0"


def with_exif(body: bytes) -> bytes:
    """A JPEG of 8 x 4 pixels with an Exif segment."""
    jpeg = encoded(Image.new("RGB", (8, 4)), "JPEG")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 8) + b"Exif\0\0" + body + jpeg[2:]


def pixels(data: bytes) -> list[tuple[int, ...]]:
    image = decode(data)
    assert image.mode == "RGB"
    return [tuple(p) for p in np.asarray(image)[0].tolist()]


def test_transparent_pixels_lie_over_white() -> None:
    """Also where a palette, one colour or one level is transparent, of 8 bits and of 16."""
    hidden = Image.new("RGBA", (2, 1), (*RED, 0))
    hidden.putpixel((1, 0), (*RED, 51))
    for data in (encoded(hidden, "PNG"), encoded(hidden, "WEBP", lossless=True, exact=True)):
        assert pixels(data) == [WHITE, (244, 212, 204)]
    assert pixels(png(8, 3, bytes([0, 1, 0, 1]), chunk(b"PLTE", bytes(RED) * 2), chunk(b"tRNS", b"\0"))) == [WHITE, RED] * 2
    assert pixels(png(8, 2, bytes(RED) * 3 + bytes(3), chunk(b"tRNS", struct.pack(">HHH", *RED)))) == [WHITE] * 3 + [(0, 0, 0)]
    assert pixels(png(2, 0, bytes([0b00011011]), chunk(b"tRNS", b"\0\1"))) == [(0,) * 3, WHITE, (170,) * 3, WHITE]
    assert pixels(png(1, 0, bytes([0b01010000]), chunk(b"tRNS", b"\0\0"))) == [WHITE] * 4
    near = struct.pack(">12H", 0x1234, 5, 6, 0x1235, 5, 6, 0x1234, 5, 7, 0, 0, 65535)
    assert pixels(png(16, 2, near, chunk(b"tRNS", struct.pack(">HHH", 0x1234, 5, 6)))) == [WHITE, (0x12, 0, 0), (0x12, 0, 0), (0, 0, 255)]


def test_of_16_bits_the_upper_ones_count() -> None:
    levels = struct.pack(">4H", 0, 0x40FF, 0x8080, 0xFFFF)
    assert pixels(png(16, 0, levels)) == [(v,) * 3 for v in (0, 0x40, 0x80, 255)]
    assert pixels(png(16, 0, levels, chunk(b"tRNS", b"\x80\x80"))) == [(v,) * 3 for v in (0, 0x40, 255, 255)]


def test_what_pixels_do_not_depend_on_is_not_read() -> None:
    """Pillow would refuse long texts and profiles, and turn by any orientation."""
    long = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(2 << 20)))
    assert pixels(png(8, 2, bytes(RED) * 4, long, chunk(b"eXIf", tiff(3, 6)))) == [RED] * 4
    jpeg = encoded(Image.new("RGB", (8, 4), RED), "JPEG", quality=100)
    stray = jpeg[:2] + b"\0\0\0\xff\xff\xff\xe2\0\x07MPF\0I" + jpeg[2:]
    assert np.abs(np.array(pixels(stray)) - RED).max() < 4
    webp = encoded(Image.new("RGBA", (8, 4), (*RED, 0)), "WEBP", exif=b"Exif\0\0" + tiff(3, 6))
    assert decode(webp).size == (8, 4) and pixels(webp)[0] == WHITE
    assert decode(encoded(Image.new("RGB", (8, 4)), "WEBP", exif=b"Exif\0\0" + tiff(3, 6))).size == (8, 4)


@pytest.mark.parametrize(
    ("exif", "upright"),
    [
        (tiff(3, 6), False), (tiff(3, 6, ">"), False), (tiff(4, 6), True), (tiff(3, 9), True), (tiff(3, 6)[:12], True), (b"XX*\0" + bytes(20), True),
        (b"II*\0\xff\xff\xff\x7f\1\0", True), (b"", True),
    ],
)  # fmt: skip
def test_a_jpeg_is_turned_by_a_valid_orientation(exif: bytes, upright: bool) -> None:
    assert decode(with_exif(exif)).size == ((8, 4) if upright else (4, 8))


def test_what_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    webp = encoded(Image.new("RGB", (8, 4)), "WEBP", save_all=True, append_images=[Image.new("RGB", (8, 4), RED)])
    jpeg = with_exif(b"")
    for data in (b"", b"GIF89a", webp, jpeg[:-30], jpeg[:40], b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBPVP8L\1\0\0\0/"):
        with pytest.raises(ImageError, match="not a readable image"):
            decode(data)
    monkeypatch.setattr(picture, "MAX_PIXELS", 31)
    with pytest.raises(ImageError, match="8 x 4 pixels, want at most 31"):
        decode(jpeg)
