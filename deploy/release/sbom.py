"""Completes what cyclonedx-gomod wrote of the program: what is not of Go, and the time of the release instead of the clock's.

    sbom.py IN OUT     SOURCE_DATE_EPOCH is the time
"""

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

# Debian's packages that the programs are linked with, and how.
LINKED = {
    "libfaiss-dev": "inside",
    "libturbojpeg0-dev": "inside the wheel's program",
    "libturbojpeg0": "loaded by the programs on Debian's libtorch",
    "libtorch1.13": "loaded by the programs on Debian's libtorch",
    "libopenblas0-pthread": "loaded by the programs on Debian's libtorch",
}


def debian(name: str, how: str) -> dict:
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"sbom: {name} is not installed: {done.stderr.strip()}")
    purl = f"pkg:deb/debian/{name}@{done.stdout}"
    return {"bom-ref": purl, "type": "library", "name": name, "version": done.stdout, "purl": purl, "description": how}


def main(source: str, target: str) -> None:
    bom = json.loads(Path(source).read_text())
    at = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    bom["metadata"]["timestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    # The tool's own sums depend on the folder that it was built in.
    bom["metadata"]["tools"] = {"components": [{"type": "application", "name": "cyclonedx-gomod", "version": "v1.9.0"}]}
    version = Path("deploy/torch/fetch.sh").read_text().split("TORCH_VERSION:-")[1].split("}")[0]
    torch = {"bom-ref": f"pkg:pypi/torch@{version}", "type": "library", "name": "torch", "version": version, "purl": f"pkg:pypi/torch@{version}",
             "description": "its libtorch is loaded by the wheel's program"}
    bom["components"] += [debian(*package) for package in LINKED.items()] + [torch]
    bom["components"].sort(key=lambda c: c["bom-ref"])
    Path(target).write_text(json.dumps(bom, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
