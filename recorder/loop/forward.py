"""What modules do: statistics of their outputs, of inputs that come from code between modules, and of output gradients.

Uses torch's global forward hooks (they leave the inference fast paths alone) and tensor hooks on outputs (full backward hooks
can reorder gradients and break in-place operations). An output that a container passes on unchanged is measured once.
"""

import weakref
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor, is_grad_enabled, nn
from torch.compiler import is_compiling

from ...schemas import Phase
from ..autograd.compiled_graphs import CompiledGraphs
from ..autograd.first_bad_module import find_first_compiled
from ..autograd.graph import look_at_forward
from ..script.call_arguments import autocast_dtype, keyword_arguments, named_arguments, tensors_in
from ..script.wrappers import layout_of, local, unwrapped
from ..session.registry import ModuleEntry, OutputSlot
from ..session.session import Session
from ..tensors.measure import measure
from ..tensors.moments import UNKNOWN, Moments, measurable
from .batches import DataWatch
from .train_eval_modes import CallModes
from .unhooked_forwards import QuietForwards, Span

_FORWARD, _EVAL, _BACKWARD = Phase.FORWARD, Phase.EVAL, Phase.BACKWARD

next_node: Callable[[], int] = torch._C._autograd._get_sequence_nr  # pyright: ignore[reportAttributeAccessIssue]
"""Sequence number that autograd gives to the next node of this thread."""

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


