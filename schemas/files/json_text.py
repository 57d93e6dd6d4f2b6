"""JSON of values that come from a script: numbers may be numpy's, and names no Unicode."""

from typing import Any

import msgspec


def plain(value: Any) -> Any:
    """What msgspec cannot encode as something that it can: a number or text of a derived class (numpy.float64, numpy.str_) or of
    another library as Python's own, anything else in words."""
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


def encodable(value: Any) -> Any:
    """The value with words for what no encoding holds: halves of surrogate pairs, as in file names that are not UTF-8, and
    numbers of more than 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(k): encodable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(v) for v in value]
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


_encode = msgspec.json.Encoder(enc_hook=plain).encode


def json_bytes(value: Any) -> bytes:
    """The value, which may be a record, as JSON in one line."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(encodable(msgspec.to_builtins(value, enc_hook=plain)))


def json_text(value: Any) -> str:
    """The same as text, for a column."""
    return json_bytes(value).decode()


def json_file(record: Any) -> bytes:
    """The same as a file holds it, for people to read."""
    return msgspec.json.format(json_bytes(record), indent=1) + b"\n"
