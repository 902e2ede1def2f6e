"""Reads the URLs of API servers and of proxies."""

from __future__ import annotations

import urllib.parse

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


def parse_url(text: str) -> tuple[urllib.parse.SplitResult, str, int] | None:
    """The parts, host and port of a URL of HTTP or SOCKS 5; None if it is no such URL or names no valid host."""
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        host.encode("idna")
    except ValueError:
        return None
    return (parts, host, port) if host and parts.scheme in _DEFAULT_PORTS else None


def without_userinfo(url: str) -> str:
    """The URL of an API server, with a scheme and without user and password, which must not be logged or sent."""
    try:
        parts = urllib.parse.urlsplit(url if "//" in url else f"https://{url}")
        _ = parts.port  # ValueError: the password contains a slash, for instance
    except ValueError:
        return url.rpartition("@")[2]
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def host_port(host: str, port: int | str) -> str:
    """``HOST:PORT``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
