"""What modules do: which model is called, in which mode, what its modules make of the autograd graph, and what is measured.

Uses torch's global forward hooks, which leave the inference fast paths alone.
"""

import warnings
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch import is_grad_enabled, nn
from torch.compiler import is_compiling
from torch.nn.modules import module as nn_module
from torch.nn.modules.loss import _Loss

from ...schemas import Phase
from ..autograd.compiled_graphs import CompiledGraphs
from ..script.call_arguments import autocast_dtype, keyword_arguments, named_arguments
from ..script.wrappers import unwrapped
from ..session.patches import Patches
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Part
from ..tensors.moments import measurable
from .activations import Activations, Call
from .batches import DataWatch
from .train_eval_modes import CallModes
from .unhooked_forwards import QuietForwards, Span

_FORWARD, _EVAL = Phase.FORWARD, Phase.EVAL

is_tracing: Callable[[], bool] = torch._C._is_tracing  # pyright: ignore[reportAttributeAccessIssue]
next_node: Callable[[], int] = torch._C._autograd._get_sequence_nr  # pyright: ignore[reportAttributeAccessIssue]
"""Sequence number that autograd gives to the next node of this thread."""


class ForwardWatch(Part):
    """Global module hooks of one session."""

    name = "forward"
    writes = (
        "module_modes",
        "modules",
        "operators",
        "tensors:activation",
        "tensors:activation_gradient",
        "tensor_stats:activation",
        "tensor_stats:activation_gradient",
        "steps.training",
        "steps.eval_forwards",
        "steps.eval_grad_forwards",
        "steps.head_ns",
        "steps.autocast",
        "steps.forward_ns",
        "events:model-found",
        "events:compiled-model",
        "events:mode-changed",
    )

    def __init__(
        self, session: Session, data: DataWatch, graphs: CompiledGraphs, on_new_forward: Callable[[], None]
    ) -> None:
        super().__init__(session)
        self.data = data
        self.activations = Activations(session, graphs)
        self._outputs, self._inputs = self.activations.outputs, self.activations.inputs
        self.on_new_forward = on_new_forward
        self.stack: list[Call] = []
        self.last_node = 0
        """Autograd sequence number when the last outermost forward ended: what comes later belongs to the loss."""
        self.nodes_of_forward = 0
        self.recalibrating = False
        """Whether batch norm's statistics are being set again: forwards that are neither training nor evaluation."""
        self._spans: list[Span] = []
        self._first_span = 0
        """Of the outermost call in flight."""
        self._outermost = -1
        """module_id of the model that was called last for training."""
        self._filling: tuple[int, set[int]] | None = None
        """ids of the module in whose call lazy parts get their shapes and of those in it: the model is found at its next call."""
        self.quiet = QuietForwards(session.catalogue)
        self.begins, self._ended = self.guarded(self.before), self.guarded(self.after)
        self._modes = CallModes(session)
        self._rows = True
        """Whether activations are measured in the forward in progress."""
        self._hooks = True
        """Whether gradients of activations are to be."""

    def listen(self, signals: Signals) -> None:
        """Say which module made what, and look for models that nobody calls."""
        self.session.answers.module_of = self.module_of
        signals.unseen_models.connect(self.name, self._unseen_models)

    def install(self, patches: Patches) -> None:
        """Put in the hooks of modules."""
        # said because of our hooks, and an error where the script turns warnings into errors
        warnings.filterwarnings("ignore", message="Using `torch.compile.* when there are global hooks")
        guarded, catalogue = self.session.guard.guarded, self.session.catalogue
        patches.handles(
            [
                nn_module.register_module_module_registration_hook(guarded("modules", catalogue.note_parent)),
                nn_module.register_module_parameter_registration_hook(guarded("modules", catalogue.note_parameter)),
            ]
        )
        patches.hook_modules(*self.hooks())
        self.quiet.install(patches)

    def hooks(self) -> tuple[Callable[..., None], Callable[..., None]]:
        """The global forward pre-hook and forward hook.

        A model of many small layers calls them hundreds of times in a step. What they do for a module that is known stands here,
        in as few calls as can be, and everything else in ``before`` and ``after``.
        """
        session, stack, spans = self.session, self.stack, self._spans
        position, guard = session.position, session.guard
        modules = session.catalogue.by_object
        before, after = self.begins, self._ended
        outputs, passed_on = self._outputs, self.activations.passed_on
        note = position.leave_breadcrumb

        def pre_hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            if is_compiling():
                return
            if stack and guard.alive:
                began = perf_counter_ns()
                entry = modules.get(id(module))
                grad = is_grad_enabled()
                if (
                    entry is not None
                    and entry.ref() is module
                    and entry.modes.get(grad) is module.training
                    and get_ident() == position.thread
                    and session.started
                ):
                    recompute = position.in_backward
                    passing = not (grad and (self._rows or self._hooks))
                    if passing or (
                        not recompute and guard.undisturbed and not is_tracing() and (not self._rows or passed_on(args))
                    ):
                        stack.append(Call(entry, next_node(), began, grad=grad, recompute=recompute, passing=passing))
                        if not recompute:
                            note(_FORWARD if grad else _EVAL, entry.id)
                        guard.recorder_ns += perf_counter_ns() - began
                        return
            before(module, args)

        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if is_compiling():
                return
            if stack and guard.alive and (call := stack[-1]).entry.ref() is module and get_ident() == position.thread:
                began = perf_counter_ns()
                if call.passing:
                    stack.pop()
                    spans.append((call.first_node, next_node(), call.entry.id))
                    if not call.recompute and stack:
                        note(_FORWARD if call.grad else _EVAL, stack[-1].entry.id)
                    guard.recorder_ns += perf_counter_ns() - began
                    return
                if call.grad and not call.recompute and len(stack) > 1 and session.started and guard.undisturbed:
                    guard.enter(began)
                    try:
                        stack.pop()
                        spans.append((call.first_node, next_node(), call.entry.id))
                        if self._rows or self._hooks:
                            outputs(call, output, rows=self._rows, hooks=self._hooks)
                        note(_FORWARD, stack[-1].entry.id)
                    except Exception as e:  # noqa: BLE001 # as in what is guarded
                        guard.caught(self.name, e)
                    finally:
                        guard.leave()
                    return
            after(module, args, output)

        return pre_hook, hook

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> None:  # noqa: PLR0912, PLR0915 — one decision after the other
        """Global forward pre-hook."""
        session = self.session
        position, step_row, signals = session.position, session.step_row, session.signals
        if torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
            return
        if self.recalibrating or (session.started and get_ident() != position.thread):
            return
        catalogue = session.catalogue
        entry = catalogue.find(module)
        if entry is None and not catalogue.knows(module):
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
                session.rows.event(
                    "compiled-model",
                    f"model {entry.model} runs compiled: inside it only what autograd saves for backward is measured",
                    module_id=entry.id,
                )
        if entry is None:
            if not self.stack and session.started:
                self._unheld_call(module, args)
            return
        outermost = not self.stack
        if outermost and torch.is_grad_enabled() and not position.in_backward:
            session.start()
            self.on_new_forward()
        call = Call(
            entry,
            next_node(),
            perf_counter_ns(),
            grad=torch.is_grad_enabled(),
            recompute=position.in_backward,
            passing=False,
        )
        self.stack.append(call)
        if entry.call_order is None:
            catalogue.note_first_call(entry)
        if call.recompute or not session.started:
            if outermost and not call.grad:
                self.data.for_evaluation()
            return  # nothing trains (yet): an inference script is not recorded
        if outermost:
            self.activations.begin_forward()
            self._modes.note_mode(entry, training=module.training)
            # decided once for the whole forward, so that what is measured of it is complete
            self._rows = session.budget.due("activations") if call.grad else self._evaluation_due()
            self._hooks = call.grad and session.budget.due("activation_gradients")
            if call.grad:
                step_row.training = module.training
                step_row.log_call("f")
                if "head_ns" not in step_row.facts:
                    step_row.facts["head_ns"] = step_row.since_row()
                step_row.facts["autocast"] = autocast_dtype()
        if entry.modes.get(call.grad) is not module.training:
            self._modes.note(entry, training=module.training, grad=call.grad)
        position.leave_breadcrumb(Phase.FORWARD if call.grad else Phase.EVAL, entry.id)
        if outermost:
            phase = Phase.FORWARD if call.grad else Phase.EVAL
            keywords = keyword_arguments()
            if signals.call.listeners and call.grad:
                signals.call.emit(module, args, keywords, entry)
            for name, tensor in named_arguments(module, args, keywords):
                if measurable(tensor):
                    moments = self.data.model_input(entry, name, tensor, phase, new=call.grad or self._rows)
                    self.activations.remember(tensor, moments)
            if call.grad:
                self._outermost = entry.id
                self._first_span = len(self._spans)
                if not (self._rows or self._hooks) and session.guard.mark is None:
                    self.quiet.try_without_hooks(entry, module, self._ended)
            elif not self._rows and session.guard.mark is None:
                self.quiet.begin_evaluation(entry, module, self._ended)
        elif call.grad and self._rows:
            self._inputs(call, args, self.stack[-2] if len(self.stack) > 1 else None)

    def after(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:  # noqa: PLR0912 — as above
        """Global forward hook."""
        session = self.session
        if (not self.stack and self._filling is None) or get_ident() != session.position.thread:
            return
        entry = session.catalogue.find(module)
        if entry is None:
            if self._filling is not None and self._filling[0] == id(module) and not session.catalogue.knows(module):
                self._filling = None
            return
        while self.stack and self.stack[-1].entry is not entry:
            self.stack.pop()  # a forward that raised and was caught by the script
        if not self.stack:
            return
        call = self.stack.pop()
        outermost = not self.stack
        if outermost and call.grad and not call.recompute:
            inside = self._spans[self._first_span :]
            self._spans += self.quiet.forward_ended(entry, call.first_node, next_node(), inside)
        elif outermost:
            self.quiet.unwatched = None
        self._spans.append((call.first_node, next_node(), entry.id))
        if outermost and not call.recompute:
            session.signals.output.emit(entry, output, call.grad)
        if not session.started:
            return
        if call.recompute:
            if self._hooks:
                self._outputs(call, output, rows=False, hooks=True)
            return
        if (call.grad and (self._rows or self._hooks)) or (outermost and not call.grad):
            self._outputs(call, output, rows=self._rows, hooks=self._hooks)
        if outermost:
            if call.grad and not module.training:
                self._modes.evaluated_with_gradients(entry, args, output)
            session.step_row.clock["forward"] += perf_counter_ns() - call.began
            self.last_node = next_node()
            self.nodes_of_forward = self.last_node - call.first_node
            session.position.leave_breadcrumb(Phase.LOSS if call.grad else Phase.EVAL, -1)
            if not call.grad:
                session.rows.flush_evaluation()
        else:
            session.position.leave_breadcrumb(Phase.FORWARD if call.grad else Phase.EVAL, self.stack[-1].entry.id)

    def _unheld_call(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """The script calls a module without weights itself."""
        signals = self.session.signals
        if not torch.is_grad_enabled():
            if isinstance(module, _Loss):
                signals.evaluated_loss.emit(module, args)
        elif signals.call.listeners:
            signals.call.emit(module, args, keyword_arguments(), None)

    def _evaluation_due(self) -> bool:
        """Count a forward without gradients; whether it is measured."""
        session = self.session
        count = session.step_row.facts["eval_forwards"] = session.step_row.facts.get("eval_forwards", 0) + 1
        return session.budget.evaluation_due(count, session.step_row.since_row(), session.guard.recorder_ns)

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
        self._rows = self._hooks = self.activations.output_nonfinite = False
        self.last_node, self.nodes_of_forward = last_node, 0
        self.forget_graph()
        self._spans += self.quiet.as_usual(self._outermost, last_node)

    def forget_calls(self) -> None:
        """No forward is in flight any more: a backward begins."""
        self._filling = None
        self.quiet.resume()  # they are out still if the script caught what ended a forward
        self.stack.clear()
        self.activations.forget()

    def forget_graph(self) -> None:
        """The backward is over: its graph is gone, and so is a recomputation that checkpointing broke off early."""
        self._spans.clear()
        self.stack.clear()

    def calls(self) -> list[tuple[int, int, int]]:
        """First node, node after the last and module_id of each call since the last backward; inner calls before outer ones."""
        found: list[tuple[int, int, int]] = []
        for first, end, made in self._spans:
            if isinstance(made, int):
                found.append((first, end, made))
            else:
                found += [(first + start, first + stop, module_id) for start, stop, module_id in made.spans]
        return found

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

    def expect(self, model: nn.Module, name: str) -> None:
        """Number a model before it is first called, under a name of the script's choice."""
        self.session.catalogue.add_model(unwrapped(model), name)
        self._found_models()

    def _unseen_models(self) -> None:
        for root in self._found_models():
            self.session.rows.event(
                "compiled-model",
                f"model {root.model} is trained, but no call of its modules is seen: it runs compiled or inside functions; "
                "its weights, gradients and updates are recorded",
                module_id=root.id,
            )

    def _found_models(self) -> list[ModuleEntry]:
        found = self.session.catalogue.take_new_models()
        for root in found:
            self.session.rows.event(
                "model-found",
                f"model {root.model} ({root.class_name})",
                module_id=root.id,
                detail={"within": self.stack[-1].entry.id} if self.stack else None,
            )
            self.data.initial_parameters(root)
            self.session.signals.model_found.emit(root)
        if found and self.stack:
            self.session.signals.inner_model_found.emit(self.stack[0].entry)
        return found
