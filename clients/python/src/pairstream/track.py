"""Hands reports of training to MLflow or Weights & Biases, through their own clients.

    pairstream progress --follow --to mlflow                          # starts this by itself
    pairstream progress --json | python -m pairstream track --to wandb

Reports are JSON, an object a line, as `pairstream progress --json` prints them. Every value becomes a metric, KIND/NAME, at
its step. A run is continued by its name: what it has is not sent again. Of a step that a trainer repeats after a crash, the
first report counts here. A line of kind "run", which `progress --to` writes first, has the run's settings and tags. At the end
the last checkpoint becomes an artifact, with a model card and the run's manifest, if its file is on this machine.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import json
import os
import queue
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .errors import BoardError, InvalidError, PairstreamError, SettingError

MOST = 100  # reports in one message
PATIENCE = 5.0  # seconds until a client that does not answer is named; MLflow's tries for four minutes
T = TypeVar("T")


@dataclass(frozen=True)
class About:
    """A description of a run."""

    params: dict[str, str]
    tags: dict[str, str]
    manifest: str = ""  # its file

    @classmethod
    def parse(cls, raw: dict[str, Any]) -> About:
        """Read the description in a line."""

        def texts(name: str) -> dict[str, str]:
            return {str(k): str(v) for k, v in raw.get(name, {}).items()}

        return cls(texts("params"), texts("tags"), str(raw.get("manifest", "")))

    def card(self, name: str, checkpoint: Report, values: dict[str, float]) -> str:
        """Return the model card of a checkpoint, in Markdown."""
        recipe = self.params.get("RECIPE") or "its settings alone"
        rows = [f"# {name}, step {checkpoint.step}", "", f"A checkpoint of a run of pairstream, trained by {recipe}.", "", "| | |", "|---|---|"]
        rows += [f"| {key} | {_cell(value)} |" for key, value in sorted(self.tags.items()) if value]
        rows += [f"| seed | {_cell(self.params['SEED'])} |"] if self.params.get("SEED") else []
        rows += ["", "## Last figures", "", "| figure | value |", "|---|---|", *(f"| {key} | {value:g} |" for key, value in sorted(values.items()))]
        rows += ["", "## Settings", "", "| setting | value |", "|---|---|", *(f"| `{key}` | {_cell(value)} |" for key, value in sorted(self.params.items()) if value)]
        return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


@dataclass(frozen=True)
class Report:
    """A report of training."""

    kind: str
    step: int
    time: int  # Unix milliseconds; 0: unknown
    values: dict[str, float]
    checkpoint: str = ""
    about: About | None = None

    @classmethod
    def parse(cls, line: str) -> Report:
        """Read a line."""
        try:
            raw = json.loads(line)
            time = raw.get("time")
            when = int(datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000) if time else 0
            values = {str(k): float(v) for k, v in raw.get("values", {}).items()}
            about = About.parse(raw) if raw["kind"] == "run" else None
            return cls(str(raw["kind"]), int(raw["step"]), when, values, str(raw.get("checkpoint", "")), about)
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise InvalidError(f"{line[:200]!r} is no report, want a line of `pairstream progress --json`: {err!r}") from err


class Board(Protocol):
    """Where the reports of a run go."""

    last: dict[str, int]  # by kind: the last step that it has

    def describe(self, about: About) -> None:
        """Take the description of the run."""

    def send(self, reports: list[Report]) -> None:
        """Take reports, oldest first."""

    def keep(self, step: int, files: list[Path]) -> None:
        """Take the files of a checkpoint, the weights last."""

    def close(self, failed: bool) -> None:
        """Take the end of the reports."""


def _client(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as err:
        raise SettingError(f"the Python package {name} is missing or broken ({err}): pip install {'mlflow-skinny' if name == 'mlflow' else name}") from err


class MLflow:
    """A run of MLflow, in the experiment of a name. MLFLOW_TRACKING_URI says where."""

    def __init__(self, project: str, name: str) -> None:
        self._mlflow = _client("mlflow")
        self._client = self._mlflow.MlflowClient()
        experiment = self._client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment is not None else self._client.create_experiment(project)
        runs = self._client.search_runs([number], filter_string=f"tags.`pairstream.run` = '{name}'", max_results=1)
        run = runs[0] if runs else self._client.create_run(number, run_name=name, tags={"pairstream.run": name})
        self._id = run.info.run_id
        self.last = {key.removeprefix("pairstream.last."): int(v) for key, v in run.data.tags.items() if key.startswith("pairstream.last.")}
        self._params = dict(run.data.params)
        self._client.update_run(self._id, status="RUNNING")

    def describe(self, about: About) -> None:
        """Take the description of the run. MLflow refuses other values of a run's params, so changed ones become tags."""
        param, tag = self._mlflow.entities.Param, self._mlflow.entities.RunTag
        values = {key: _cut(value, 6000) for key, value in about.params.items()}
        fresh = [param(key, value) for key, value in values.items() if key not in self._params]
        for at in range(0, len(fresh), 100):
            self._client.log_batch(self._id, params=fresh[at : at + 100])
        tags = {f"pairstream.{key}": value for key, value in about.tags.items()} | {"mlflow.source.git.commit": about.tags.get("commit", "")}
        tags |= {f"pairstream.changed.{key}": value for key, value in values.items() if self._params.get(key, value) != value}
        known = [tag(key, _cut(value, 5000)) for key, value in tags.items() if value]
        for at in range(0, len(known), 100):
            self._client.log_batch(self._id, tags=known[at : at + 100])

    def keep(self, step: int, files: list[Path]) -> None:
        """Take the files of a checkpoint."""
        for file in files:
            self._client.log_artifact(self._id, str(file), f"checkpoint/step-{step}")
        self._client.set_tag(self._id, "pairstream.last.checkpoint", str(step))

    def send(self, reports: list[Report]) -> None:
        """Take reports, oldest first."""
        metric, tag = self._mlflow.entities.Metric, self._mlflow.entities.RunTag
        metrics = [metric(f"{r.kind}/{name}", v, r.time, r.step) for r in reports for name, v in r.values.items()]
        for at in range(0, len(metrics), 500):
            self._client.log_batch(self._id, metrics=metrics[at : at + 500])
        last = {r.kind: r.step for r in reports}
        self._client.log_batch(self._id, tags=[tag(f"pairstream.last.{kind}", str(step)) for kind, step in last.items()])

    def close(self, failed: bool) -> None:
        """Take the end of the reports."""
        self._client.set_terminated(self._id, status="FAILED" if failed else "FINISHED")


