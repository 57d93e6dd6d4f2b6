"""Whether data sets of one class number the same names differently: a split that numbers its own classes or words.

Each data set of a DataLoader is looked at once. Of its attributes the dictionaries count that number strings from 0, and lists of
different strings under the names that such lists have. Only hashes of the names are kept. Where two numberings of one attribute
disagree, an event says so; which loader trains and which evaluates is known later, from the batches.
"""

import re
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch.utils.data import ConcatDataset, DataLoader, Subset

from ..loop.dataloaders import LoaderWatch
from ..script.numbering_use import gives_numbers, looked_up_elsewhere
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_NUMBERED = re.compile(
    r"class|label|vocab|categor|tag|token|word|char|stoi|2id|to_id|2i(d|nd)?x|to_i(d|nd)?x|species|intent"
)
"""Names of attributes whose numbers are for the model."""

_LISTED = frozenset({"classes", "class_names", "names", "labels", "label_names", "vocab", "categories"})

_MOST_NAMES = 10_000
_LONGEST = 200
_SHOWN = 40
"""Letters of a name: of any in a numbering, and of the first that differs as it is written."""

_MOST_LOADERS = 64
_MOST_NUMBERINGS = 4
_MOST_PARTS = 16


class Numbering(NamedTuple):
    """What an attribute of a data set says: names with a number each."""

    owner: type
    path: str
    attribute: str
    places: bool
    """Whether it is a list, and a name's number is its place."""
    names: list[str]
    """In the order of their numbers."""


class _Known:
    """Numberings of one attribute of one class so far, and the loaders that have each."""

    __slots__ = ("loaders", "numbers", "use")

    def __init__(self) -> None:
        self.numbers: list[dict[int, int]] = []
        """Hash of a name → its number."""
        self.loaders: list[list[int]] = []
        self.use: dict[str, bool] | None = None
        """What the source says, read when two numberings disagree first."""


class ClassNumbers(Watch):
    """Writes an event ``numbered-apart`` for a loader whose data set numbers names otherwise than that of an earlier one."""

    name = "class-numbers"
    writes = ("events:numbered-apart",)
    uses = ("loader",)

    def __init__(self, session: Session, loaders: LoaderWatch) -> None:
        super().__init__(session)
        self._loaders = loaders
        self._seen: set[int] = set()
        self._known: dict[tuple[str, str, str], _Known] = {}

    def install(self, patches: Patches) -> None:
        """Be told of each pass over a loader."""
        patches.around(DataLoader, "__iter__", after=self.guarded(self._begins))

    def _begins(self, _note: Any, iterator: Any, loader: Any) -> None:
        place = self._loaders.place_of(iterator)
        if place is None or place[0] in self._seen or len(self._seen) >= _MOST_LOADERS:
            return
        self._seen.add(place[0])
        found: dict[tuple[type, str], list[Numbering]] = {}
        for numbering in _numberings(loader.dataset):
            found.setdefault((numbering.owner, numbering.path), []).append(numbering)
        for several in found.values():
            if all(one.names == several[0].names for one in several):
                self._compare(place[0], several[0])

    def _compare(self, loader_id: int, mine: Numbering) -> None:
        key = (mine.owner.__module__, mine.owner.__qualname__, mine.path)
        known = self._known.setdefault(key, _Known())
        numbers = {hash(name): i for i, name in enumerate(mine.names)}
        if numbers not in known.numbers:
            if len(known.numbers) >= _MOST_NUMBERINGS:
                return
            known.numbers.append(numbers)
            known.loaders.append([])
        own = known.numbers.index(numbers)
        known.loaders[own].append(loader_id)
        for i, other in enumerate(known.numbers):
            moved = [name for name in mine.names if other.get(hash(name), numbers[hash(name)]) != numbers[hash(name)]]
            if not moved:
                continue
            if known.use is None:
                known.use = {
                    "used": gives_numbers(mine.owner, mine.attribute, places=mine.places),
                    "looked_up": looked_up_elsewhere(mine.owner, mine.attribute),
                }
            self.session.rows.event(
                "numbered-apart",
                f"{mine.path} numbers names otherwise than in an earlier loader",
                detail={
                    "loader_id": loader_id,
                    "others": known.loaders[i],
                    "numbering": own,
                    "other_numbering": i,
                    "class": mine.owner.__qualname__,
                    "attribute": mine.path,
                    "name": self._shown(moved[0]),
                    "number": numbers[hash(moved[0])],
                    "other_number": other[hash(moved[0])],
                    "entries": len(numbers),
                    "other_entries": len(other),
                    "shared": sum(hash(name) in other for name in mine.names),
                    "moved": len(moved),
                    **known.use,
                },
            )

    def _shown(self, name: str) -> str:
        """The first letters of a name, without what could be a secret or move the cursor of a terminal."""
        hidden = self.session.secrets.text(name)
        cut = hidden[:_SHOWN] + "…" if len(hidden) > _SHOWN else hidden
        return cut if cut.isprintable() else cut.encode("unicode_escape").decode()


def _numberings(dataset: Any, left: int = _MOST_PARTS) -> Iterator[Numbering]:
    """Of a data set, through subsets and joined sets. A set that holds another may map its targets, and is not gone through."""
    if type(dataset) is Subset and left:
        yield from _numberings(dataset.dataset, left - 1)
    elif type(dataset) is ConcatDataset and left:
        for part in dataset.datasets[:left]:
            yield from _numberings(part, left // 2)
    elif hasattr(dataset, "__dict__") and getattr(dataset, "target_transform", None) is None:
        yield from _of_attributes(type(dataset), vars(dataset))


def _of_attributes(owner: type, attributes: dict[str, Any]) -> Iterator[Numbering]:
    listed: list[Numbering] = []
    numbered: list[list[str]] = []
    for attribute, value in list(attributes.items()):
        named = _NUMBERED.search(attribute.lower()) is not None
        if type(value) in {dict, OrderedDict, defaultdict} and named:
            names = _by_number(value)
            if names is not None:
                numbered.append(names)
                yield Numbering(owner, attribute, attribute, places=False, names=names)
        elif type(value) in {list, tuple} and attribute.lower() in _LISTED and _all_names(value):
            listed.append(Numbering(owner, attribute, attribute, places=True, names=list(value)))
    for one in listed:  # a dictionary of the same names says more of what they are for
        if one.names not in numbered:
            yield one


def _by_number(value: dict[Any, Any]) -> list[str] | None:
    """Strings that have the numbers from 0, in their order; None for any other dictionary."""
    if not 2 <= len(value) <= _MOST_NAMES:
        return None
    names: list[str] = [""] * len(value)
    taken = bytearray(len(value))
    for name, number in value.items():
        if type(name) is not str or len(name) > _LONGEST or not _whole(number) or not 0 <= number < len(value):
            return None
        if taken[number]:
            return None
        names[number], taken[number] = name, 1
    return names


def _whole(number: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return type(number) is int or (numpy is not None and isinstance(number, numpy.integer))


def _all_names(value: Any) -> bool:
    """Whether a list has different strings only."""
    return (
        2 <= len(value) <= _MOST_NAMES
        and all(type(name) is str and len(name) <= _LONGEST for name in value)
        and len(set(value)) == len(value)
    )
