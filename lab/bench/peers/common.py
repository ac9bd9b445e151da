"""What the peers share: the line protocol with the bench program, and its files.

A peer reads a job (one line of JSON), makes its side, says what its libraries are, and answers every further line, the
name of a method, with a line that says how long the method took. What a method returns are further values; "seconds" and
"cpu_seconds" among them replace the measured times.
"""

import ctypes
import json
import platform
import re
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
        self.variant = raw.get("variant") or ""
        self.precision = raw.get("precision") or "float32"

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


def openblas():
    """The core names and compile options of the OpenBLAS libraries that this process has loaded, by file."""
    with open("/proc/self/maps") as maps:
        paths = sorted({line.split()[-1] for line in maps if re.search(r"/lib[a-z_]*openblas[^/]*\.so", line)})
    found = []
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix in ("", "scipy_"):
            for suffix in ("", "64_"):
                try:
                    core = getattr(library, f"{prefix}openblas_get_corename{suffix}")
                    config = getattr(library, f"{prefix}openblas_get_config{suffix}")
                except AttributeError:
                    continue
                core.restype = config.restype = ctypes.c_char_p
                found.append((core().decode(), config().decode()))
    return found


def about():
    """The versions, core names and compile options of what this process has loaded."""
    loaded, found = sys.modules, {"python": platform.python_version(), "numpy": numpy.__version__}
    for name, module in {"torchvision": "torchvision", "pillow": "PIL", "simplejpeg": "simplejpeg", "openvino": "openvino", "webdataset": "webdataset", "streaming": "streaming", "img2dataset": "img2dataset"}.items():
        if module in loaded:
            found[name] = getattr(loaded[module], "__version__", "unknown")
    blas = openblas()
    if "faiss" in loaded:
        faiss = loaded["faiss"]
        found["faiss"] = faiss.__version__
        found["faiss_options"] = faiss.get_compile_options().strip()
        found["faiss_simd"] = faiss_simd(faiss)
    if "torch" in loaded:
        torch = loaded["torch"]
        options = torch.__config__.show()
        found["torch"], found["torch_options"] = torch.__version__, " ".join(options.split())
        if hasattr(torch.backends, "cpu"):
            found["torch_cpu"] = torch.backends.cpu.get_cpu_capability()
        else:
            found["torch_cpu"] = (re.search(r"CPU capability usage: (\S+)", options) or [None, ""])[1]
        if "faiss" not in loaded and re.search(r"BLAS_INFO=mkl|Math Kernel Library", options):
            blas = []  # of numpy, which multiplies nothing beside PyTorch
    if blas:
        found["openblas_core"] = ", ".join(sorted({core for core, _ in blas}))
        found["openblas_options"] = "; ".join(sorted({config for _, config in blas}))
    return found


def faiss_simd(faiss):
    """The widest instructions that FAISS computes with."""
    if hasattr(faiss, "SIMDConfig"):  # chosen when it starts
        try:
            return str(faiss.SIMDConfig.get_level_name())
        except (AttributeError, TypeError):
            pass
    names = [name for name in sys.modules if name.startswith("faiss._swigfaiss") or name.startswith("faiss.swigfaiss")]
    for level in ("avx512_spr", "avx512", "avx2", "sve"):
        if any(name.endswith("_" + level) for name in names):
            return level.upper()
    return "generic"


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
    say({"about": about()})
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
