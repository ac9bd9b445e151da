"""Strategies of one's own: the function alone, and `pairstream batches --strategy`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY, ROOT

from pairstream.__main__ import main
from pairstream.plans import Plan
from pairstream.strategy import StrategyError, answer, find, load

EXAMPLES = Path(__file__).parents[1] / "examples"
WEIGHTS = ROOT / "internal/demo/models/first.safetensors"
SETTINGS = {
    "PAIRSTREAM_PYTHON": sys.executable, "TORCH_THREADS": "1", "BATCH_SIZE": "8", "CLUSTERS": "3", "COND_MIN_PRECISION": "0", "EPOCHS": "2", "LOG_LEVEL": "error",
}  # fmt: skip


def files(folder: Path, pairs: int = 6, learner: int = 0) -> Path:
    """Write a group as pairstream does."""
    r = np.random.default_rng(3)
    folder.mkdir()
    about = {"pairs": pairs, "dim": 4, "learner_dim": learner, "k1": 2, "batch_size": 3, "candidates": 1, "epoch": 1, "group": "0/2", "seed": 2**63 + 5}
    (folder / "about.json").write_text(json.dumps(about))
    for name, width in (("v", 4), ("t", 4), ("learner_v", learner), ("learner_t", learner)):
        if width:
            r.standard_normal((pairs, width)).astype("<f4").tofile(folder / f"{name}.f32")
    for name, values in (("image", np.arange(pairs) // 2), ("cluster", np.arange(pairs) % 2), ("neighbors", np.full((pairs, 2), -1))):
        values.astype("<i4").tofile(folder / f"{name}.i32")
    return folder


def test_a_group_is_what_the_files_say(tmp_path: Path) -> None:
    g = load(files(tmp_path / "group", learner=3))
    assert (len(g), g.v.shape, g.t.shape, g.neighbors.shape, g.batch_size, g.candidates, g.epoch, g.group) == (6, (6, 4), (6, 4), (6, 2), 3, 1, 1, "0/2")
    assert g.learner_v is not None and g.learner_t is not None and g.learner_v.shape == g.learner_t.shape == (6, 3)
    assert g.image.tolist() == [0, 0, 1, 1, 2, 2] and not g.v.flags.writeable
    assert g.rng.random() == load(tmp_path / "group").rng.random() != g.rng.random()
    assert load(files(tmp_path / "encoder")).learner_v is None


def test_answers(tmp_path: Path) -> None:
    g = load(files(tmp_path / "group"))
    one = np.full((6, 1), -1)
    assert answer(lambda _: list(range(6)), g)["order"].dtype == np.dtype("<i4")
    assert set(answer(lambda _: (np.arange(6), one, one), g)) == {"order", "i2t", "t2i"}
    for result, words in (
        (np.arange(5), r"order of shape \[5\] and type int64, want whole numbers of shape \[6\]"), (np.arange(6) / 2, "type float64"),
        (np.arange(6) + 1, "positions 1 to 6, want 0 to 5"), ((np.arange(6), one), "a tuple of 2"), ((np.arange(6), one, one[:, :0]), r"t2i of shape \[6, 0\]"),
        (None, "returned nothing, want 6 positions"), ([[0], [1, 2]], "rows of unequal length"),
    ):  # fmt: skip
        with pytest.raises(StrategyError, match=words):
            answer(lambda _, result=result: result, g)


def test_a_function_is_found_or_the_error_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine_a.py").write_text("def upwards(group):\n    return range(len(group))\nnumber = 3\n")
    (tmp_path / "mine_c.py").write_text("import numpyy\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["strategy", "mine_a:upwards"]) == 0
    assert len(capsys.readouterr().out.strip()) == 64
    folder = files(tmp_path / "group")
    assert main(["strategy", "mine_a:upwards", str(folder)]) == 0
    assert np.fromfile(folder / "order.i32", "<i4").tolist() == list(range(6)) and not (folder / "i2t.i32").exists()
    for name, words in (("mine_a", "want module:function"), ("mine_a:", "want module:function"), ("mine_a:number", r"mine_a.py has no function number"),
        ("nowhere_b:f", "No module named 'nowhere_b': run the command in the folder"), ("mine_c:f", "No module named 'numpyy': mine_c imports it"),
        ("mine_a.py:upwards", "want the name of the module, mine_a:upwards"), ("own:mine_a:upwards", "leave out own:"), ("./mine_a:upwards", "want module:function"),
    ):  # fmt: skip
        with pytest.raises(StrategyError, match=words):
            find(name)


def plan(folder: Path, out: str, strategy: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `pairstream batches --strategy` in a folder with scenes."""
    return subprocess.run(
        [str(BINARY), "batches", "--out", out, "--weights", str(WEIGHTS), "--strategy", strategy, "scenes"],
        cwd=folder, env=os.environ | SETTINGS | env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.skipif(not BINARY.exists() and "PAIRSTREAM_BIN" not in os.environ, reason="make build")
def test_batches_of_ones_own(tmp_path: Path) -> None:
    subprocess.run([str(BINARY), "synth", "--scenes", "10", str(tmp_path / "scenes")], check=True, capture_output=True)
    (tmp_path / "json.py").write_text("raise SystemExit('a module of this folder replaces one of Python')\n")
    (tmp_path / "mine.py").write_text((EXAMPLES / "alike.py").read_text() + "\nprint('imported')\n")
    for out in ("plan", "again"):
        done = plan(tmp_path, out, "mine:alike")
        assert done.returncode == 0, done.stderr
    batches = [list(p.batches(epoch)) for p in (Plan(str(tmp_path / "plan")), Plan(str(tmp_path / "again"))) for epoch in (0, 1)]
    assert [b.pairs for epoch in batches[:2] for b in epoch] == [b.pairs for epoch in batches[2:] for b in epoch]
    assert batches[0] and [b.pairs for b in batches[0]] != [b.pairs for b in batches[1]]
    for epoch in batches:
        pairs = [p for b in epoch for p in b.pairs]
        assert len(set(pairs)) == len(pairs) == 30 and all(len(b.pairs) == 8 for b in epoch[:-1])
    manifest = json.loads((tmp_path / "plan/plan.json").read_text())
    assert not list((tmp_path / "plan").rglob("*.f32"))
    assert manifest["settings"]["STRATEGY"] == "own:mine:alike" and len(manifest["inputs"]["function"]) == 64
    assert "is complete" in plan(tmp_path, "plan", "mine:alike").stdout

    (tmp_path / "mine.py").write_text("def alike(group):\n    return range(len(group))\n\ndef short(group):\n    return range(3)\n\ndef fails(group):\n    raise ValueError('no order today')\n\ndef twice(group):\n    return [1] * len(group)\n\ndef exits(group):\n    raise SystemExit\n")
    for out, strategy, words in (
        ("plan", "mine:alike", "another version of the module of --strategy"), ("twice", "mine:twice", "has position 1 as its number 1, want each of"), ("exits", "mine:exits", "ended its process and left no order"), ("short", "mine:short", "order of shape [3]"),
        ("fails", "mine:fails", "ValueError: no order today"), ("other", "mine:other", "has no function other"), ("nowhere", "nowhere:f", "No module named 'nowhere'"),
    ):  # fmt: skip
        done = plan(tmp_path, out, strategy)
        assert done.returncode != 0 and words in done.stderr, done.stderr
    (tmp_path / "beside.py").write_text("def order(n):\n    raise ValueError('a mistake')\n")
    (tmp_path / "whole.py").write_text("import beside\n\ndef upwards(group):\n    print('epoch', group.epoch)\n    return beside.order(len(group))\n")
    failed = plan(tmp_path, "later", "whole:upwards")
    assert failed.returncode != 0 and "runpy" not in failed.stderr and "beside.py" in failed.stderr, failed.stderr
    (tmp_path / "beside.py").write_text("def order(n):\n    return range(n)\n")  # nothing was ordered yet: the folder serves
    done = plan(tmp_path, "later", "whole:upwards")
    assert done.returncode == 0 and "epoch 0" in done.stderr and "epoch 1" in done.stderr, done.stderr
    (tmp_path / "beside.py").write_text("def order(n):\n    return range(n - 1, -1, -1)\n")
    assert "another version of the module of --strategy" in plan(tmp_path, "later", "whole:upwards").stderr
    assert "no package pairstream" in plan(tmp_path, "bare", "mine:alike", PAIRSTREAM_PYTHON="/usr/bin/python3", PYTHONPATH="").stderr


@pytest.mark.skipif(not BINARY.exists() and "PAIRSTREAM_BIN" not in os.environ, reason="make build")
def test_a_function_ends_with_the_command(tmp_path: Path) -> None:
    subprocess.run([str(BINARY), "synth", "--scenes", "4", str(tmp_path / "scenes")], check=True, capture_output=True)
    (tmp_path / "slow.py").write_text("import os, pathlib, time\n\ndef waits(group):\n    pathlib.Path('pid').write_text(str(os.getpid()))\n    time.sleep(600)\n")
    command = subprocess.Popen(
        [str(BINARY), "batches", "--out", "plan", "--weights", str(WEIGHTS), "--strategy", "slow:waits", "scenes"],
        cwd=tmp_path, env=os.environ | SETTINGS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and bool(pid.read_text()))
    command.kill()
    command.wait(30)
    until(lambda: not Path(f"/proc/{pid.read_text()}").exists())


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
