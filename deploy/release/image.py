"""Writes an image as an archive, without an engine: what deploy/Dockerfile makes of the same root filesystem.

    image.py ROOTFS VOLUMES NAME:TAG REVISION ARCH OUT

The archive is an OCI layout, for skopeo, crane, podman and `docker load` from version 25 on. Its bytes depend on the files
alone; SOURCE_DATE_EPOCH is the time of all.
"""

import datetime
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
USER = 65532


def entry(info: tarfile.TarInfo, owner: int) -> tarfile.TarInfo:
    info.uid = info.gid = owner
    info.uname = info.gname = ""
    info.mtime = EPOCH
    return info


def layer(rootfs: Path, volumes: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for root, owner in ((rootfs, 0), (volumes, USER)):
            for path in sorted(root.rglob("*")):
                info = entry(tar.gettarinfo(path, str(path.relative_to(root))), owner)
                if info.isreg():
                    with path.open("rb") as file:
                        tar.addfile(info, file)
                else:
                    tar.addfile(info)
    return out.getvalue()


def config(tag: str, revision: str, arch: str, diff: str) -> dict:
    version = tag.split(":")[1]
    labels = {"title": "pairstream", "description": "Streams image-text pairs into grouped mini-batches and trains on them", "licenses": "Apache-2.0",
              "source": "https://github.com/pairstream/pairstream", "version": version, "revision": revision}
    second = 1_000_000_000
    return {
        "architecture": arch, "os": "linux", "created": datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "config": {
            "User": f"{USER}:{USER}", "Env": ["PATH=/usr/local/bin", "LOG_FORMAT=json", "HTTP_ADDR=:9090", "HEALTH_ADDR=:9091"],
            "Cmd": ["/usr/local/bin/pairstream", "--help"], "ExposedPorts": {"9090/tcp": {}},
            "Labels": {f"org.opencontainers.image.{key}": value for key, value in labels.items()},
            "Healthcheck": {"Test": ["CMD", "/usr/local/bin/pairstream-static", "healthcheck"], "Interval": 10 * second, "Timeout": 5 * second,
                            "StartPeriod": 60 * second, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff}"]},
    }


def main(rootfs: str, volumes: str, tag: str, revision: str, arch: str, target: str) -> None:
    blobs: dict[str, bytes] = {}

    def blob(media: str, data: bytes) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(data)}

    def described(value: dict | list) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    plain = layer(Path(rootfs), Path(volumes))
    about = blob("config.v1+json", described(config(tag, revision, arch, hashlib.sha256(plain).hexdigest())))
    content = blob("layer.v1.tar+gzip", gzip.compress(plain, 6, mtime=0))
    manifest = blob("manifest.v1+json", described({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": about, "layers": [content]}))
    manifest["annotations"] = {"org.opencontainers.image.ref.name": tag.split(":")[1], "io.containerd.image.name": f"docker.io/library/{tag}"}
    path = "blobs/sha256/" + about["digest"].split(":")[1]
    files = {
        "oci-layout": described({"imageLayoutVersion": "1.0.0"}),
        "index.json": described({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}),
        # For engines that read no OCI layout yet.
        "manifest.json": described([{"Config": path, "RepoTags": [tag], "Layers": ["blobs/sha256/" + content["digest"].split(":")[1]]}]),
        **blobs,
    }
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(files):
            info = entry(tarfile.TarInfo(name), 0)
            info.size = len(files[name])
            tar.addfile(info, io.BytesIO(files[name]))


if __name__ == "__main__":
    main(*sys.argv[1:])