class Wandb:
    """A run of Weights & Biases. The variables of its client say where: WANDB_API_KEY, WANDB_MODE, WANDB_DIR."""

    def __init__(self, project: str, name: str) -> None:
        self._wandb = _client("wandb")
        self._run = self._wandb.init(project=project, id=name, name=name, resume="allow")
        self.last = {}
        if (at := self._run.summary.get("checkpoint/at")) is not None:
            self.last["checkpoint"] = int(at)
        for kind in ("step", "eval"):
            # Evaluations come between steps, so each kind has its own axis in place of the client's.
            self._run.define_metric(f"{kind}/at")
            self._run.define_metric(f"{kind}/*", step_metric=f"{kind}/at")
            if (at := self._run.summary.get(f"{kind}/at")) is not None:
                self.last[kind] = int(at)

    def describe(self, about: About) -> None:
        """Take the description of the run."""
        self._run.config.update({**about.params, "pairstream": about.tags}, allow_val_change=True)

    def keep(self, step: int, files: list[Path]) -> None:
        """Take the files of a checkpoint."""
        artifact = self._wandb.Artifact(f"{self._run.id}-checkpoint", type="model", metadata={"step": step})
        for file in files[:-1]:
            artifact.add_file(str(file))
        artifact.add_file(str(files[-1]), policy="immutable")  # a large file is not copied first
        sent = self._run.log_artifact(artifact)
        if not self._run.offline:
            sent.wait()
        self._run.summary["checkpoint/at"] = step

    def send(self, reports: list[Report]) -> None:
        """Take reports, oldest first."""
        for r in reports:
            self._run.log({f"{r.kind}/at": r.step, **{f"{r.kind}/{name}": v for name, v in r.values.items()}})

    def close(self, failed: bool) -> None:
        """Take the end of the reports."""
        self._run.finish(exit_code=1 if failed else 0)


