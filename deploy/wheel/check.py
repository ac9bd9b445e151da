"""Checks a wheel with auditwheel: what its programs need is the platform's, PyTorch's or the wheel's own.

    check.py WHEEL PLATFORM
"""

import json
import re
import subprocess
import sys
import tempfile

# In the wheel, for each version of PyTorch.
OWN = {"libpairstream_torch.so"}
# In PyTorch's folder torch/lib. The last two are the BLAS and the LAPACK of the wheel for arm64.
PYTORCH = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libnvpl_blas_lp64_gomp.so.0", "libnvpl_lapack_lp64_gomp.so.0"}


def main(wheel: str, platform: str) -> None:
    # Libraries are looked for nowhere: what Debian's libtorch needs, where it is installed, is no matter of the wheel.
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(["auditwheel", "show", "--json", "--ldpaths", empty, wheel], stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    external = set(found["external_libs"]) - PYTORCH - OWN
    if external:
        sys.exit(f"wheel: the program needs {', '.join(sorted(external))}, which are neither the platform's nor PyTorch's")
    needs, promised = (tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)_", tag).groups())) for tag in (found["sym_tag"], platform))
    if needs > promised:
        sys.exit(f"wheel: its symbols ask for {found['sym_tag']}, and it promises {platform}")
    print(f"wheel: auditwheel finds symbols of {found['sym_tag']} and the libraries {', '.join(sorted(found['external_libs']))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
