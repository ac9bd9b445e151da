"""The notebooks of examples/notebooks run from their first cell to the last, on little data."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from conftest import BINARY, ROOT, pairstream

MODELS = ROOT / "internal/demo/models"


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **environ: str) -> dict[str, Any]:
    """Run the cells of a notebook in a folder, and return what they define."""
    if not BINARY.exists() and "PAIRSTREAM_BIN" not in os.environ:
        pytest.skip(f"{BINARY} is missing: make build, or PAIRSTREAM_BIN")
    environ |= {"PAIRSTREAM_BIN": str(BINARY), "OUT": str(folder / "out"), "TORCH_THREADS": "1", "LOG_LEVEL": "error"}
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(folder)
    book = json.loads((ROOT / "examples/notebooks" / name).read_text())
    defined: dict[str, Any] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}, {cell['id']}", "exec"), defined)
    return defined


def test_grouped_against_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = run("grouped-against-random.ipynb", tmp_path, monkeypatch, MODELS=str(MODELS), SCENES="480")["counts"]
    (hardest, true, _, _), (others, more, called, both) = counts["random"], counts["grit"]
    assert hardest == others == 480 * 4
    assert more > 2 * true > 0, "similar pairs have more false negatives"
    assert both > 0.5 * more and both > 0.5 * called, "Con-D finds most of them, and is mostly right"


def test_false_negatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn scenes stand for photographs, and the demo's models for those of a user."""
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    pairstream("synth", str(tmp_path / "scenes"), "--scenes", "240", "--captions", "1", "--shapes", "8", "--objects", "3", "--large", "--plain", "--seed", "32")
    for path in (tmp_path / "scenes").glob("*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                content = tar.extractfile(member)
                assert content is not None
                if member.name.endswith(".json"):
                    (photographs / member.name).with_suffix(".txt").write_text(json.load(content)["captions"][0])
                else:
                    (photographs / member.name).write_bytes(content.read())
    (photographs / "without-text.png").write_bytes(b"")
    done = run(
        "false-negatives.ipynb", tmp_path, monkeypatch, PHOTOGRAPHS=str(photographs),
        ENCODER_CHECKPOINT=str(MODELS / "first.safetensors"), COND_CHECKPOINT=str(MODELS / "con-d.safetensors"),
    )  # fmt: skip
    assert done["candidates"] == 240 * 4 and 5 < len(done["found"]) < 240
    for (key, text), (probability, _, own) in done["found"].items():
        assert probability > 0.8 and own == (photographs / key).with_suffix(".txt").read_text() != text
    assert done["sheet"].size[0] > 0 and (tmp_path / "out/sheet.png").stat().st_size > 1000
