"""Find forwards that used a value made of the weights before the last update, instead of the weights as the optimizer left them.

A cast, a reparametrisation or a copy that is made once and used for several steps is one node of the autograd graph that comes
back. The node is marked with the version of its weight when it is first seen. Torch raises that version at each update in
place. A node that comes back under another version, while nothing newer reads the weight, is the older value: no threshold is
needed.
"""

from time import perf_counter_ns
from typing import Any

from torch import Tensor, is_autocast_cache_enabled

from ..autograd.graph import nodes_down_to, operator_name
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_FIRST_LOSSES = 8
_EVERY = 32
"""Losses between two looks after the first ones: a look walks through the graph."""

_MOST_EVENTS = 16
_MOST_NAMED = 4
_MARK = "firstfault.weights"
_LEAF = "AccumulateGrad"


class StaleWeights(Watch):
    """Writes an event ``stale-forward-weights`` for each look that finds older weights in use."""

    name = "stale-weights"
    writes = ("events:stale-forward-weights",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looks = self._found = self._losses = 0

    def listen(self, signals: Signals) -> None:
        """Look at the graph of each loss."""
        signals.loss.connect(self.name, self._compare_weights)

    def _compare_weights(self, loss: Tensor) -> None:
        session = self.session
        self._losses += 1
        # two in a row: a mark is set in the one and read in the other
        if self._found == _MOST_EVENTS or (self._losses > _FIRST_LOSSES and self._losses % _EVERY > 1):
            return
        began = perf_counter_ns()
        fresh: set[int] = set()
        stale: dict[int, tuple[Any, Tensor, int]] = {}
        for node in nodes_down_to(loss, 0):
            for behind, _ in node.next_functions:
                if behind is None or not type(behind).__name__.endswith(_LEAF):
                    continue
                weight = behind.variable
                notes = node.metadata
                seen = notes.setdefault(_MARK, {}).setdefault(id(weight), (weight._version, session.position.step))
                if seen[0] == weight._version:
                    fresh.add(id(weight))
                else:
                    stale[id(weight)] = (node, weight, seen[1])
        self._looks += 1
        old = [found for key, found in stale.items() if key not in fresh]
        if old:
            self._found += 1
            self._write(old, len(fresh | stale.keys()))
        session.budget.spent("activations", perf_counter_ns() - began)

    def _write(self, old: list[tuple[Any, Tensor, int]], weights: int) -> None:
        session = self.session
        described = [d for _, weight, _ in old if (d := session.catalogue.described(weight)) is not None]
        names = [name for _, name in described]
        node, weight, since = min(old, key=lambda o: o[2])
        session.rows.event(
            "stale-forward-weights",
            f"{len(old)} of {weights} weights were used as they were before an update",
            module_id=session.answers.module_of(node._sequence_nr()),
            detail={
                "stale": len(old),
                "weights": weights,
                "since": since,
                "operator": operator_name(node),
                "dtype": str(weight.dtype).removeprefix("torch."),
                "autocast": session.step_row.facts.get("autocast") if is_autocast_cache_enabled() else None,
                "names": names[:_MOST_NAMED],
                "looks": self._looks,
            },
        )
