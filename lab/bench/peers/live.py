"""Searches in a FAISS index while pairs are added; FAISS's indexes take one or the other at a time, so a lock guards them."""

import contextlib
import threading
import time

import faiss
import numpy


class Live:
    """A subclass makes self.index of the first rows, and sets how thoroughly it searches."""

    def __init__(self, job):
        faiss.omp_set_num_threads(job.threads)
        self.job = job
        rows, dim = job.option("rows"), job.option("dim")
        self.texts = job.halves("texts.f16", dim)
        images = numpy.fromfile(job.path("images.f16"), dtype="<f2", count=rows * dim).reshape(-1, dim)
        self.queries = images[:: rows // job.option("queries")][: job.option("queries")].astype("float32")
        self.k, self.added = job.option("k"), rows
        self.lock, self.turn = threading.Lock(), threading.Lock()
        started = time.perf_counter()
        self.build(self.texts[:rows])
        self.build_seconds = time.perf_counter() - started
        exact = faiss.IndexFlatIP(dim)
        exact.add(self.texts[:rows])
        self.want = exact.search(self.queries, self.k)[1]
        faiss.omp_set_num_threads(1)  # a team of threads for single queries waits more than it works
        for self.effort in self.efforts():
            if self.recall(self.effort) >= job.options["recall"]:
                break

    def recall(self, effort):
        self.set_effort(effort)
        got = self.index.search(self.queries, self.k)[1]
        self.reached = float((got[:, :, None] == self.want[:, None, :]).any(axis=1).mean())
        return self.reached

    @contextlib.contextmanager
    def alone(self):
        """Takes the lock in turn. By itself a lock goes to whoever has just let go of it: searches would starve additions."""
        with self.turn:
            self.lock.acquire()
        try:
            yield
        finally:
            self.lock.release()

    def add_steadily(self, stop):
        step = max(1, self.job.option("adds_per_second") // 1000)  # few at a time, so that no search waits long
        begun, turns, first = time.perf_counter(), 0, self.added
        while not stop.is_set() and self.added + step <= len(self.texts):
            with self.alone():
                self.index.add(self.texts[self.added : self.added + step])
            self.added += step
            turns += 1
            time.sleep(max(0, begun + step / self.job.option("adds_per_second") * turns - time.perf_counter()))
        self.adds = (self.added - first) / (time.perf_counter() - begun)

    def run(self):
        stop = threading.Event()
        adder = threading.Thread(target=self.add_steadily, args=(stop,))
        adder.start()
        times, begun = [], time.perf_counter()
        while len(times) < self.job.option("searches") or time.perf_counter() - begun < self.job.option("seconds"):
            query = self.queries[len(times) % len(self.queries)][None]
            started = time.perf_counter()
            with self.alone():
                self.index.search(query, self.k)
            times.append(time.perf_counter() - started)
        stop.set()
        adder.join()
        p50, p99 = numpy.percentile(times, [50, 99]) * 1000
        return {"p50_ms": p50, "p99_ms": p99, "adds_per_second": self.adds}

    def check(self):
        return {"peer_recall": self.reached, "peer_effort": self.effort, "peer_build_seconds": self.build_seconds}
