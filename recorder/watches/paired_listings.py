"""Files of two folders that a script pairs by the places of their names, in two listings of different order.

A listing has whatever order the file system gives. Names are looked at only where the source pairs two listings, and compared
where both hold the same names but for what all names of a folder have in common. No file is opened.
"""

import sys
from collections import Counter
from typing import Any

from ..loop.listings import around_listings, names_listed
from ..script.frames import is_script, script_frame, shown
from ..script.paired_listings import Listing, PairedListings, paired_listings
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_MOST_FILES = 32
_MOST_CALLS = 20_000
"""Listings of the script after which nobody looks any more."""

_FEWEST = 3
"""Names below which two orders may be meant."""


class PairedListingsWatch(Watch):
    """Writes an event for two listings of different order whose entries are paired by their places.

    Scripts list their files before they have a model. So it listens from the import of torch on.
    """

    name = "paired-listings"
    writes = ("events:listings-paired",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._calls = 0
        self._pairs: dict[str, tuple[PairedListings, ...]] = {}
        self._seen: dict[tuple[str, Listing], list[str]] = {}
        self._told: set[tuple[str, PairedListings]] = set()

    def install(self, patches: Patches) -> None:
        """Be told of what lists a folder."""
        around_listings(patches, self.guarded(self._listed))

    def _listed(self, kind: str, found: Any) -> None:
        self._calls += 1
        if self._calls > _MOST_CALLS:
            return
        frame = script_frame(sys._getframe(1))
        if frame is None:
            return
        file, line = frame.f_code.co_filename, frame.f_lineno
        if file not in self._pairs:
            if len(self._pairs) >= _MOST_FILES or not is_script(file):
                return
            self._pairs[file] = paired_listings(file)
        for pair in self._pairs[file]:
            for listing in (pair.first, pair.second):
                if listing.line == line and listing.kind == kind:
                    self._seen[file, listing] = names_listed(kind, found)
                    self._compare(file, pair)

    def _compare(self, file: str, pair: PairedListings) -> None:
        first, second = self._seen.get((file, pair.first)), self._seen.get((file, pair.second))
        if first is None or second is None or (file, pair) in self._told:
            return
        ones, others = _telling(first), _telling(second)
        if len(ones) < _FEWEST or len(ones) != len(others) or set(ones) != set(others) or len(set(ones)) < len(ones):
            return
        apart = [i for i, (one, other) in enumerate(zip(ones, others, strict=True)) if one != other]
        if not apart:
            return
        self._told.add((file, pair))
        one, other = _of_one_kind(first)[apart[0]], _of_one_kind(second)[apart[0]]
        self.session.rows.event(
            "listings-paired",
            f"{len(apart)} of {len(ones)} files are paired with another one's",
            detail={
                "place": f"{shown(file)}:{pair.line}",
                "text": pair.text,
                "function": pair.function,
                "first": f"{shown(file)}:{pair.first.line}",
                "first_text": pair.first.text,
                "second": f"{shown(file)}:{pair.second.line}",
                "second_text": pair.second.text,
                "files": len(ones),
                "apart": len(apart),
                "one": one,
                "other": other,
            },
        )


def _of_one_kind(names: list[str]) -> list[str]:
    """Those with the ending that most have."""
    shown_ = [name for name in names if not name.startswith(".")]
    endings = Counter(name.rpartition(".")[2] for name in shown_)
    most = max(endings, key=lambda ending: endings[ending], default="")
    return [name for name in shown_ if name.rpartition(".")[2] == most]


def _telling(names: list[str]) -> list[str]:
    """Names without what all of them begin with and end with."""
    names = _of_one_kind(names)
    begin = _alike(names)
    rest = [name[begin:] for name in names]
    end = _alike([name[::-1] for name in rest])
    return [name[: len(name) - end] for name in rest]


def _alike(names: list[str]) -> int:
    """Letters that all begin with: those of the first and the last by order have no fewer in common than any others."""
    one, other = min(names, default=""), max(names, default="")
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
