"""Reports of training go to MLflow and Weights & Biases once, in order, and a run is continued by its name."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from pairstream import track
from pairstream.__main__ import main
from pairstream.errors import InvalidError, PairstreamError, SettingError
from pairstream.track import BOARDS, MOST, Report, follow


def line(kind: str, step: int, **values: float) -> str:
    return json.dumps({"kind": kind, "step": step, "time": "2025-06-15T15:06:40Z", "values": values}) + "\n"


class FakeMLflow(types.ModuleType):
    """What is used of MLflow, with runs that stay."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.runs: dict[str, dict[str, Any]] = {}
        self.experiments: list[str] = []
        self.entities = types.SimpleNamespace(Metric=lambda *a: a, RunTag=lambda *a: a, Param=lambda *a: a)

    def MlflowClient(self) -> FakeMLflow:
        return self

    def get_experiment_by_name(self, name: str) -> Any:
        return types.SimpleNamespace(experiment_id="1") if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        self.experiments.append(name)
        return "1"

    def _run(self, name: str) -> Any:
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=name), data=types.SimpleNamespace(tags=self.runs[name]["tags"], params=self.runs[name]["params"]))

    def search_runs(self, experiments: list[str], filter_string: str, max_results: int) -> list[Any]:
        return [self._run(name) for name in self.runs if filter_string == f"tags.`pairstream.run` = '{name}'"]

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> Any:
        self.runs[run_name] = {"tags": tags, "params": {}, "files": {}, "metrics": [], "status": "RUNNING"}
        return self._run(run_name)

    def update_run(self, run_id: str, status: str) -> None:
        self.runs[run_id]["status"] = status

    set_terminated = update_run

    def log_artifact(self, run_id: str, file: str, folder: str) -> None:
        self.runs[run_id]["files"][f"{folder}/{Path(file).name}"] = Path(file).read_text()

    def set_tag(self, run_id: str, name: str, value: str) -> None:
        self.log_batch(run_id, tags=[(name, value)])

    def log_batch(self, run_id: str, metrics: Any = (), tags: Any = (), params: Any = ()) -> None:
        assert len(metrics) <= 1000 and len(params) <= 100 and len(tags) <= 100, "MLflow takes no more"
        for key, value in params:
            assert len(value) <= 6000, "MLflow takes no longer ones"
            assert self.runs[run_id]["params"].setdefault(key, value) == value, "MLflow keeps params"
        self.runs[run_id]["metrics"] += metrics
        self.runs[run_id]["tags"].update(tags)


