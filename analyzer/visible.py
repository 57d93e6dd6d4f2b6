"""Text from strangers as a terminal may show it: what would move its cursor, colour it or turn its direction becomes visible."""

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_KEPT = {"\u200d", "\ufe0f"}  # joiners inside emoji: dropping or escaping them would break a visible character


def visible(text: str) -> str:
    """One line: control and direction characters become escapes, so that none can hide or break it."""
    return "".join(_escape(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def visible_lines(text: str) -> str:
    """The same of several lines, whose ends stay."""
    return "\n".join(map(visible, text.split("\n")))


def _escape(c: str) -> str:
    return c if c in _KEPT else c.encode("unicode_escape").decode("ascii")
