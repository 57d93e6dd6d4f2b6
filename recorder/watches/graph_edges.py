"""Edges of a batch of graphs against the graphs of their nodes: an edge joins nodes of one graph."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.graph_batches import graph_batch
from ..tensors.moments import LATE_DEVICES

_LOOKS = 4
"""Calls of a model with such a batch that are looked at; and four times as many without one until nobody looks any more."""


class GraphEdgesWatch(Watch):
    """Writes events of batches whose edges join nodes of several graphs, or lie in the first graphs alone."""

    name = "graph-edges"
    writes = ("events:edges-astray",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._left = 4 * _LOOKS

    def listen(self, signals: Signals) -> None:
        """Look at what enters models."""
        signals.call.connect(self.name, self._enters)

    def _enters(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], entry: ModuleEntry | None
    ) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        found = graph_batch(_tensors_in([*args, *kwargs.values()]))
        if found is None:
            return
        self._left -= 3
        if found.unmoved or found.crossing:
            self.session.rows.event(
                "edges-astray",
                f"{found.crossing} of {found.edges} edges join nodes of two graphs",
                module_id=None if entry is None else entry.id,
                detail={**found._asdict(), "unmoved": found.unmoved, "class": type(module).__name__},
            )


def _tensors_in(values: list[Any]) -> Iterator[Tensor]:
    """Tensors among arguments, in plain containers and in the attributes of an object that is a batch, on the host."""
    for value in values:
        held = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else None
        if held is None:
            held = [value] if isinstance(value, Tensor) else getattr(value, "__dict__", {}).values()
        for inner in held:
            if isinstance(inner, Tensor) and inner.device.type not in LATE_DEVICES:
                yield inner