class FakeWandb(types.ModuleType):
    """What is used of wandb, with one run that stays."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.logged: list[dict[str, float]] = []
        self.summary: dict[str, float] = {}
        self.codes: list[int] = []
        self.files: dict[str, str] = {}
        self.known: dict[str, Any] = {}
        self.config = types.SimpleNamespace(update=lambda values, allow_val_change: self.known.update(values))
        self.offline, self.id = False, ""
        self.axes: dict[str, str | None] = {}

    def init(self, **options: str) -> FakeWandb:
        self.options, self.id = options, options["id"]
        return self

    def Artifact(self, name: str, type: str, metadata: dict[str, int]) -> FakeWandb:
        assert (name, type) == (f"{self.id}-checkpoint", "model")
        return self

    def add_file(self, file: str, policy: str = "mutable") -> None:
        self.files[Path(file).name] = Path(file).read_text()

    def log_artifact(self, artifact: FakeWandb) -> FakeWandb:
        assert self.files, "files are added first"
        return artifact

    def wait(self) -> None:
        self.waited = True

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, values: dict[str, float]) -> None:
        self.logged.append(values)
        self.summary.update(values)

    def finish(self, exit_code: int) -> None:
        self.codes.append(exit_code)


def test_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    lines = [line("step", 10, loss=3.0, learning_rate=1e-5), line("step", 10, loss=9.0), "\n", line("checkpoint", 10), line("eval", 10, recall=40.0)]
    assert follow(lines, "mlflow", "exp", "run-1") == 2
    assert follow([*lines, line("step", 20, loss=2.0)], "mlflow", "exp", "run-1") == 1, "a run that is continued gets what is new"
    run = fake.runs["run-1"]
    assert fake.experiments == ["exp"]
    at = 1_750_000_000_000
    assert run["metrics"] == [("step/loss", 3.0, at, 10), ("step/learning_rate", 1e-5, at, 10), ("eval/recall", 40.0, at, 10), ("step/loss", 2.0, at, 20)]
    assert run["status"] == "FINISHED"


def test_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    lines = [line("eval", 0, recall=30.0), line("step", 10, loss=3.0), line("eval", 0, recall=31.0)]
    assert follow(lines, "wandb", "p", "run-1") == 2
    assert follow([*lines, line("eval", 10, recall=50.0)], "wandb", "p", "run-1") == 1
    assert fake.logged == [{"eval/at": 0, "eval/recall": 30.0}, {"step/at": 10, "step/loss": 3.0}, {"eval/at": 10, "eval/recall": 50.0}]
    assert fake.options == {"project": "p", "id": "run-1", "name": "run-1", "resume": "allow"} and fake.codes == [0, 0]
    assert fake.axes["eval/*"] == "eval/at"


def about(manifest: str = "", **params: str) -> str:
    """Return the line with which `pairstream progress --to` begins."""
    tags = {"commit": "05eb738f2a91", "namespace": "", "model.embeddings": "abc"}
    return json.dumps({"kind": "run", "step": 0, "params": params, "tags": tags, "manifest": manifest}) + "\n"


def kept(path: Path, step: int = 20) -> str:
    return json.dumps({"kind": "checkpoint", "step": step, "checkpoint": str(path)}) + "\n"


def test_mlflow_gets_settings_and_the_last_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    for name in ("weights", "manifest.json"):
        (tmp_path / name).write_text(name)
    settings = {f"SETTING_{i}": str(i) for i in range(250)} | {"RECIPE": "mafa", "SEED": "7", "FILTER": "x" * 9000, "EMPTY": "", "BAR": "a|b"}
    lines = [about(str(tmp_path / "manifest.json"), **settings), kept(tmp_path / "gone", 10), line("step", 20, loss=2.5), kept(tmp_path / "weights")]
    assert follow(lines, "mlflow", "exp", "r") == 1
    run = fake.runs["r"]
    assert run["params"] == {**settings, "FILTER": "x" * 5999 + "…"}
    assert run["tags"]["mlflow.source.git.commit"] == run["tags"]["pairstream.commit"] == "05eb738f2a91" and run["tags"]["pairstream.model.embeddings"] == "abc"
    assert "pairstream.namespace" not in run["tags"], "MLflow has no empty tags"
    card = run["files"].pop("checkpoint/step-20/README.md")
    assert run["files"] == {"checkpoint/step-20/weights": "weights", "checkpoint/step-20/manifest.json": "manifest.json"}
    for want in ("# r, step 20", "trained by mafa", "| commit | 05eb738f2a91 |", "| seed | 7 |", "| step/loss | 2.5 |", r"| `BAR` | a\|b |"):
        assert want in card

    run["files"].clear()
    assert follow([about(**settings | {"SEED": "8"}), *lines[1:]], "mlflow", "exp", "r") == 0
    assert run["params"]["SEED"] == "7" and run["tags"]["pairstream.changed.SEED"] == "8", "a run that is continued keeps its params"
    assert run["files"] == {}, "the checkpoint is there already"


def test_wandb_gets_settings_and_the_last_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    (tmp_path / "weights").write_text("w")
    follow([about(RECIPE="mafa"), kept(tmp_path / "weights")], "wandb", "p", "r")
    assert fake.known["RECIPE"] == "mafa" and fake.known["pairstream"]["commit"] == "05eb738f2a91"
    assert sorted(fake.files) == ["README.md", "weights"] and fake.summary["checkpoint/at"] == 20 and fake.waited
    fake.files.clear()
    follow([kept(tmp_path / "weights")], "wandb", "p", "r")
    assert fake.files == {}, "the checkpoint is there already"


def test_a_checkpoint_of_another_machine_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", FakeMLflow())
    assert follow([line("step", 20, loss=2.5), kept(tmp_path / "weights")], "mlflow", "exp", "r") == 1
    assert capsys.readouterr().err == f"mlflow gets no checkpoint: {tmp_path / 'weights'} of step 20 is no file on this machine\n"


def test_many(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    lines = [line("step", step, **{f"v{i}": 1.0 for i in range(20)}) for step in range(3 * MOST + 7)]
    assert follow(iter(lines), "mlflow", "exp", "r") == len(lines)
    assert [m[3] for m in fake.runs["r"]["metrics"][::20]] == list(range(len(lines)))


def test_a_run_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for bad in ("[]", "{", '{"kind": "step"}', '{"kind": "step", "step": "x"}', '{"kind": "step", "step": 1, "time": "today"}', '{"kind": "step", "step": 1, "values": {"loss": null}}'):
        with pytest.raises(InvalidError, match="is no report, want a line of `pairstream progress --json`"):
            follow([line("step", 1, loss=1.0), bad], "wandb", "p", "r")
    assert set(fake.codes) == {1}

    def broken() -> Any:
        yield line("step", 2, loss=1.0)
        raise OSError("the pipe broke")

    with pytest.raises(OSError, match="the pipe broke"):
        follow(broken(), "wandb", "p", "other")
    assert fake.logged[-1]["step/at"] == 2, "what came before is sent"


class Refused(Exception):
    """An exception of a client's own."""


