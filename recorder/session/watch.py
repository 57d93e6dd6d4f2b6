"""What the recorder is made of: parts that always run, and watches, each of which can be left out by its name.

A part says in four places what it is: ``writes`` which tables it fills, ``listen`` what it wants to be told, ``install`` what it
puts into torch, ``uses`` which others. To make one joins nothing: a watch that is left out is made all the same, so that
others may ask it, and then knows of nothing.
"""

from collections.abc import Callable, Collection, Sequence
from graphlib import TopologicalSorter
from typing import Any, ClassVar

from .patches import Patches
from .session import Session
from .signals import Signals


class Part:
    """A part of the recorder that fills tables.

    Declarations are read from the source too, without importing torch: they are literals. An entry of ``writes`` is a table
    (``"copies"``), a column of one that others fill too (``"steps.rng"``), or a kind of row of one that others fill too
    (``"events:seeded"``).
    """

    name: ClassVar[str]
    writes: ClassVar[tuple[str, ...]] = ()
    uses: ClassVar[tuple[str, ...]] = ()
    """Names of those whose work it uses: it listens and is put in after them, and has less to say where they are left out."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def guarded(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """A hook of this part that never raises into the training."""
        return self.session.guard.guarded(self.name, hook)

    def listen(self, signals: Signals) -> None:
        """Connect to what it wants to be told, once."""

    def install(self, patches: Patches) -> None:
        """Put hooks and wrappers into torch, each time that the recorder is attached."""


class Watch(Part):
    """A part that can be left out: `firstfault run --without NAME`."""


def in_order(parts: Sequence[Part], without: Collection[str] = ()) -> list[Part]:
    """Those that take part, each behind those whose work it uses; else as they were given."""
    by_name = {part.name: part for part in parts if not (isinstance(part, Watch) and part.name in without)}
    place = {name: i for i, name in enumerate(by_name)}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, part in by_name.items():
        sorter.add(name, *(earlier for earlier in part.uses if earlier in by_name))
    sorter.prepare()
    ordered: list[Part] = []
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted((*ready, *sorter.get_ready()), key=place.__getitem__)
        name = ready.pop(0)
        ordered.append(by_name[name])
        sorter.done(name)
    return ordered
