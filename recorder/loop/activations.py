"""Statistics of what modules put out, of inputs that come from code between modules, and of output gradients.

Tensor hooks on outputs give the gradients (full backward hooks can reorder gradients and break in-place operations). An output
that a container passes on unchanged is measured once.
"""

import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from torch import Tensor

from ...schemas import Phase
from ..autograd.compiled_graphs import CompiledGraphs
from ..autograd.first_bad_module import find_first_compiled
from ..autograd.graph import look_at_forward, nodes_down_to
from ..script.call_arguments import tensors_in
from ..script.wrappers import layout_of, local
from ..session.registry import ModuleEntry, OutputSlot
from ..session.session import Session
from ..tensors.measure import measure
from ..tensors.moments import NOT_MEASURED, Moments, measurable, node_of

_BACKWARD = Phase.BACKWARD

MOST_LOOKS = 3
"""Looks into the autograd graph for the operator behind a non-finite value, in one run."""


class Call:
    """A module's forward in flight."""

    __slots__ = ("began", "entry", "first_node", "grad", "passing", "recompute")

    def __init__(
        self, entry: ModuleEntry, first_node: int, began: int, *, grad: bool, recompute: bool, passing: bool
    ) -> None:
        self.entry = entry
        self.first_node = first_node
        self.began = began
        self.grad = grad
        self.recompute = recompute
        self.passing = passing  # noted and nothing else: nothing of it is measured


