"""Whatever is in a kubeconfig, it is read, or one sentence says what is wrong with it, which holds no secret."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import assume

from kleader.locks import credentials, kubeconfig
from kleader.locks.base import SetUpError
from tests.fuzz.foreign import foreign

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "s3cret"


@foreign("kubeconfig")
def test_a_kubeconfig_is_an_access_or_a_sentence_without_secrets(tmp_path: Path, data: bytes) -> None:
    assume(not any(word in data for word in (b"exec", b"auth-provider", b"/dev")))  # what it names would be run
    path = tmp_path / "config"
    path.write_bytes(data)
    options = {"kubeconfig": str(path)}
    try:
        access = kubeconfig.read(options, [])
    except Exception as error:  # noqa: BLE001 - whatever the library raises is told
        said = kubeconfig._sentence(options, error, [])
        assert len(said) < 1000
        assert "\n" not in said
        assert SECRET not in said
        return
    used(json.loads(json.dumps(access)))


def used(access: dict[str, Any]) -> None:
    """As the elector does."""
    known = credentials.Credentials({}, lambda _: [])
    try:
        known._access, known._endpoint = access, credentials._endpoint(access)
    except SetUpError as error:
        assert SECRET not in str(error)
        return
    assert known._endpoint.port > 0
    assert SECRET not in str(known.server)
    assert all(isinstance(part, str) for header in known.headers() for part in header)