@pytest.mark.parametrize("where", ["MlflowClient", "log_batch", "set_terminated"])
def test_a_board_that_fails_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str) -> None:
    fake = FakeMLflow()

    def refuse(*args: Any, **options: Any) -> Any:
        raise Refused("no such server\nset MLFLOW_ALLOW_FILE_STORE")

    monkeypatch.setattr(fake, where, refuse, raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.setattr(sys, "stdin", io.StringIO(line("step", 1, loss=1.0)))
    assert main(["track", "--to", "mlflow", "--run", "r"]) == 1
    assert capsys.readouterr().err == "pairstream: mlflow: Refused: no such server set MLFLOW_ALLOW_FILE_STORE\n"


def test_a_board_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, told, said = FakeMLflow(), threading.Event(), list[str]()

    def answer_at_last(name: str) -> Any:
        assert told.wait(60), "nothing was said while the client waited"

    def say(text: str) -> None:
        said.append(text)
        told.set()

    monkeypatch.setattr(fake, "get_experiment_by_name", answer_at_last)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    monkeypatch.setattr(track, "PATIENCE", 0)
    monkeypatch.setattr(track, "_say", say)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://alice:hunter2@nowhere:5000")
    follow([line("step", 1, loss=1.0)], "mlflow", "p", "r")
    assert said[0] == "mlflow has not answered for 0 s; its client goes on trying: MLFLOW_TRACKING_URI is 'http://***@nowhere:5000'"


def test_errors_show_no_password() -> None:
    def fail() -> None:
        raise OSError("cannot ask http://alice:hunter2@mlflow:5000/x, nor ftp://token@host or s3://b/a@b")

    with pytest.raises(PairstreamError) as raised:
        track._ask("mlflow", fail)
    assert str(raised.value) == "mlflow: OSError: cannot ask http://***@mlflow:5000/x, nor ftp://***@host or s3://b/a@b"


def test_refusals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("", "a b", "it's", "x" * 129):
        with pytest.raises(SettingError, match="--run"):
            follow([], "mlflow", "p", name)
    for to in BOARDS:
        monkeypatch.setitem(sys.modules, to, None)
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        assert main(["track", "--to", to, "--run", "r"]) == 1
        assert f"pip install {'mlflow-skinny' if to == 'mlflow' else to}" in capsys.readouterr().err


def test_time() -> None:
    assert Report.parse('{"kind": "eval", "step": 3}') == Report("eval", 3, 0, {})


def test_real_clients(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fakes above are like the real clients, where these are installed."""
    mlflow = pytest.importorskip("mlflow")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MLFLOW_TRACKING_URI": f"file://{tmp_path}/runs", "MLFLOW_ALLOW_FILE_STORE": "true"}
    code = "import sys; from pairstream.__main__ import main; sys.exit(main(['track', '--to', 'mlflow', '--run', 'r']))"
    (tmp_path / "weights").write_text("w")
    head = about(RECIPE="mafa", EMPTY="", **{f"SETTING_{i}": "x" * 6001 for i in range(120)})
    for lines in ([head, line("step", 10, loss=3.0)], [head, line("step", 10, loss=3.0), line("step", 20, loss=2.0), kept(tmp_path / "weights")]):
        subprocess.run([sys.executable, "-c", code], input="".join(lines), text=True, check=True, env=env, cwd=tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(env["MLFLOW_TRACKING_URI"])
    runs = client.search_runs([client.get_experiment_by_name("pairstream").experiment_id])
    assert len(runs) == 1 and runs[0].info.status == "FINISHED"
    assert runs[0].data.params["RECIPE"] == "mafa" and len(runs[0].data.params) >= 121
    assert sorted(f.path for f in client.list_artifacts(runs[0].info.run_id, "checkpoint/step-20")) == ["checkpoint/step-20/README.md", "checkpoint/step-20/weights"]
    assert [(m.step, m.value) for m in client.get_metric_history(runs[0].info.run_id, "step/loss")] == [(10, 3.0), (20, 2.0)]


def test_real_wandb_offline(tmp_path: Any) -> None:
    """Without a connection the client of Weights & Biases writes every report to a file, and the process ends well."""
    pytest.importorskip("wandb")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    code = "import sys; from pairstream.__main__ import main; sys.exit(main(['track', '--to', 'wandb', '--project', 'p', '--run', 'grit']))"
    (tmp_path / "weights").write_text("w")
    lines = about(RECIPE="mafa") + line("eval", 0, recall=30.5) + line("step", 10, loss=3.25) + line("step", 20, loss=2.125) + kept(tmp_path / "weights")
    subprocess.run([sys.executable, "-c", code], input=lines, text=True, check=True, env=env, cwd=tmp_path)
    (run,) = tmp_path.glob("wandb/offline-run-*-grit/*.wandb")
    content = run.read_bytes()
    for want in (b"eval/recall", b"30.5", b"step/loss", b"3.25", b"2.125", b"RECIPE", b"mafa", b"grit-checkpoint", b"README.md"):
        assert want in content
