"""What the peers share: the line protocol with the bench program, and its files.

A peer reads a job (one line of JSON), makes its side, and answers every further line, the name of a method, with a line
that says how long the method took. What a method returns are further values; "seconds" and "cpu_seconds" among them
replace the measured times.
"""

import json
import resource
import sys
import time

import numpy


class Job:
    def __init__(self, raw):
        self.threads = raw["threads"]
        self.folder = raw["folder"]
        self.options = raw.get("options") or {}
        self.preset = raw.get("preset")

    def option(self, name):
        return int(self.options[name])

    def path(self, name):
        return f"{self.folder}/{name}"

    def halves(self, name, dim):
        """The float32 values of a file of float16 rows."""
        return numpy.fromfile(self.path(name), dtype="<f2").astype("float32").reshape(-1, dim)

    def floats(self, name, dim):
        return numpy.fromfile(self.path(name), dtype="<f4").reshape(-1, dim)

    def integers(self, name, width):
        return numpy.fromfile(self.path(name), dtype="<i4").reshape(-1, width)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def serve(make):
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is not an answer

    def say(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        side = make(Job(json.loads(sys.stdin.readline())))
    except Exception as e:
        say({"error": f"{type(e).__name__}: {e}"})
        return
    say({})
    for line in sys.stdin:
        cpu, started = cpu_seconds(), time.perf_counter()
        try:
            values = getattr(side, line.strip())() or {}
        except Exception as e:
            say({"error": f"{type(e).__name__}: {e}"})
            continue
        seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu
        series = {k: v for k, v in values.items() if isinstance(v, list)}
        numbers = {k: float(v) for k, v in values.items() if not isinstance(v, list)}
        say({
            "seconds": numbers.pop("seconds", seconds),
            "cpu_seconds": numbers.pop("cpu_seconds", cpu),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "values": numbers,
            "series": series,
        })
