"""TLS to an API server or a proxy, verified as client-go verifies."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any

from kleader import system
from kleader.kube.errors import SetUpError

if TYPE_CHECKING:
    from collections.abc import Mapping


def server_context(access: Mapping[str, Any]) -> ssl.SSLContext:
    """For the API server of an access (kleader.kube.kubeconfig). SetUpError: its certificates cannot be used."""
    what = "certificate-authority"
    try:
        context = verifying(access, ssl.create_default_context(cadata=access.get("ca") or None))
        what = "client certificate and key"
        if access.get("cert"):
            fd = system.anonymous_file()  # OpenSSL reads a file, and a key must not be written to a disk
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(f"{access['cert']}\n{access.get('key', '')}\n")
                file.flush()
                context.load_cert_chain(f"{system.OPEN_FILES}/{fd}", password="")  # else OpenSSL asks a terminal
    except (ssl.SSLError, ValueError) as error:
        raise SetUpError(f"the {what} for {access['server']} cannot be used: {error}") from None
    return context


def verifying(access: Mapping[str, Any], context: ssl.SSLContext) -> ssl.SSLContext:
    """The context, which verifies as client-go does: Python's defaults changed with 3.13."""
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate authority may be trusted
    if access.get("insecure"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
