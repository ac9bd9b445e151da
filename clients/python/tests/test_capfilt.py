"""examples/capfilt.py: BLIP's captions and scores as columns, which the feed reads."""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import pairstream
from crawl import WORDS, draw
from test_match import SIZE, small_blip

from pairstream import Config, Reader
from pairstream.records import Pair

transformers = pytest.importorskip("transformers", reason="BLIP is Hugging Face's")
sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def _blip(folder: Path) -> None:
    """Save a random matcher and a random captioner of BLIP, and their processor."""
    words = [*WORDS, "[DEC]", "[ENC]"]
    (folder / "matcher").mkdir()
    (folder / "captioner").mkdir()
    small_blip(folder / "matcher", words)
    config = transformers.BlipConfig.from_pretrained(folder / "matcher")
    config.text_config.bos_token_id, config.text_config.sep_token_id, config.text_config.eos_token_id, config.text_config.pad_token_id = len(words) - 2, 3, 3, 0
    torch.manual_seed(5)
    transformers.BlipForConditionalGeneration(config).save_pretrained(folder / "captioner")
    for part in ("matcher", "captioner"):
        tokenizer = transformers.BertTokenizerFast(str(folder / "matcher/words.txt"))
        transformers.BlipProcessor(transformers.BlipImageProcessor(size={"height": SIZE, "width": SIZE}), tokenizer).save_pretrained(folder / part)


def test_capfilt(new_log: Callable[..., Config], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every image comes with two captions. The columns that a rule reads are those of the published pairs."""
    import capfilt

    pictures = draw(tmp_path, 7)
    with tarfile.open(tmp_path / "web.tar", "w") as tar:
        for i, p in enumerate(pictures):
            image = (tmp_path / "crawl.tar").read_bytes()[p.ref.offset : p.ref.offset + p.ref.size]
            for name, body in ((f"{i}.png", image), (f"{i}.txt", p.caption.encode()), (f"{i}.cls", b"7")):
                member = tarfile.TarInfo(name)
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))
        for name, body in (("broken.jpg", b"no picture"), ("broken.txt", b"a square")):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    _blip(tmp_path)
    (tmp_path / "clean").mkdir()
    capfilt.main([
        str(tmp_path / "web.tar"), str(tmp_path / "clean/00000.tar"), "--captioner", str(tmp_path / "captioner"), "--matcher", str(tmp_path / "matcher"),
        "--batch", "3", "--device", "cpu",
    ])  # fmt: skip
    printed = capsys.readouterr()
    assert printed.out.startswith("14 pairs in ") and "broken.jpg is left out" in printed.err
    with tarfile.open(tmp_path / "clean/00000.tar") as tar:
        assert len(tar.getnames()) == 7 * 2 * 3
    config = new_log(lanes=1)
    said = pairstream("produce", "--final", str(tmp_path / "clean"), KAFKA_BROKERS=config.brokers[0], NAMESPACE=config.namespace, LANES="1")
    assert said.startswith("published 14 pairs") and "dead-letters" not in said
    with Reader(config, "pairs", 0, timeout=30) as reader:
        found = [record for record in (reader.next(0).record() for _ in range(14)) if isinstance(record, Pair)]
    own = {p.id: p.caption for p in pictures}
    for made in ("web", "blip"):
        some = [p for p in found if p.meta["made"] == made]
        assert {p.image_id for p in some} == set(own)
        assert all(0 < float(p.meta["match"]) < 1 for p in some)
        assert (made == "web") == all(p.caption == own[p.image_id] for p in some)
    assert len({p.meta["match"] for p in found}) > 7
