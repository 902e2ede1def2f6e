"""Bytes that kleader did not write: recorded ones (corpus/), and mutations of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parent / "corpus"

#: What stands where something else is expected; as it is written in JSON.
ODD = (
    *("null", "true", "false", "0", "-1", "1", "-0", "15", "1.5", "15.0", "1e3", "1e999", "NaN", "Infinity"),
    *(
        "-Infinity",
        "2147483647",
        "2147483648",
        "1000000000",
        "9223372036854775808",
        "1" + "0" * 400,
        "9" * 4300,
        "9" * 5000,
    ),
    *('""', '" "', '"x"', '"15"', '"-15"', '"\\u0000"', '"\\ud800"', '"a\\nb"', '"\\u001b[2J"', '"' + "x" * 5000 + '"'),
    *("[]", "[[]]", "[null]", "{}", '{"a":1}', '[{"name":1}]'),
    *("[" * 900 + "]" * 900, "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000),
    *(
        f'"{time}"'
        for time in (
            *("2026-11-21T09:05:00.000000Z", "2026-11-21 09:05:00", "2026-02-30T00:00:00Z", "2026-11-21T23:59:60Z"),
            *("0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "10000-01-01T00:00:00Z"),
            *("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00", "2026-11-21T09:05:00+99:99"),
        )
    ),
)
_TOKENS = (
    *(each.encode() for each in ODD),
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r\n", b"\n", b"\r\n\r\n", b"\r\n0\r\n\r\n"),
    *(b"{", b"}", b"[", b"]", b",", b":", b" ", b"\\", b'"', b"'", b"\x1b[2J", b"-", b"%", b"@", b")", b" S 1 1 "),
    *(b"HTTP/1.1 100 Continue\r\n\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n"),
    *(b"ffffffffffffffff\r\n", b"Connection: close\r\n", b"Retry-After: 1e9\r\n"),
)
_MAX_DEPTH = 100  # Python reads JSON that is nested deeper than a function may recurse
_HERE = "\N{REPLACEMENT CHARACTER}here"


def corpus(room: str) -> list[bytes]:
    """What was recorded, and what once did harm."""
    return [path.read_bytes() for path in sorted((CORPUS / room).iterdir())]


def foreign(room: str, *rooms: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test with an argument ``data``: first all of a room, then what comes of it, and what is nothing at all.

    More ``rooms`` are only what it comes of.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        bases = [data for each in (room, *rooms) for data in corpus(each)]
        test = given(data=st.one_of(altered(bases), mutated(bases), st.binary(max_size=64)))(test)
        for data in corpus(room):
            test = example(data=data)(test)
        return test

    return decorate


@st.composite
def mutated(draw: st.DrawFn, bases: list[bytes]) -> bytes:
    """One of these with a few cuts, repetitions and things put in, wherever."""
    data = draw(st.sampled_from(bases))
    for _ in range(draw(st.integers(0, 4))):
        at, end = sorted(draw(st.tuples(*(st.integers(0, len(data)),) * 2)))
        end = min(end, at + draw(st.sampled_from((0, 1, 4, 64, len(data)))))
        new = draw(st.one_of(st.sampled_from(_TOKENS), st.binary(max_size=4), st.just(data[at:end] * 2)))
        data = data[:at] + new + data[end:]
    return data


@st.composite
def altered(draw: st.DrawFn, bases: list[bytes]) -> bytes:
    """One of those that are JSON, with an odd thing where another was, or beside it under the same name."""
    whole = _parsed(draw(st.sampled_from(bases))) or {}
    text = json.dumps(whole)
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(whole))
        if not places:
            break
        *way, last = draw(st.sampled_from(places))
        odd = draw(st.sampled_from(ODD))
        whole = json.loads(json.dumps(whole))
        changed: Any = whole
        for step in way:
            changed = changed[step]
        if isinstance(changed, dict) and draw(st.booleans()):  # the same name twice, in this case or that
            odd = f"{json.dumps(changed[last])},{json.dumps(draw(st.sampled_from((last, last.upper()))))}:{odd}"
        changed[last] = _HERE
        text = json.dumps(whole).replace(json.dumps(_HERE), odd, 1)
        whole = _parsed(text) or {}
    return text.encode()


def _parsed(data: str | bytes) -> Any:  # noqa: ANN401 - whatever it is
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _places(thing: object, way: tuple[Any, ...] = ()) -> Any:  # noqa: ANN401 - generator of ways
    if way:
        yield way
    if len(way) == _MAX_DEPTH:
        return
    items = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, each in items:
        yield from _places(None if key == "managedFields" else each, (*way, key))  # of which nobody reads much
