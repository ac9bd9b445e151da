"""Writes an image as an archive, without an engine: what deploy/Dockerfile makes of the same root filesystem.

    image.py NAME:TAG REVISION ARCH OUT VOLUMES [VARIABLE=VALUE...] ROOTFS...

Each ROOTFS becomes a layer, and VOLUMES, whose folders belong to the user, goes into the last one. The archive is an OCI
layout, for skopeo, crane, podman and `docker load` from version 25 on. Its bytes depend on the files alone;
SOURCE_DATE_EPOCH is the time of all.
"""

import datetime
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import BinaryIO

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
USER = 65532


def entry(info: tarfile.TarInfo, owner: int) -> tarfile.TarInfo:
    info.uid = info.gid = owner
    info.uname = info.gname = ""
    info.mtime = EPOCH
    return info


class Hashed:
    """A writer that hashes what passes through it."""

    def __init__(self, to: BinaryIO) -> None:
        self.to, self.hash = to, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return self.to.write(data)


def layer(roots: list[tuple[Path, int]], to: BinaryIO) -> tuple[str, str]:
    """Writes the files below roots, each with its owner, as a compressed tar. Returns its digest, and that of the plain tar."""
    packed = Hashed(to)
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=packed, mtime=0) as compressed:
        plain = Hashed(compressed)
        with tarfile.open(fileobj=plain, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for root, owner in roots:
                for path in sorted(root.rglob("*")):
                    info = entry(tar.gettarinfo(path, str(path.relative_to(root))), owner)
                    if info.isreg():
                        with path.open("rb") as file:
                            tar.addfile(info, file)
                    else:
                        tar.addfile(info)
    return packed.hash.hexdigest(), plain.hash.hexdigest()


def config(tag: str, revision: str, arch: str, variables: list[str], diffs: list[str]) -> dict:
    version = tag.split(":")[1]
    labels = {"title": "pairstream", "description": "Streams image-text pairs into grouped mini-batches and trains on them", "licenses": "Apache-2.0",
              "source": "https://github.com/pairstream/pairstream", "version": version, "revision": revision}
    second = 1_000_000_000
    return {
        "architecture": arch, "os": "linux", "created": datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "config": {
            "User": f"{USER}:{USER}", "Env": ["PATH=/usr/local/bin", "LOG_FORMAT=json", "HTTP_ADDR=:9090", "HEALTH_ADDR=:9091", *variables],
            "Cmd": ["/usr/local/bin/pairstream", "--help"], "ExposedPorts": {"9090/tcp": {}},
            "Labels": {f"org.opencontainers.image.{key}": value for key, value in labels.items()},
            "Healthcheck": {"Test": ["CMD", "/usr/local/bin/pairstream", "healthcheck"], "Interval": 10 * second, "Timeout": 5 * second,
                            "StartPeriod": 60 * second, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff}" for diff in diffs]},
    }


def main(tag: str, revision: str, arch: str, target: str, volumes: str, *rest: str) -> None:
    variables = [word for word in rest if "=" in word]
    rootfs = [Path(word) for word in rest if "=" not in word]
    blobs: dict[str, Path | bytes] = {}

    def described(value: dict | list) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    def named(media: str, digest: str, size: int) -> dict:
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": size}

    def blob(media: str, data: bytes) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return named(media, digest, len(data))

    with tempfile.TemporaryDirectory(dir=Path(target).parent) as work:
        layers, diffs = [], []
        for number, root in enumerate(rootfs):
            file = Path(work, str(number))
            with file.open("wb") as to:
                digest, diff = layer([(root, 0)] + ([(Path(volumes), USER)] if number == len(rootfs) - 1 else []), to)
            blobs[f"blobs/sha256/{digest}"] = file
            layers.append(named("layer.v1.tar+gzip", digest, file.stat().st_size))
            diffs.append(diff)
        about = blob("config.v1+json", described(config(tag, revision, arch, variables, diffs)))
        manifest = blob("manifest.v1+json", described({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": about, "layers": layers}))
        manifest["annotations"] = {"org.opencontainers.image.ref.name": tag.split(":")[1], "io.containerd.image.name": f"docker.io/library/{tag}"}
        path = {part["digest"]: "blobs/sha256/" + part["digest"].split(":")[1] for part in (about, *layers)}
        files = {
            "oci-layout": described({"imageLayoutVersion": "1.0.0"}),
            "index.json": described({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}),
            # For engines that read no OCI layout yet.
            "manifest.json": described([{"Config": path[about["digest"]], "RepoTags": [tag], "Layers": [path[part["digest"]] for part in layers]}]),
            **blobs,
        }
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
            for name in sorted(files):
                add(tar, name, files[name])


def add(tar: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    info = entry(tarfile.TarInfo(name), 0)
    with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
        info.size = file.seek(0, io.SEEK_END)
        file.seek(0)
        tar.addfile(info, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
