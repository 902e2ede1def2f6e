"""The last steps of a standalone tree, by the Python of such a tree, so that no other version of it or of zlib counts.

``python3 -IS finish.py TREE ARCHIVE``: compiles each module, writes the SBOM, and packs the archive.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import py_compile
import re
import sys
import tarfile
from email.parser import HeaderParser
from pathlib import Path

WHEN = 315_532_800  # 1980-01-01, what zip files begin with too


def main(tree: Path, archive: Path) -> None:
    """Finish the tree, and pack it."""
    for module in sorted(tree.rglob("*.py")):
        # Unchecked: neither times nor users matter, and nothing is written where it runs.
        py_compile.compile(
            str(module),
            dfile=str(module.relative_to(tree)),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    (tree / "share" / "sbom.spdx.json").write_text(json.dumps(sbom(tree), indent=1) + "\n")
    pack(tree, archive)


def sbom(tree: Path) -> dict[str, object]:
    """The parts of the tree, as SPDX 2.3 has it."""
    parts = []
    for line in (tree / "share" / "doc" / "debian.txt").read_text().splitlines():
        architecture, name, version, digest = line.split()
        purl = (
            f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}&distro=trixie"
        )
        checksums = [{"algorithm": "SHA256", "checksumValue": digest}]
        parts.append({**_part(name, version, purl, "NOASSERTION"), "checksums": checksums})
    for metadata in sorted((tree / "lib" / "kleader").glob("*.dist-info/METADATA")):
        fields = HeaderParser().parsestr(metadata.read_text())
        name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
        version = fields["Version"]
        licence = fields["License-Expression"] or fields["License"] or "NOASSERTION"
        parts.append(_part(name, version, f"pkg:pypi/{name}@{version}", licence))
    (zig,) = re.findall(r"(?m)^ziglang==(\S+)", (tree / "share" / "doc" / "compiler.txt").read_text())
    parts.append(_part("musl", f"of ziglang {zig}", f"pkg:pypi/ziglang@{zig}", "MIT"))  # linked into each of bin/
    version = tree.name.removeprefix("kleader-")
    parts.append(_part("kleader", version, f"pkg:pypi/kleader@{version}", "Apache-2.0"))
    unique = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    relations = [
        {"spdxElementId": "SPDXRef-kleader", "relationshipType": "CONTAINS", "relatedSpdxElement": part["SPDXID"]}
        for part in parts[:-1]
    ]
    described = {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES"}
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": tree.name,
        "documentNamespace": f"urn:kleader:sbom:{unique}",
        "creationInfo": {"created": "1980-01-01T00:00:00Z", "creators": ["Tool: kleader"]},
        "packages": parts,
        "relationships": [{**described, "relatedSpdxElement": "SPDXRef-kleader"}, *relations],
    }


def pack(tree: Path, archive: Path) -> None:
    """The tree as a .tar.gz: in order, of no user and no time; who may run a file is all that is kept of its mode."""
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in [tree, *sorted(tree.rglob("*"))]:
            entry = tar.gettarinfo(path, str(path.relative_to(tree.parent)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = WHEN
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            if entry.isreg():
                entry.type, entry.linkname = tarfile.REGTYPE, ""
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)


def _part(name: str, version: str, purl: str, licence: str) -> dict[str, object]:
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
    return {
        "SPDXID": f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "externalRefs": [reference],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