class Activations:
    """Measures for the forward room, which says when."""

    def __init__(self, session: Session, graphs: CompiledGraphs) -> None:
        self.session = session
        self.graphs = graphs
        self.output_nonfinite = False
        """Whether a module of the current forward has put out something non-finite."""
        self.gradient_lost = False
        """Whether a gradient that was measured in the backward in progress is not finite."""
        self.looks_left = MOST_LOOKS
        self._tell = session.signals.activation.emit
        self._seen: dict[int, tuple[weakref.ref[Tensor], int, Moments]] = {}

    def begin_forward(self) -> None:
        """A model is called: nothing of it has been measured yet."""
        self._seen.clear()
        self.output_nonfinite = False

    def forget(self) -> None:
        """A backward begins: what the forward has put out may go."""
        self._seen.clear()

    def outputs(self, call: Call, output: Any, *, rows: bool, hooks: bool) -> None:
        """Measure what a module has put out (``rows``), and hook what becomes of its gradients (``hooks``)."""
        entry, session = call.entry, self.session
        phase = Phase.FORWARD if call.grad else Phase.EVAL
        for position, tensor in ((0, output),) if type(output) is Tensor else tensors_in(output):
            held = tensor if type(tensor) is Tensor else local(tensor)
            if not (tensor.is_floating_point() or tensor.is_complex()) or not measurable(held):
                continue
            slot = entry.outputs.get(position) or self._slot(entry, position, tensor)
            moments = self._known(tensor)
            fresh = moments is None
            if entry.compiled and not fresh:
                continue  # the model inside was not compiled after all, and has its row
            if rows and slot.tensor_id not in session.catalogue.excluded:
                if moments is None or moments is NOT_MEASURED:
                    began = perf_counter_ns()
                    moments = measure(held)
                    self.remember(tensor, moments)
                    session.budget.spent("activations", perf_counter_ns() - began)
                if moments.nonfinite:
                    self._inside(call, tensor)
                session.rows.add_tensor_stats(slot.tensor_id, phase, moments, requires_grad=tensor.requires_grad)
                if moments.nonfinite:
                    self._nonfinite(call, tensor)
                if fresh and call.grad:
                    self._tell(entry, slot.tensor_id, tensor)
            elif fresh:
                self.remember(tensor, NOT_MEASURED)  # its gradient gets one hook, however many modules pass it on
            # a leaf, such as a weight that a module gives out, would bear one hook more after each forward
            if fresh and hooks and call.grad and tensor.requires_grad and node_of(tensor) is not None:
                tensor.register_hook(slot.gradient_hook or self._add_gradient_hook(entry, slot, position, tensor))

    def passed_on(self, args: tuple[Any, ...]) -> bool:
        """Whether a module is given nothing but one tensor that another module has put out: there is nothing to measure."""
        return len(args) == 1 and type(args[0]) is Tensor and self._known(args[0]) is not None

    def inputs(self, call: Call, args: tuple[Any, ...], outer: Call | None) -> None:
        """Measure what enters a module, called in the forward of ``outer``, and no module has put out: the work of functional
        code in between."""
        for position, tensor in tensors_in(args):
            if tensor.is_floating_point() and self._known(tensor) is None and measurable(tensor):
                name = f"{call.entry.name}:input{position}"
                tensor_id = self.session.catalogue.tensor(call.entry.id, name, "activation", tensor)
                if tensor_id in self.session.catalogue.excluded:
                    continue
                began = perf_counter_ns()
                moments = measure(tensor)
                self.remember(tensor, moments)
                self.session.budget.spent("activations", perf_counter_ns() - began)
                if moments.nonfinite and outer is not None:
                    self._inside(outer, tensor)
                self.session.rows.add_tensor_stats(
                    tensor_id, Phase.FORWARD, moments, requires_grad=tensor.requires_grad
                )
                if moments.nonfinite and outer is not None:
                    self._nonfinite(outer, tensor)

    def _inside(self, call: Call, tensor: Tensor) -> None:
        """What was lost inside compiled code was lost before its output, and its row comes before that of the output."""
        if not self.output_nonfinite and self.looks_left > 0 and tensor.grad_fn is not None:
            find_first_compiled(self.session, self.graphs, tensor, call.first_node)

    def _nonfinite(self, call: Call, tensor: Tensor) -> None:
        first = not self.output_nonfinite
        self.output_nonfinite = True
        if first and self.looks_left > 0 and tensor.grad_fn is not None:
            self.looks_left -= 1
            look_at_forward(self.session, self.graphs, nodes_down_to(tensor, call.first_node))

    def _slot(self, entry: ModuleEntry, position: int, tensor: Tensor) -> OutputSlot:
        """What is known of a module's n-th output, looked up once."""
        tensor_id = self.session.catalogue.tensor(entry.id, f"{entry.name}:output{position}", "activation", tensor)
        slot = entry.outputs[position] = OutputSlot(tensor_id)
        return slot

    def _add_gradient_hook(
        self, entry: ModuleEntry, slot: OutputSlot, position: int, tensor: Tensor
    ) -> Callable[[Tensor], None]:
        session, module_id = self.session, entry.id
        name = f"{entry.name}:output{position}.grad"
        tensor_id = session.catalogue.tensor(module_id, name, "activation_gradient", tensor)

        def hook(gradient: Tensor) -> None:
            if type(gradient) is not Tensor:
                if (layout := layout_of(gradient)) is not None:  # seldom spread as the output is
                    session.catalogue.note_layout(tensor_id, layout)
                gradient = local(gradient)
            if tensor_id not in excluded and measurable(gradient):
                note(_BACKWARD, module_id)
                # mean and extremes of an activation's gradient say nothing that its size does not
                moments = measure(gradient, size_only=True)
                stat(tensor_id, _BACKWARD, moments)
                if moments.nonfinite:
                    self.gradient_lost = True

        note, stat, excluded = (
            session.position.leave_breadcrumb,
            session.rows.add_tensor_stats,
            session.catalogue.excluded,
        )
        guarded = slot.gradient_hook = session.guard.guarded("activation-gradients", hook, "activation_gradients")
        return guarded

    def remember(self, tensor: Tensor, moments: Moments) -> None:
        """A tensor was measured: whatever passes it on unchanged is not to measure it again."""
        self._seen[id(tensor)] = (weakref.ref(tensor), tensor._version if not tensor.is_inference() else 0, moments)

    def _known(self, tensor: Tensor) -> Moments | None:
        known = self._seen.get(id(tensor))
        if known is None or known[0]() is not tensor or (not tensor.is_inference() and known[1] != tensor._version):
            return None
        return known[2]