BOARDS: dict[str, Callable[[str, str], Board]] = {"mlflow": MLflow, "wandb": Wandb}
_PLACES = {"mlflow": "MLFLOW_TRACKING_URI", "wandb": "WANDB_BASE_URL"}  # the variables that say where they are


def _cut(value: str, most: int) -> str:
    return value if len(value) <= most else value[: most - 1] + "…"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _shown(text: str) -> str:
    """Leave the users and passwords of URLs out of a text."""
    return re.sub(r"://[^/?#\s'\"]*@", "://***@", text)


def _ask(to: str, what: Callable[[], T]) -> T:
    """Call a client. Its exceptions become one, and a long wait is told."""
    place = _PLACES[to]
    waits = f"{to} has not answered for {PATIENCE:g} s; its client goes on trying: {place} is {_shown(os.environ.get(place, ''))!r}"
    timer = threading.Timer(PATIENCE, _say, [waits])
    timer.daemon = True
    timer.start()
    try:
        return what()
    except PairstreamError:
        raise
    except Exception as err:  # each client has exceptions of its own
        raise BoardError(f"{to}: {type(err).__name__}: {_shown(' '.join(str(err).split()))}") from err
    finally:
        timer.cancel()


_END = object()


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield lines as they come: all that are there, up to MOST."""
    coming: queue.Queue[Any] = queue.Queue()

    def read() -> None:
        try:
            for line in lines:
                coming.put(line)
            coming.put(_END)
        except BaseException as err:  # it is raised where the lines are used
            coming.put(err)

    threading.Thread(target=read, daemon=True).start()
    batch: list[str] = []
    while True:
        item = coming.get()
        if isinstance(item, str):
            batch.append(item)
        if batch and (not isinstance(item, str) or len(batch) == MOST or coming.empty()):
            yield batch
            batch = []
        if item is _END:
            return
        if isinstance(item, BaseException):
            raise item


def _keep(to: str, board: Board, about: About, name: str, checkpoint: Report, values: dict[str, float]) -> None:
    """Send the last checkpoint with its card and the run's manifest. A run elsewhere has its files there."""
    path = Path(checkpoint.checkpoint)
    if not path.is_file():
        _say(f"{to} gets no checkpoint: {path} of step {checkpoint.step} is no file on this machine")
        return
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder, "README.md")
        card.write_text(about.card(name, checkpoint, values), encoding="utf-8")
        files = [card, *([Path(about.manifest)] if about.manifest else []), path]
        _ask(to, lambda: board.keep(checkpoint.step, files))


def follow(lines: Iterable[str], to: str, project: str, name: str) -> int:
    """Send the reports of lines to a board, until there are no more; return how many were sent."""
    if not re.fullmatch("[A-Za-z0-9._-]{1,128}", name):
        raise SettingError(f"the run is called {name!r}, want up to 128 letters, digits and any of - _ . (--run)")
    board, sent = _ask(to, lambda: BOARDS[to](project, name)), 0
    about, checkpoint, values = About({}, {}), None, dict[str, float]()
    try:
        for batch in _batches(lines):
            fresh = []
            for report in (Report.parse(line) for line in batch if line.strip()):
                if report.about is not None:
                    about = report.about
                    _ask(to, functools.partial(board.describe, about))
                    continue
                values |= {f"{report.kind}/{key}": value for key, value in report.values.items()}
                if report.checkpoint:
                    checkpoint = report
                if report.values and report.step > board.last.get(report.kind, -1):
                    board.last[report.kind] = report.step
                    fresh.append(report)
            if fresh:
                _ask(to, functools.partial(board.send, fresh))
                sent += len(fresh)
        if checkpoint is not None and checkpoint.step > board.last.get("checkpoint", -1):
            _keep(to, board, about, name, checkpoint, values)
    except BoardError:  # it would not take the end either
        raise
    except BaseException:
        _ask(to, lambda: board.close(failed=True))
        raise
    _ask(to, lambda: board.close(failed=False))
    return sent
