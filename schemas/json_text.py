"""JSON of values that come from a script: numbers may be numpy's, and names a class of their own."""

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


_encode = msgspec.json.Encoder(enc_hook=plain).encode


def json_text(value: Any) -> str:
    """The value as JSON in one line."""
    return _encode(value).decode()
