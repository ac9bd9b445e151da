"""docs/tutorial.md: its commands, one after another, on fewer scenes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BINARY, ROOT

PAGE = ROOT / "docs/tutorial.md"
# What is smaller here than on the page. Every text must be there.
SMALLER = {"--scenes 1000": "--scenes 200", "{0000000..0000019}": "{0000000..0000003}", "--train-num-samples 1920": "--train-num-samples 384"}


def test_tutorial(tmp_path: Path) -> None:
    pytest.importorskip("open_clip", reason="the tutorial trains with open_clip")
    text = PAGE.read_text()
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    for there, here in SMALLER.items():
        assert there in commands
        commands = commands.replace(there, here)
    for name in ("clients", "internal"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = os.pathsep.join([str(BINARY.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("COND_", "ENCODER_", "KAFKA_"))} | {"PATH": path}
    done = subprocess.run(["bash", "-euxo", "pipefail", "-c", commands], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    for want in (r"wrote 200 scenes with 2 captions", r"[1-9]\d* of 1600 candidates are connections", r"4 mini-batches of 96 samples", r'"i2t":\[', r"Contrastive_loss"):
        assert re.search(want, said), said
    assert (tmp_path / "data/tutorial/logs/run/checkpoints/epoch_1.pt").exists()
