"""Any kubeconfig is read, or one sentence reports its fault without a secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import assume

from kleader.kube import credentials, kubeconfig
from kleader.kube.connection import endpoint_of
from kleader.kube.errors import SetUpError
from kleader.kube.urls import without_userinfo
from tests.fuzz.foreign import foreign

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cret"


@foreign("kubeconfig")
def test_a_kubeconfig_is_an_access_or_a_sentence_without_secrets(tmp_path: Path, data: bytes) -> None:
    assume(b"/dev" not in data)  # what it names would be read
    path = tmp_path / "config"
    path.write_bytes(data)
    try:
        access = kubeconfig.read({"kubeconfig": str(path)})
    except kubeconfig.KubeconfigError as error:
        said = str(error)
        assert len(said) < 1000
        assert "\n" not in said
        assert SECRET not in said
        return
    used(json.loads(json.dumps(access)))


def used(access: dict[str, Any]) -> None:
    """As the elector does."""
    known = credentials.Credentials({}, lambda _: [])
    try:
        access["server"] = without_userinfo(access["server"])
        known._access, known._endpoint = access, endpoint_of(access)
    except SetUpError as error:
        assert SECRET not in str(error)
        return
    assert known._endpoint.port > 0
    assert SECRET not in str(known.server)
    assert all(isinstance(part, str) for header in known.headers() for part in header)
