"""Axes that a model mixes: views in the place of a transpose, attention, a recurrence or a softmax along the samples of a batch.

The graph of a loss is gone through once for each kind of graph, in watched steps only.
"""

from typing import Any

from torch import Tensor

from ..autograd.axes import Mixed, OverSamples, follow
from ..autograd.graph import nodes_down_to, operator_name
from ..autograd.softmaxes import along_queries, of_one_output, samples_of_loss
from ..loop.batches import DataWatch
from ..loop.forward import ForwardWatch
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_MOST_GRAPHS = 4
"""Kinds of graphs that are gone through in one run: a look takes some 10 us for each node."""

_MOST_NODES = 4000


_SAYS = {
    "axes-mixed": "mixes axes",
    "axis-of-samples": "goes along the samples",
    "softmax-of-one": "goes along one element",
    "softmax-of-queries": "goes along the queries",
}


class AxesWatch(Watch):
    """Writes events ``axes-mixed``, ``axis-of-samples``, ``softmax-of-one`` and ``softmax-of-queries``: the first of a graph, and
    how many there are."""

    name = "axes"
    writes = ("events:axes-mixed", "events:axis-of-samples", "events:softmax-of-one", "events:softmax-of-queries")

    def __init__(self, session: Session, data: DataWatch, forward: ForwardWatch) -> None:
        super().__init__(session)
        self._data = data
        self._forward = forward
        self._seen: set[tuple[Any, ...]] = set()

    def listen(self, signals: Signals) -> None:
        """Look at the graph of each loss."""
        signals.loss.connect(self.name, self._follow_axes)

    def _follow_axes(self, loss: Tensor) -> None:
        if len(self._seen) == _MOST_GRAPHS or self.session.position.saved_tensor_hooks_used:
            return
        kind = (type(loss.grad_fn), self._forward.nodes_of_forward)
        if kind in self._seen or not self._forward.rows_taken:
            return
        self._seen.add(kind)
        nodes = nodes_down_to(loss, 0, _MOST_NODES)
        found = list(follow(nodes, self._data.samples() or samples_of_loss(nodes)))
        single = of_one_output(nodes)
        mixed = [f for f in found if isinstance(f, Mixed)]
        along = [f for f in found if isinstance(f, OverSamples)]
        if mixed:
            first = mixed[0]
            self._write(
                "axes-mixed",
                first.node,
                {"given": first.given, "made": first.made, "moved": first.moved, "views": len(mixed)},
            )
        if along:
            self._write(
                "axis-of-samples",
                along[0].node,
                {"samples": along[0].samples, "other": along[0].other, "axis": along[0].axis, "operators": len(along)},
            )
        if single:
            self._write("softmax-of-one", single[0], {"softmaxes": len(single)})
        if queries := along_queries(nodes):
            self._write("softmax-of-queries", queries[0], {"softmaxes": len(queries)})

    def _write(self, event: str, node: Any, detail: dict[str, Any]) -> None:
        operator = operator_name(node)
        self.session.rows.event(
            event,
            f"{operator} {_SAYS[event]}",
            module_id=self.session.answers.module_of(node._sequence_nr()),
            detail={"operator": operator, **detail},
        )
