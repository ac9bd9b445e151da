from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from conftest import pairstream

from pairstream import Config, PairProducer, PairstreamError, _captions, _tar, shards
from pairstream.__main__ import main
from pairstream._log import contents
from pairstream.reader import topic_id
from pairstream.records import Seal
from pairstream.topics import PAIRS, SOURCES

NewLog = Callable[..., Config]
JPEG = b"\xff\xd8 a picture "


COLUMNS = (
    b'{"width": 640, "height": -0, "punsafe": 0.125, "whole": 2.0, "exp": 1e3, "tiny": 1e-999, "huge": 1e999, "big": 9223372036854775807,'
    b' "bigger": 9223372036854775808, "low": -9223372036854775808, "Caption": "not this", "URL": "nor this", "nsfw": "UNLIKELY", "none": null,'
    b' "list": [1], "object": {"a": 1}, "yes": true, "no": false, "empty": "", "": 1, "raw": "\xff", "half": "\\ud800", "n\xff": 1, "\\u00fc": "\xc3\xbc",'
    b' "twice": 1, "twice": "last", "long": "' + b"x" * 1025 + b'", "longest": "' + b"y" * 1024 + b'", "' + b"k" * 65 + b'": 1}'
)  # fmt: skip


def add(tar: tarfile.TarFile, name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.type = len(content), kind
    tar.addfile(info, io.BytesIO(content))


def good(path: Path, style: int) -> None:
    with tarfile.open(path, "w", format=style) as tar:
        add(tar, "./", b"", tarfile.DIRTYPE)
        for i in range(20):
            key = f"./some/folder {i}/" + "long" * (40 if i == 3 else 1) + f"-é{i}"
            add(tar, key + ".jpg", JPEG + bytes([i]))
            add(tar, key + ".txt", f"  caption {i} – 猫\u3000\n".encode())
            meta = {"caption": f"another {i}", "url": f"http://x/{i}"} if i % 2 else {"Captions": [f"one {i}", f"two {i}", f"one {i}"], "caption": None}
            add(tar, key + ".json", json.dumps(meta, ensure_ascii=bool(i % 3)).encode())
            add(tar, key + ".cls", b"7")


def bad(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in [
            ("a.jpg", JPEG), ("a.jpg", JPEG), ("a.txt", b"one"), ("a.txt", b"two"), ("b.txt", b"no picture"), ("c.jpg", JPEG),
            ("d.jpg", b""), ("d.txt", b"no bytes"), ("e.jpg", JPEG), ("e.txt", b" \n "), ("f.jpg", JPEG), ("f.txt", b"broken \xff\xfe text"),
            ("g.jpg", JPEG), ("g.txt", b"x" * 9000), ("h.png", JPEG), ("h.json", b'{"caption": 7, "captions": ["fine", null, "fine"]}'),
            ("i.webp", JPEG), ("i.json", b'{"captions": {"no": "list"}}'), ("../up.jpg", JPEG), ("/etc/abs.jpg", JPEG), ("a\\..\\b.jpg", JPEG),
            ("j.jpg", JPEG), ("j.json", b'{"CAPTION": "folded \\ud83d\\ude00 \\ud800 half"}'), ("k.jpeg", JPEG), ("k.json", b'{"caption": "raw \xff byte"}'),
            ("l.jpg", JPEG), ("l.json", b"null"), ("m.json", b'{"width": 3}'), (".hidden.jpg", JPEG), ("noext", JPEG), ("n.seg.PNG", JPEG),
            ("o.jpg", JPEG), ("o.json", b'{"caption":"last","caption":"wins","url":"http://\xff/"}'), ("o.txt", b"x" * ((1 << 20) + 1)),
            ("p.JPG", JPEG), ("p.TXT", b"\x1c not white \x1f"), ("q.jpg", JPEG), ("q.json", b'{"url": 3, "caption": "no url"}'), ("t.jpg", JPEG), ("t.txt", b"columns"), ("t.json", COLUMNS),
            ("u.jpg", JPEG), ("u.txt", b"many"), ("u.json", json.dumps({f"n{i}": "x" * 300 for i in range(90)}).encode()),
            ("no\udcff\udcfeutf8\udce2.jpg", JPEG), ("no\udcff\udcfeutf8\udce2.txt", b"its key is no UTF-8"), ("no\udcff\udcfeutf8.txt", b"no image"),
            ("n" * 300 + "\u00e9.jpg", JPEG), ("w.jpg", JPEG), ("w.json", b'{"caption": \'single\'}'), ("x.jpg", JPEG), ("x.json", b'{"captions": [1, 2'),
            ("v.jpg", JPEG), ("v.json", json.dumps({"caption": "0", "captions": [str(i % 300) for i in range(1000)]}).encode()),
        ]:  # fmt: skip
            add(tar, name, content)
        link = tarfile.TarInfo("r.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        huge = tarfile.TarInfo("s.jpg")
        huge.size = (20 << 20) + 1
        tar.addfile(huge, io.BytesIO(bytes(huge.size)))
        add(tar, "s.txt", b"too large")


def produced(config: Config, lanes: int) -> list[list[tuple[str, bytes]]]:
    """Return what lies in pairs, lane by lane."""
    held: list[list[tuple[str, bytes]]] = [[] for _ in range(lanes)]
    for m in contents(config, PAIRS, dict.fromkeys(range(lanes), 0), timeout=30):
        schema, value, lane = dict(m.headers() or [])["schema"], m.value(), m.partition()
        assert isinstance(schema, bytes) and isinstance(value, bytes) and lane is not None
        held[lane].append((schema.decode(), value))
    return held


def notes(config: Config) -> dict[object, bytes]:
    """Return the latest note of every tar, with "ITS OWN" for the id of the log's own topic of pairs."""
    own = topic_id(config, PAIRS).encode()
    assert len(own) == 32
    return {m.key(): bytes(m.value() or b"").replace(own, b"ITS OWN") for m in contents(config, SOURCES, {0: 0}, timeout=30)}


def by_go(config: Config, folder: Path, *more: str, lanes: int = 3) -> str:
    return pairstream("produce", "--final", str(folder), *more, KAFKA_BROKERS=config.brokers[0], NAMESPACE=config.namespace, LANES=str(lanes))


def problem_of(record: tuple[str, bytes]) -> object:
    """Return where a record comes from, and what it says is wrong."""
    fields = msgpack.unpackb(record[1], unicode_errors="surrogateescape")
    return fields.get("source"), fields.get("problem")


def compare(new_log: NewLog, folder: Path, lanes: int = 3) -> shards.Totals:
    """Publish the tars of a folder from Go and from Python, and want the same bytes in the same lanes in the same order, and the same notes."""
    ours, theirs = new_log(lanes), new_log(lanes)
    with PairProducer(ours) as producer:
        totals = shards.publish(producer, folder, final=True)
    by_go(theirs, folder)
    want, got = produced(theirs, lanes), produced(ours, lanes)
    for ours_lane, theirs_lane in zip(got, want, strict=True):
        assert list(map(problem_of, ours_lane)) == list(map(problem_of, theirs_lane))
    assert got == want and notes(ours) == notes(theirs)
    assert sum(map(len, want)) == totals.pairs + sum(totals.problems.values()) + totals.seals
    assert {schema for schema, _ in (lane[-1] for lane in got)} == {Seal.SCHEMA} and totals.seals == lanes
    return totals


def test_whole_tars_are_published_alike(new_log: NewLog, tmp_path: Path) -> None:
    (tmp_path / "sub dir").mkdir()
    for name, style in (("a.tar", tarfile.USTAR_FORMAT), ("b (1)!.TAR", tarfile.GNU_FORMAT), ("sub dir/ç.tar", tarfile.PAX_FORMAT)):
        try:
            good(tmp_path / name, style)
        except ValueError:  # ustar has no room for the long name
            assert style == tarfile.USTAR_FORMAT
            good(tmp_path / name, tarfile.PAX_FORMAT)
    totals = compare(new_log, tmp_path)
    assert (totals.tars, totals.examples, totals.pairs, totals.problems) == (3, 60, 150, {})


def test_everything_that_is_wrong_is_published_alike(new_log: NewLog, tmp_path: Path) -> None:
    bad(tmp_path / "bad.tar")
    totals = compare(new_log, tmp_path)
    assert set(totals.problems) == {
        "entry_duplicate", "image_missing", "caption_missing", "image_empty", "caption_empty", "caption_encoding", "caption_long", "caption_json",
        "entry_name", "entry_oversize", "entry_type", "captions_cut",
    }  # fmt: skip


def test_paths_that_cannot_be_read_are_published_alike(new_log: NewLog, tmp_path: Path) -> None:
    good(tmp_path / "a.tar", tarfile.PAX_FORMAT)
    (tmp_path / "b.tar").symlink_to(tmp_path / "nowhere" / "b.tar")
    (tmp_path / "c.tar").symlink_to(tmp_path)
    totals = compare(new_log, tmp_path)
    assert (totals.tars, totals.problems) == (1, {"file_unreadable": 2})


def test_damaged_tars_are_published_alike(new_log: NewLog, tmp_path: Path) -> None:
    """Tars cut anywhere, and tars with bytes overwritten anywhere."""
    good(tmp_path / "whole", tarfile.PAX_FORMAT)
    whole = (tmp_path / "whole").read_bytes()[:40 * 512]
    draw = random.Random(17)
    for i in range(60):
        damaged = bytearray(whole)
        if i % 2:
            at = draw.randrange(len(whole))
            damaged[at : at + draw.choice([1, 8, 600])] = draw.randbytes(draw.choice([1, 8, 600]))
        else:
            del damaged[draw.randrange(len(whole)) :]
        (tmp_path / f"{i:02}.tar").write_bytes(damaged)
    (tmp_path / "whole").unlink()
    totals = compare(new_log, tmp_path)
    assert {"tar_header", "tar_cut", "tar_no_end"} <= set(totals.problems)


def test_tars_behind_one_another_are_published_alike(new_log: NewLog, tmp_path: Path) -> None:
    """Tars with other bytes between them, before them and behind them, whole and cut."""
    with tarfile.open(tmp_path / "one", "w") as tar:
        add(tar, "a.jpg", JPEG)
        add(tar, "a.txt", b"one")
    with tarfile.open(tmp_path / "long", "w", format=tarfile.GNU_FORMAT) as tar:
        add(tar, "n" * 300 + ".jpg", b"")
    one, long = (tmp_path / "one").read_bytes(), (tmp_path / "long").read_bytes()[:1024]
    two = one.replace(b"one", b"two")
    parts = [one[: 4 * 512], one, two, two, bytes(512), bytes(1024), bytes(1025), b"junk" * 128, b"junk" * 300 + bytes(336), b"x", long]
    draw = random.Random(5)
    for i in range(60):
        joined = b"".join(draw.choice(parts) for _ in range(draw.randrange(1, 8)))
        (tmp_path / f"{i:02}.tar").write_bytes(joined)
    for name in ("one", "long"):
        (tmp_path / name).unlink()
    totals = compare(new_log, tmp_path)
    assert {"tar_header", "tar_cut", "tar_no_end"} <= set(totals.problems)
    assert totals.pairs > 50


def test_what_is_too_much_is_cut_alike(new_log: NewLog, tmp_path: Path) -> None:
    """Captions of one image, problems of one tar, and long names, also where the cut falls into a letter."""
    with tarfile.open(tmp_path / "many.tar", "w") as tar:
        add(tar, "a.jpg", JPEG)
        add(tar, "a.json", json.dumps({"caption": "first", "captions": [f"number {i}" for i in range(256)]}).encode())
        add(tar, "b.json", json.dumps({"captions": [None, *(f"{i}" for i in range(300))]}).encode())
        for i in range(15, 18):
            add(tar, "x" * i + "\u732b" * 200 + "\udcff.jpg", JPEG)
        add(tar, "y" * 3000 + "\u732b\udcff.jpg", JPEG)
        add(tar, "y" * 3000 + "\u732b\udcff.txt", b"a long name")
        add(tar, "z\udcff.jpg", JPEG)
        add(tar, "z\udcff.txt", b"no UTF-8 in its name")
        for i in range(10_200):
            add(tar, f"{i}.txt", b"no picture")
    totals = compare(new_log, tmp_path)
    assert (totals.pairs, sum(totals.problems.values())) == (258, shards.MAX_PROBLEMS + 1)
    assert totals.problems["captions_cut"] == 2
    assert totals.problems["problems_cut"] == 1


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(PairstreamError, match=r"no \*.tar"):
        shards.tars(tmp_path)
    with pytest.raises(FileNotFoundError):
        shards.tars(tmp_path / "nowhere.tar")
    (tmp_path / "dir.tar").mkdir()
    (tmp_path / "x.tar").symlink_to(tmp_path / "dir.tar")
    with pytest.raises(PairstreamError):
        shards.tars(tmp_path)


def test_what_is_ignored_is_said_alike(new_log: NewLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names with dots, other formats, other files and compressed tars, also in JSON that has numbers which are none."""
    good(tmp_path / "a.tar", tarfile.PAX_FORMAT)
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        for name in ("photo.v2.jpg", "photo.v2.txt", "a.gif", "b.JFIF", "film.mp4", ".hidden"):
            add(tar, name, JPEG)
    with tarfile.open(tmp_path / "c.tar", "w", pax_headers={"comment": "as git archive writes it"}) as tar:
        for key in ("n", "o"):
            add(tar, f"{key}.jpg", JPEG)
            add(tar, f"{key}.txt", b"\xef\xbb\xbfa text " + key.encode())
            add(tar, f"{key}.json", b'\xef\xbb\xbf{"a": NaN, "b": [-Infinity], "w": 64, "captions": ["x", "y"]}')
    (tmp_path / "d.tar.gz").write_bytes(gzip.compress((tmp_path / "a.tar").read_bytes()))
    (tmp_path / "e.tar").write_bytes(gzip.compress((tmp_path / "a.tar").read_bytes()))
    totals = compare(new_log, tmp_path)
    assert {why.split(":")[0]: n for why, (n, _) in totals.ignored.items()} == {
        "files were ignored for the dots in their names": 2, "images were ignored, as their format is not read": 2, "other files were ignored": 22, "tars gave no pair": 1, "tars are compressed": 1,
    }  # fmt: skip
    assert totals.problems["file_unreadable"] == 1 and totals.pairs == 50 + 6
    config = new_log(3)
    assert main(["produce", str(tmp_path / "b.tar"), "--brokers", config.brokers[0], "--namespace", config.namespace]) == 0
    ours = capsys.readouterr().out
    said = pairstream("produce", str(tmp_path / "b.tar"), KAFKA_BROKERS=config.brokers[0], NAMESPACE=config.namespace + "2", LANES="3")
    notes = [line.replace("'", '"') for line in ours.splitlines() if line.startswith("note: ")]
    assert len(notes) == 4 and notes == [line for line in said.splitlines() if line.startswith("note: ")]


def test_scan_needs_no_broker(tmp_path: Path) -> None:
    good(tmp_path / "a.tar", tarfile.GNU_FORMAT)
    examples = [x for x in shards.scan([tmp_path / "a.tar"]) if isinstance(x, shards.Example)]
    assert len(examples) == 20
    raw = (tmp_path / "a.tar").read_bytes()
    for e in examples:
        assert raw[e.image.offset : e.image.offset + e.image.size] == e.encoded


def extended(path: Path, records: bytes) -> Path:
    """Write a tar of one extended header and the file that it describes."""
    with tarfile.open(path, "w") as tar:
        add(tar, "described", records, tarfile.XHDTYPE)
        add(tar, "plain.jpg", JPEG)
    return path


@pytest.mark.parametrize(
    ("records", "names"),
    [
        (b"9" * 5000 + b" path=a\n", ["plain.jpg"]),
        (b"5020 size=" + b"9" * 5009 + b"\n", ["plain.jpg"]),
        (b"0" * 5000 + b"5012 path=a\n", ["a"]),
        (b"6 a=b\n" * 170_000 + b"10 path=c\n", ["c"]),
    ],
    ids=["a length of 5,000 digits", "a size of 5,000 digits", "zeros before a length", "a MiB of short records"],
)
def test_extended_headers_of_strangers(records: bytes, names: list[str], tmp_path: Path) -> None:
    with extended(tmp_path / "a.tar", records).open("rb") as file:
        found = list(_tar.entries(file))
    assert [e.name for e in found if isinstance(e, _tar.Entry)] == names
    assert any(isinstance(e, _tar.Damage) for e in found) == (names == ["plain.jpg"])


def test_numbers_of_thousands_of_digits() -> None:
    meta = b'{"caption": "a cat", "n": ' + b"9" * 5000 + b"}"
    captions, count = _captions.json_captions(meta)
    assert [c.text for c in captions] == ["a cat"] and count == 1
    assert _captions.columns_of(meta, {}) == {}


@pytest.mark.parametrize(
    ("meta", "captions", "columns"),
    [
        (b'{"caption": "a cat", "a": NaN, "b": Infinity, "c": -Infinity, "w": 64}', ["a cat"], {"w": 64}),
        (b'{"a": [NaN, {"b": -Infinity}], "caption": "NaN, Infinity and \\"NaN", "w": 64}', ['NaN, Infinity and "NaN'], {"w": 64}),
        (b'{"captions": ["a cat", NaN], "w": 64, "NaN": "x\\\\"}', ["a cat", ""], {"NaN": "x\\", "w": 64}),
        (b'\xef\xbb\xbf{"caption": "a cat"}\r\n', ["a cat"], {}),
        (b'{"caption": NaN}', [], {}),
        (b'{"caption": "a cat", "a": nan}', [""], {}),
        (b'{"caption": "a cat", "a": +Infinity}', [""], {}),
        (b'\xef\xbb\xbf\xef\xbb\xbf{"caption": "a cat"}', [""], {}),
        (b'{"caption": "cut NaN', [""], {}),
    ],
)
def test_json_as_programs_write_it(meta: bytes, captions: list[str], columns: dict[str, object], tmp_path: Path) -> None:
    """Numbers that JSON does not have are null, and a byte order mark is no part of the text."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        add(tar, "a.jpg", JPEG)
        add(tar, "a.json", meta)
        add(tar, "a.txt", b"\xef\xbb\xbfthe text\r\n")
        add(tar, "b.jpg", JPEG)
        add(tar, "b.txt", b"\xef\xbb\xbf \n")
    every = list(shards.scan(tmp_path / "a.tar"))
    (found,) = [e for e in every if isinstance(e, shards.Example)]
    assert found.captions == ["the text", *filter(None, captions)]
    assert found.pairs()[0].meta == columns
    reasons = [p.reason for p in every if isinstance(p, shards.Problem)]
    assert reasons == ["caption_json"] * captions.count("") + ["caption_empty"]
