"""Classes that a script numbers in the order in which the file system lists their folders."""

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor, nn

from ...schemas.files.probe_report import ProbeResult
from ..loop.listings import around_listings, names_listed
from ..script.frames import is_users, script_frame, shown
from ..script.written_tokens import saved_without_classes
from ..session.patches import Patches
from .trial import result
from .vocabularies import of_the_script

_MOST_LISTINGS = 256
_FEWEST, _MOST = 3, 2000
"""Classes: two may stand in any order on purpose, and what is more is a list of samples."""
_MOST_OBJECTS = 400
_DEPTH = 2


class Listed(NamedTuple):
    """What one call listed, in its order."""

    names: tuple[str, ...]
    place: str


class ListedNames:
    """Keeps what the script's own code lists, where the names stand in no order of their own."""

    def __init__(self) -> None:
        self.listings: list[Listed] = []

    def install(self, patches: Patches) -> None:
        """Be told of what lists a folder."""
        around_listings(patches, self._told)

    def _told(self, kind: str, found: Any) -> None:
        with contextlib.suppress(Exception):  # a folder that is gone: the script's own call says so
            self._note(kind, found)

    def _note(self, kind: str, found: Any) -> None:
        if len(self.listings) >= _MOST_LISTINGS:
            return
        frame = script_frame(sys._getframe(1))
        if frame is None or not is_users(frame.f_code.co_filename):
            return
        names = tuple(names_listed(kind, found))
        if _FEWEST <= len(names) <= _MOST and not in_order(names):
            self.listings.append(Listed(names, f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}"))

    def judge(
        self,
        variables: Iterable[dict[str, Any]],
        files: Iterable[str],
        batch: Iterable[Tensor],
        models: Iterable[nn.Module],
    ) -> ProbeResult | None:
        """The first variable that holds classes in the order of a listing, in a script that saves its model without their names.

        A list or a mapping counts as classes where a parameter has one row for each, and a field of the batch has such numbers.
        """
        if not self.listings:
            return None
        rows = {p.shape[0] for model in models for p in model.parameters() if p.dim()}
        most = {int(t.max()) for t in batch if not t.is_floating_point() and not t.is_complex() and t.numel()}
        for name, names in _ordered_names(variables):
            if len(names) not in rows or not any(0 < number < len(names) for number in most) or in_order(names):
                continue
            listed = next((one for one in self.listings if _follows(names, one.names)), None)
            if listed is None:
                continue
            lines = {file: saved_without_classes(file, name) for file in files}
            saved = next((f"{shown(file)}:{line}" for file, line in lines.items() if line), None)
            if saved is not None:
                facts: dict[str, Any] = {"name": name, "count": len(names), "place": listed.place, "saved": saved}
                return result("vocabulary", "doubtful", "classes-in-order-of-a-listing", **facts)
        return None


def in_order(names: tuple[str, ...]) -> bool:
    """Whether names ascend or descend, by letters or by the numbers in them: somebody has sorted them, or chance has."""
    return any(
        all(a <= b for a, b in pairwise(keys)) or all(a >= b for a, b in pairwise(keys))
        for keys in ([(name,) for name in names], [_by_numbers(name) for name in names])
    )


def _by_numbers(name: str) -> tuple[Any, ...]:
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name))


def _follows(names: tuple[str, ...], listed: tuple[str, ...]) -> bool:
    """Whether names are those of a listing, in its order; some may be left out."""
    places = {name: i for i, name in enumerate(listed)}
    return all(name in places for name in names) and all(places[a] < places[b] for a, b in pairwise(names))


def _ordered_names(variables: Iterable[dict[str, Any]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    seen = set[int]()
    for scope in variables:
        for name, value in scope.items():
            yield from _in(name, value, seen, 0)


def _in(name: str, value: Any, seen: set[int], depth: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    if depth > _DEPTH or id(value) in seen or len(seen) > _MOST_OBJECTS:
        return
    seen.add(id(value))
    if isinstance(value, list | tuple):
        if _FEWEST <= len(value) <= _MOST and all(type(v) is str for v in value):
            yield name, tuple(value)
    elif isinstance(value, dict):
        if _FEWEST <= len(value) <= _MOST and all(type(k) is str and type(v) is int for k, v in value.items()):
            ordered = sorted(value.items(), key=lambda item: item[1])
            if [number for _, number in ordered] == list(range(len(ordered))):
                yield name, tuple(word for word, _ in ordered)
    elif hasattr(value, "dataset") or (of_the_script(value) and not isinstance(value, nn.Module | type)):
        held = {"dataset": value.dataset} if hasattr(value, "dataset") else vars(value)
        for attribute, inner in list(held.items()):
            yield from _in(f"{name}.{attribute}", inner, seen, depth + 1)
