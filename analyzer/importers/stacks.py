"""Call stacks of a file that was imported, each written once into `frames`, and the line of the script in each."""

from collections.abc import Iterable, Mapping
from typing import Any

from ...schemas.files.cuda_snapshot import place_of, whole, words
from .target import RunTarget


class Stacks:
    """The stacks of one rank; several files of one rank go on counting where the one before stopped."""

    def __init__(self, target: RunTarget, rank: int) -> None:
        self._target, self._rank = target, rank
        self._places: dict[int, str | None] = {}
        self._ids: dict[tuple[tuple[str, int, str], ...], int] = {}

    def id_of(self, frames: Any) -> int | None:
        """Number of a stack; null for an empty one."""
        stack = tuple(
            (words(f.get("filename")), whole(f.get("line")) or 0, words(f.get("name")))
            for f in (frames if isinstance(frames, Iterable) else ())
            if isinstance(f, Mapping)
        )
        if not stack:
            return None
        known = self._ids.get(stack)
        if known is None:
            known = self._ids[stack] = self._target.next_stack(self._rank)
            for depth, (file, line, function) in enumerate(stack):
                row = {"frames_id": known, "depth": depth, "file": file, "line": line, "function": function}
                self._target.add("frames", {"rank": self._rank, **row})
        return known

    def place_of(self, frames: Any) -> str | None:
        """The innermost line outside torch; looked for once a list, since one stack stands in many events."""
        if not isinstance(frames, list):
            return None
        if id(frames) not in self._places:
            self._places[id(frames)] = place_of(f for f in frames if isinstance(f, Mapping))
        return self._places[id(frames)]
