"""Packs the standalone archive as an OCI image, with no container engine: ``python3 -IS image.py ARCHIVE IMAGE``.

The image is an OCI layout in a tar, as `ctr images import`, `podman load` and `skopeo copy oci-archive:` read it. Its
one layer is the tree, as /kleader. The Python of a tree runs it, so that no other zlib counts for the digest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

OCI = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Go calls them
WHEN = 315_532_800  # 1980-01-01
CREATED = "1980-01-01T00:00:00Z"


def main(archive: Path, image: Path) -> None:
    """Write the image."""
    name, _, machine = archive.name.removesuffix(".tar.gz").partition("-linux-")
    version = name.removeprefix("kleader-")
    layer = layer_of(archive)
    packed = gzip.compress(layer, 9, mtime=0)
    config = _json(
        {
            "architecture": ARCHITECTURES[machine],
            "os": "linux",
            "created": CREATED,
            "config": {
                "Entrypoint": ["/kleader/bin/kleader"],
                "Env": ["PATH=/kleader/bin"],
                "User": "65532:65532",
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            "history": [{"created": CREATED, "created_by": "make image"}],
        }
    )
    about = {"title": "kleader", "version": version, "licenses": "Apache-2.0"}
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _descriptor(f"{OCI}.config.v1+json", config),
            "layers": [_descriptor(f"{OCI}.layer.v1.tar+gzip", packed)],
            "annotations": {f"org.opencontainers.image.{key}": value for key, value in about.items()},
        }
    )
    named = {
        **_descriptor(f"{OCI}.manifest.v1+json", manifest),
        "annotations": {
            "io.containerd.image.name": f"localhost/kleader:{version}",
            "org.opencontainers.image.ref.name": version,
        },
    }
    index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [named]}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    for blob in (packed, config, manifest):
        files[f"blobs/{_digest(blob).replace(':', '/')}"] = blob
    with tarfile.open(image, "w", format=tarfile.USTAR_FORMAT) as tar:
        for file, content in sorted(files.items()):
            entry = tarfile.TarInfo(file)
            entry.size, entry.mtime = len(content), WHEN
            tar.addfile(entry, io.BytesIO(content))
    print(f"{image}: localhost/kleader:{version} {_digest(manifest)}")


def layer_of(archive: Path) -> bytes:
    """The tree as /kleader; users, times and modes are the archive's."""
    layer = io.BytesIO()
    with tarfile.open(archive) as packed, tarfile.open(fileobj=layer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry in packed:
            entry.name = "/".join(["kleader", *entry.name.split("/")[1:]])
            tar.addfile(entry, packed.extractfile(entry) if entry.isreg() else None)
    return layer.getvalue()


def _descriptor(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(content: object) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