class ForwardWatch:
    """Global module hooks of one session."""

    def __init__(
        self, session: Session, data: DataWatch, graphs: CompiledGraphs, on_new_forward: Callable[[], None]
    ) -> None:
        self.session = session
        self.graphs = graphs
        self.data = data
        self.on_new_forward = on_new_forward
        self.stack: list[Call] = []
        self.last_node = 0
        """Autograd sequence number when the last outermost forward ended: what comes later belongs to the loss."""
        self.nodes_of_forward = 0
        self.output_nonfinite = False
        """Whether a module of the current forward has put out something non-finite."""
        self.looks_left = MOST_LOOKS
        self._spans: list[Span] = []
        self._first_span = 0
        """Of the outermost call in flight."""
        self._outermost = -1
        """module_id of the model that was called last for training."""
        self._filling: tuple[int, set[int]] | None = None
        """ids of the module in whose call lazy parts get their shapes and of those in it: the model is found at its next call."""
        self.quiet = QuietForwards(session.catalogue)
        self.begins, self._ended = session.guarded("forward", self.before), session.guarded("forward", self.after)
        session.module_of = self.module_of
        session.on_unseen_models = self._unseen_models
        self._seen: dict[int, tuple[weakref.ref[Tensor], int, Moments]] = {}
        self._modes = CallModes(session)
        self._rows = True
        """Whether activations are measured in the forward in progress."""
        self._hooks = True
        """Whether gradients of activations are to be."""

    def hooks(self) -> tuple[Callable[..., None], Callable[..., None]]:
        """The global forward pre-hook and forward hook.

        A model of many small layers calls them hundreds of times in a step of which nothing is measured; what they do then
        stands here, in as few calls as can be, and everything else in ``before`` and ``after``.
        """
        session, stack, spans = self.session, self.stack, self._spans
        modules = session.catalogue.by_object
        before, after = self.begins, self._ended
        note = session.note

        def pre_hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            if is_compiling():
                return
            if stack and session.alive:
                began = perf_counter_ns()
                entry = modules.get(id(module))
                grad = is_grad_enabled()
                if (
                    entry is not None
                    and entry.ref() is module
                    and entry.modes.get(grad) is module.training
                    and not (grad and (self._rows or self._hooks))
                    and get_ident() == session.thread
                    and session.started
                ):
                    recompute = session.in_backward
                    stack.append(Call(entry, next_node(), began, grad=grad, recompute=recompute, passing=True))
                    if not recompute:
                        note(_FORWARD if grad else _EVAL, entry.id)
                    session.recorder_ns += perf_counter_ns() - began
                    return
            before(module, args)

        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if is_compiling():
                return
            if stack and session.alive and (call := stack[-1]).passing and call.entry.ref() is module:
                began = perf_counter_ns()
                if get_ident() == session.thread:
                    stack.pop()
                    spans.append((call.first_node, next_node(), call.entry.id))
                    if not call.recompute and stack:
                        note(_FORWARD if call.grad else _EVAL, stack[-1].entry.id)
                    session.recorder_ns += perf_counter_ns() - began
                    return
            after(module, args, output)

        return pre_hook, hook

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: PLR0912, PLR0915 — one decision after the other
        """Global forward pre-hook."""
        session = self.session
        if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
            return
        if session.recalibrating or (session.started and get_ident() != session.thread):
            return
        catalogue = session.catalogue
        try:
            entry = catalogue.find(module)
        except KeyError:
            inside = self._filling is not None and id(module) in self._filling[1]
            if inside or catalogue.unfilled(module):
                self._filling = (
                    self._filling if inside else (id(module), {id(m) for m in module.modules()} - {id(module)})
                )
                return
            self._filling = None
            entry = catalogue.discover(module)
            self._found_models()
            if entry is not None and entry.compiled:
                session.event(
                    "compiled-model",
                    f"model {entry.model} runs compiled: inside it only what autograd saves for backward is measured",
                    module_id=entry.id,
                )
        if entry is None:
            if session.on_call is not None and not self.stack and session.started and torch.is_grad_enabled():
                session.on_call(module, args, keyword_arguments(), None)
            return
        outermost = not self.stack
        if outermost and torch.is_grad_enabled() and not session.in_backward:
            session.start()
            self.on_new_forward()
        call = Call(
            entry,
            next_node(),
            perf_counter_ns(),
            grad=torch.is_grad_enabled(),
            recompute=session.in_backward,
            passing=False,
        )
        self.stack.append(call)
        if entry.call_order is None:
            catalogue.called(entry)
        if call.recompute or not session.started:
            if outermost and not call.grad:
                self.data.for_evaluation()
            return  # nothing trains (yet): an inference script is not recorded
        if outermost:
            self._seen.clear()
            self.output_nonfinite = False
            self._modes.called(entry, training=module.training)
            # decided once for the whole forward, so that what is measured of it is complete
            self._rows = session.budget.due("activations") if call.grad else self._evaluation_due()
            self._hooks = call.grad and session.budget.due("activation_gradients")
            if call.grad:
                session.training = module.training
                session.called("f")
                if "head_ns" not in session.facts:
                    session.facts["head_ns"] = session.since_row()
                session.facts["autocast"] = autocast_dtype()
        if entry.modes.get(call.grad) is not module.training:
            self._modes.note(entry, training=module.training, grad=call.grad)
        session.note(Phase.FORWARD if call.grad else Phase.EVAL, entry.id)
        if outermost:
            phase = Phase.FORWARD if call.grad else Phase.EVAL
            keywords = keyword_arguments()
            if session.on_call is not None and call.grad:
                session.on_call(module, args, keywords, entry)
            for name, tensor in named_arguments(module, args, keywords):
                if measurable(tensor):
                    moments = self.data.model_input(entry, name, tensor, phase, new=call.grad or self._rows)
                    self._remember(tensor, moments)
            if call.grad:
                self._outermost = entry.id
                self._first_span = len(self._spans)
                if not (self._rows or self._hooks) and session.mark is None:
                    self.quiet.begin(entry, module, self._ended)
            elif not self._rows and session.mark is None:
                self.quiet.begin_evaluation(entry, module, self._ended)
        elif call.grad and self._rows:
            self._inputs(call, args)

    def after(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:  # noqa: PLR0912 — as above
        """Global forward hook."""
        session = self.session
        if (not self.stack and self._filling is None) or get_ident() != session.thread:
            return
        try:
            entry = session.catalogue.find(module)
        except KeyError:
            if self._filling is not None and self._filling[0] == id(module):
                self._filling = None
            return
        if entry is None:
            return
        while self.stack and self.stack[-1].entry is not entry:
            self.stack.pop()  # a forward that raised and was caught by the script
        if not self.stack:
            return
        call = self.stack.pop()
        outermost = not self.stack
        if outermost and call.grad and not call.recompute:
            inside = self._spans[self._first_span :]
            self._spans += self.quiet.ran(entry, call.first_node, next_node(), inside)
        elif outermost:
            self.quiet.unwatched = None
        self._spans.append((call.first_node, next_node(), entry.id))
        if outermost and not call.recompute:
            for told in session.on_output:
                told(entry, output, grad=call.grad)
        if not session.started:
            return
        if call.recompute:
            if self._hooks:
                self._outputs(call, output, rows=False)
            return
        if (call.grad and (self._rows or self._hooks)) or (outermost and not call.grad):
            self._outputs(call, output, rows=self._rows)
        if outermost:
            if call.grad and not module.training:
                self._modes.evaluated_with_gradients(entry, args, output)
            session.clock["forward"] += perf_counter_ns() - call.began
            self.last_node = next_node()
            self.nodes_of_forward = self.last_node - call.first_node
            session.note(Phase.LOSS if call.grad else Phase.EVAL, -1)
            if not call.grad:
                session.spill()
        else:
            session.note(Phase.FORWARD if call.grad else Phase.EVAL, self.stack[-1].entry.id)

    def _evaluation_due(self) -> bool:
        """Count a forward without gradients; whether it is measured."""
        session = self.session
        count = session.facts["eval_forwards"] = session.facts.get("eval_forwards", 0) + 1
        return session.budget.evaluation_due(count, session.since_row(), session.recorder_ns)

    @property
    def rows_taken(self) -> bool:
        """Whether the activations of the last forward were measured."""
        return self._rows

    @property
    def calls_ended(self) -> int:
        """Calls of modules that have ended since the last backward."""
        return len(self._spans)

    def ended_since(self, ended: int) -> int | None:
        """module_id of the call that has ended last, if there is one since; it is outside of those it made."""
        last = self._spans[-1][2] if len(self._spans) > ended else None
        return last if isinstance(last, int) else None

    def was_unwatched(self, last_node: int) -> None:
        """The forward before the backward in progress was not seen. If it ended with ``last_node``, as it does after the same
        code, its modules made the nodes that they usually make."""
        self._rows = self._hooks = self.output_nonfinite = False
        self.last_node, self.nodes_of_forward = last_node, 0
        self.forget_graph()
        self._spans += self.quiet.as_usual(self._outermost, last_node)

    def forget_calls(self) -> None:
        """No forward is in flight any more: a backward begins."""
        self._filling = None
        self.quiet.resume()  # they are out still if the script caught what ended a forward
        self.stack.clear()
        self._seen.clear()

    def forget_graph(self) -> None:
        """The backward is over: its graph is gone, and so is a recomputation that checkpointing broke off early."""
        self._spans.clear()
        self.stack.clear()

    def module_of(self, node: int) -> int | None:
        """module_id of the innermost module in whose forward autograd made a node, by the node's sequence number."""
        for first, end, made in self._spans:  # inner calls end, and are noted, before outer ones
            if (
                first <= node < end
                and (inner := made if isinstance(made, int) else made.module_of(node - first)) is not None
            ):
                return inner
        for call in reversed(self.stack):
            if call.first_node <= node:
                return call.entry.id
        return None

    # -- outputs and inputs -----------------------------------------------------------------------------------------------

    def _outputs(self, call: Call, output: Any, *, rows: bool) -> None:
        entry, session = call.entry, self.session
        phase = Phase.FORWARD if call.grad else Phase.EVAL
        for position, tensor in ((0, output),) if type(output) is Tensor else tensors_in(output):
            if not (tensor.is_floating_point() or tensor.is_complex()) or not measurable(local(tensor)):
                continue
            slot = entry.outputs.get(position) or self._slot(entry, position, tensor)
            moments = self._known(tensor)
            fresh = moments is None
            if entry.compiled and not fresh:
                continue  # the model inside was not compiled after all, and has its row
            if rows and slot.tensor_id not in session.catalogue.excluded:
                if moments is None or moments is UNKNOWN:
                    began = perf_counter_ns()
                    moments = measure(local(tensor))
                    self._remember(tensor, moments)
                    session.budget.spent("activations", perf_counter_ns() - began)
                if moments.nonfinite:
                    self._inside(call, tensor)
                session.stat(slot.tensor_id, phase, moments, requires_grad=tensor.requires_grad)
                if moments.nonfinite:
                    self._nonfinite(call, tensor)
                if fresh and call.grad:
                    for told in session.on_activation:
                        told(entry, slot.tensor_id, tensor)
            elif fresh:
                self._remember(tensor, UNKNOWN)  # its gradient gets one hook, however many modules pass it on
            if fresh and self._hooks and call.grad and tensor.requires_grad:
                tensor.register_hook(slot.gradient_hook or self._add_gradient_hook(entry, slot, position, tensor))

    def _inputs(self, call: Call, args: tuple[Any, ...]) -> None:
        """Measure what enters a module and no module has put out: the work of functional code in between."""
        for position, tensor in tensors_in(args):
            if tensor.is_floating_point() and self._known(tensor) is None and measurable(tensor):
                name = f"{call.entry.name}:input{position}"
                tensor_id = self.session.catalogue.tensor(call.entry.id, name, "activation", tensor)
                if tensor_id in self.session.catalogue.excluded:
                    continue
                began = perf_counter_ns()
                moments = measure(tensor)
                self._remember(tensor, moments)
                self.session.budget.spent("activations", perf_counter_ns() - began)
                if moments.nonfinite and len(self.stack) > 1:
                    self._inside(self.stack[-2], tensor)
                self.session.stat(tensor_id, Phase.FORWARD, moments, requires_grad=tensor.requires_grad)
                if moments.nonfinite and len(self.stack) > 1:
                    self._nonfinite(self.stack[-2], tensor)

    def _inside(self, call: Call, tensor: Tensor) -> None:
        """What was lost inside compiled code was lost before its output, and its row comes before that of the output."""
        if not self.output_nonfinite and self.looks_left > 0 and tensor.grad_fn is not None:
            find_first_compiled(self.session, self.graphs, tensor, call.first_node)

    def _nonfinite(self, call: Call, tensor: Tensor) -> None:
        first = not self.output_nonfinite
        self.output_nonfinite = True
        if first and self.looks_left > 0 and tensor.grad_fn is not None:
            self.looks_left -= 1
            look_at_forward(self.session, self.graphs, tensor, call.first_node)

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
                    session.gradient_lost = True

        note, stat, excluded = session.note, session.stat, session.catalogue.excluded
        guarded = slot.gradient_hook = session.guarded("activation-gradients", hook, "activation_gradients")
        return guarded

    def _remember(self, tensor: Tensor, moments: Moments) -> None:
        self._seen[id(tensor)] = (weakref.ref(tensor), tensor._version if not tensor.is_inference() else 0, moments)

    def _known(self, tensor: Tensor) -> Moments | None:
        known = self._seen.get(id(tensor))
        if known is None or known[0]() is not tensor or (not tensor.is_inference() and known[1] != tensor._version):
            return None
        return known[2]

    def expect(self, model: nn.Module, name: str) -> None:
        """Number a model before it is first called, under a name of the script's choice."""
        self.session.catalogue.add_model(unwrapped(model), name)
        self._found_models()

    def _unseen_models(self) -> None:
        for root in self._found_models():
            self.session.event(
                "compiled-model",
                f"model {root.model} is trained, but no call of its modules is seen: it runs compiled or inside functions; "
                "its weights, gradients and updates are recorded",
                module_id=root.id,
            )

    def _found_models(self) -> list[ModuleEntry]:
        found = self.session.catalogue.take_new_models()
        for root in found:
            self.session.event("model-found", f"model {root.model} ({root.class_name})", module_id=root.id)
            self.data.initial_parameters(root)
            for told in self.session.on_model:
                told(root)
        if found and self.stack:
            self.session.on_inner_model(self.stack[0].entry)
        return found
