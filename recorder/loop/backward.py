"""What backward is called on: the loss, its input and target, the graph behind it."""

from collections.abc import Callable
from math import nan
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from ...schemas import Phase
from ...schemas.files.step_values import Row
from ..autograd.compiled_graphs import CompiledGraphs
from ..autograd.denominators import Denominators
from ..autograd.first_bad_module import find_first_bad_module, find_first_compiled, measure_compiled
from ..autograd.graph import (
    LOSSES,
    MOST_OF_LOSS,
    look_at_forward,
    loss_nodes,
    nodes_down_to,
    operator_name,
    saved_tensor,
    shape_of,
)
from ..autograd.loss_code import nodes_of_loss_code
from ..autograd.risks import LEAVES_OUT, RiskPaths, at_risk, find_undefined_derivatives
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Part
from ..tensors.band import Band
from ..tensors.device import scalar_of
from ..tensors.labels_and_masks import misplaced
from ..tensors.measure import measure
from ..tensors.moments import measurable
from .batches import DataWatch
from .forward import ForwardWatch
from .loss_operators import MOST_OF_A_LOSS, LossOperators
from .optimizers import OptimizerWatch

_FIRST_STEPS = 8
_WEIGHT_LOOKS = 2
"""Steps with a lost loss in which the weights are looked at before they are updated: one reduction for each."""
_MOST_SHAPES = 64
"""Graphs of different sizes after which the code behind the forward is no longer told apart."""


class BackwardWatch(Part):
    """Runs before and after torch.autograd.backward."""

    name = "backward"
    writes = (
        "operators",
        "tensors:loss",
        "tensor_stats:loss",
        "steps.loss",
        "steps.microbatches",
        "steps.retain_graph",
        "steps.backward_ns",
    )

    def __init__(
        self,
        session: Session,
        forward: ForwardWatch,
        data: DataWatch,
        optimizers: OptimizerWatch,
        graphs: CompiledGraphs,
    ) -> None:
        super().__init__(session)
        self.graphs = graphs
        self.forward = forward
        self.data = data
        self.optimizers = optimizers
        self.padding_in: Callable[[Tensor, int | None], Row | None] = lambda *_: None
        """Facts of a target about the padding among its tokens."""
        self.passes_by: Callable[[Tensor | None], bool] = lambda _: True
        """Asked, with its loss, whether a backward goes unwatched as its step does."""
        self.wrapped: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        """torch.autograd.backward without and with the recorder's wrapper."""
        self.seen_forward = False
        """Whether a module was called before the backward in progress."""
        self._began = 0
        self._looking = True
        """Whether the code of this loss is looked at."""
        self._codes: dict[tuple[Any, ...], int] = {}
        """Code of each loss that was seen: operators behind the forward, the last of them, and the shape of what it was given.
        With the number of nodes among which all its loss operators are."""
        self._harmless: set[tuple[int, int]] = set()
        """Graphs without operators that can lose numbers: nodes of the last forward, and nodes from there to the loss."""
        self._operators = LossOperators(session)
        self._denominators = Denominators()
        self.risk_paths = RiskPaths()
        """Ways to the operators of the last graph that was looked at, where it is not harmless."""
        self._weight_looks = _WEIGHT_LOOKS
        self.left_band = Band(0.0).left_by
        """Asked with a loss where it lies: above or below what it was in the steps before (1, -1), or among it (0)."""
        self._scaled: tuple[int, Tensor, Tensor] | None = None
        self.multiplied = False
        """Whether a GradScaler is in use."""
        self._behind = 0
        """Nodes from the last one of the forward to the loss, in the last step that was watched."""
        self._unseen = False
        """Whether the forward before the backward in progress went unwatched."""

    def install(self, patches: Patches) -> None:
        """Wrap torch.autograd.backward, and look whether saved-tensor hooks come into use."""
        before, after = self.guarded(self.before), self.guarded(self.after)

        def begins(*args: Any, **kwargs: Any) -> bool:
            retain = bool(kwargs.get("retain_graph") or (len(args) > 2 and args[2]))
            return before(args[0] if args else kwargs.get("tensors"), retain_graph=retain)

        def ends(mine: bool, returned: bool) -> None:
            if mine:
                after(returned=returned)

        plain = torch.autograd.backward
        patches.around(torch.autograd, "backward", before=begins, lastly=ends)
        self.wrapped = plain, torch.autograd.backward
        patches.around(torch.autograd.graph.saved_tensors_hooks, "__enter__", before=self._hooks_used)

    def _hooks_used(self, _hooks: Any) -> None:
        self.session.position.saved_tensor_hooks_used = True

    def before(self, tensors: Any, *, retain_graph: bool = False) -> bool:
        """A backward begins. Returns True if it is the script's own, not one inside another (checkpointing)."""
        session = self.session
        if session.position.in_backward:
            return False
        loss = tensors if isinstance(tensors, Tensor) else tensors[0] if len(tensors) == 1 else None
        self._unseen = session.position.unwatched
        if session.position.unwatched and self.passes_by(loss):
            return False
        session.start()
        session.step_row.log_call("b")
        session.step_row.facts["retain_graph"] = retain_graph or session.step_row.facts.get("retain_graph", False)
        self.seen_forward = self.forward.calls_ended > 0
        self.forward.forget_calls()
        self.optimizers.before_backward(loss)
        session.position.phase = Phase.LOSS
        if isinstance(loss, Tensor) and loss.numel() == 1 and measurable(loss):
            self._loss(loss)
            session.signals.loss.emit(loss)
        session.position.leave_breadcrumb(Phase.BACKWARD, -1)
        session.position.in_backward = True
        self._began = perf_counter_ns()
        return True

    def after(self, *, returned: bool) -> None:
        """The backward has returned, or raised: then nothing counts as done."""
        session = self.session
        session.position.in_backward = False
        session.step_row.clock["backward"] += perf_counter_ns() - self._began
        self.forward.forget_graph()
        if returned:
            session.position.microbatch += 1
            session.signals.backward_ended.emit()
            session.position.leave_breadcrumb(Phase.OPTIMIZER, -1)
            if (
                self.forward.activations.gradient_lost and not self.multiplied
            ):  # what a GradScaler has multiplied overflows now and then
                session.signals.gradients.emit(nan, True, False)
            self.optimizers.after_backward()
        self.forward.activations.gradient_lost = False

    def scaled(self, original: Any, result: Any) -> None:
        """GradScaler.scale has multiplied a loss: remember what it was."""
        if isinstance(original, Tensor) and isinstance(result, Tensor) and original.numel() == 1:
            self._scaled = (id(result), result.detach(), original.detach())
            self.multiplied = result is not original

    def _loss(self, loss: Tensor) -> None:
        session = self.session
        value = loss.detach()
        scaled, self._scaled = self._scaled, None
        if scaled is not None and scaled[0] == id(loss) and scaled[1].data_ptr() == loss.data_ptr():
            value = scaled[2]
        moments = measure(value)
        tensor_id = session.catalogue.tensor(None, "loss", "loss", loss)
        number = scalar_of(value)
        if isinstance(number, float) and (side := self.left_band(number)):
            # as a rule it falls because the samples are known by now, at the beginning of each epoch
            session.budget.full_detail(6 if side > 0 else 1, "loss")
        if moments.nonfinite:
            session.budget.full_detail(2, "nonfinite-loss")
            if self._weight_looks > 0:
                self._weight_looks -= 1
                self.data.lost_parameters()
            if self.forward.activations.looks_left > 0:
                self._find_first(loss)
        session.signals.loss_measured.emit(moments)
        if self._activations_due():
            measure_compiled(session, self.graphs, loss, healthy=not moments.nonfinite)
        code = self._code(loss)
        if code and not self._unseen:
            self._behind = code[0]
        new = code not in self._codes and len(self._codes) < _MOST_SHAPES
        self._looking = not self._unseen and (new or self._now_and_then())
        lost_input = self._input_and_target(loss, code)
        if lost_input and not moments.nonfinite and self.forward.activations.looks_left > 0:
            self._find_first(loss)  # the loss leaves those samples out, and its gradient will not
        self._operators.of_loss(loss, self.forward.calls, looking=self._looking)
        if not self._unseen:
            self._operators.sign_of(loss)
        session.rows.add_tensor_stats(tensor_id, Phase.LOSS, moments, requires_grad=loss.requires_grad)
        session.step_row.losses.append(number)
        self._inspect_loss(loss, nonfinite=moments.nonfinite > 0 or lost_input)

    def forward_ended_at(self, loss: Tensor) -> int:
        """Where the forward has ended that nobody saw, if all is as in the last step that was watched."""
        return loss.grad_fn._sequence_nr() - self._behind if loss.grad_fn is not None else 0

    def at_risk(self, loss: Tensor) -> bool:
        """Whether an operator on the learnt ways can lose numbers in the backward of this loss."""
        if self.session.position.saved_tensor_hooks_used:
            return False
        return any(at_risk(node) for node in self.risk_paths.ends(loss))

    def _find_first(self, loss: Tensor) -> None:
        """Look for where a loss was lost, as far as no module has shown it."""
        forward = self.forward
        if not forward.rows_taken:
            find_first_bad_module(self.session, self.graphs, loss)
        elif not forward.activations.output_nonfinite:
            find_first_compiled(self.session, self.graphs, loss, 0)

    def _activations_due(self) -> bool:
        """Whether what is inside compiled code is measured: as the forward was, which nobody has seen of a compiled function."""
        if not self.graphs:
            return False
        return self.forward.rows_taken if self.seen_forward else self.session.budget.due("activations")

    def _input_and_target(self, loss: Tensor, code: tuple[Any, ...]) -> bool:
        """Measure what losses are given; returns whether it holds a NaN. An infinite one may be meant: a class that is masked."""
        session, lost = self.session, False
        if self._looking and len(self._codes) < _MOST_SHAPES:
            self._codes.setdefault(code, 0)
        if session.position.saved_tensor_hooks_used:
            return lost
        for count, (node, looked_at) in enumerate(loss_nodes(loss, self._most(code))):
            if count == 4:
                break
            if code in self._codes:
                self._codes[code] = max(self._codes[code], looked_at)
            self._operators.of_node(node, looking=self._looking)
            suffix = "" if count == 0 else f"{count}"
            given, target = saved_tensor(node, "self"), saved_tensor(node, "target")
            if (
                given is not None
                and given.numel() <= MOST_OF_A_LOSS
                and given.is_floating_point()
                and measurable(given)
            ):
                tensor_id = session.catalogue.tensor(None, f"loss:input{suffix}", "output", given)
                moments = measure(given)
                lost = lost or bool(moments.nan_count)
                measured_at = session.rows.add_tensor_stats(tensor_id, Phase.LOSS, moments)
            else:
                measured_at = None
            if target is not None and measurable(target):
                self._target(node, given, target, measured_at)
        return lost

    def _most(self, code: tuple[Any, ...]) -> int:
        """Among how many nodes the operators of a loss are searched: of one that is known, as far as the last of them was."""
        return MOST_OF_LOSS if self._looking else self._codes.get(code, MOST_OF_LOSS)

    def _now_and_then(self) -> bool:
        """Whether this is one of the first steps, or one of those in which everything is looked at again."""
        session = self.session
        return (
            session.position.step <= session.attempt.first_step + _FIRST_STEPS
            or session.position.step % _FIRST_STEPS == 0
        )

    def _code(self, loss: Tensor) -> tuple[Any, ...]:
        """How a loss is put together, as far as can be told at a glance: a squeeze less, another shape make another code."""
        last: Any = loss.grad_fn
        if last is None:
            return ()
        given = last.next_functions[0] if last.next_functions else (None, 0)
        shape = tuple((given[0] is not None and shape_of(*given)) or ())
        return last._sequence_nr() - self.forward.last_node, type(last), shape

    def _target(self, node: Any, given: Tensor | None, target: Tensor, measured_at: int | None) -> None:
        dimension = LOSSES[type(node).__name__]
        facts: Row = {"reduction": _reduction(node), "loss_op": operator_name(node), "loss_input": measured_at}
        if not self.session.position.saved_tensor_hooks_used:
            facts["weighted"] = any(isinstance(getattr(node, name, None), Tensor) for name in _WEIGHTS)
            if facts["weighted"] and self._now_and_then():
                facts["class_weights"] = _class_weights(node)
        classes = ignore_index = None
        if dimension is not None and given is not None and not target.is_floating_point():
            classes = facts["classes"] = given.shape[dimension if given.dim() > 1 else 0]
            ignore_index = getattr(node, "_saved_ignore_index", None)
            if isinstance(ignore_index, int):
                ignore_index = ignore_index - (1 << 64) if ignore_index >= 1 << 63 else ignore_index
                facts["ignore_index"] = ignore_index
        row, moments = self.data.target(target, facts)
        if classes is not None:
            row |= misplaced(target, moments, classes, ignore_index) | (self.padding_in(target, ignore_index) or {})
        self._weigh(node, row)

    def _weigh(self, node: Any, row: Row) -> None:
        """Note the gradient that backward brings to the loss operator: its weight in what is minimised."""
        session, flushes = self.session, self.session.position.flushes

        def arrived(gradients: tuple[Any, ...]) -> None:
            gradient = gradients[0] if gradients else None
            if isinstance(gradient, Tensor) and gradient.numel() == 1 and session.position.flushes == flushes:
                row["loss_gradient"] = scalar_of(gradient)

        node.register_prehook(session.guard.guarded("loss-gradient", arrived))

    def _inspect_loss(self, loss: Tensor, *, nonfinite: bool) -> None:
        session, forward = self.session, self.forward
        if nonfinite and not forward.activations.output_nonfinite and forward.activations.looks_left > 0:
            forward.activations.looks_left -= 1
            # what models have made is finite where it was measured; what is left stands before, between and after them
            nodes = (
                nodes_of_loss_code(loss, forward.calls(), self._operators.holds_weights)
                if forward.rows_taken
                else nodes_down_to(loss, 0)
            )
            look_at_forward(session, self.graphs, nodes)
            return
        if session.position.saved_tensor_hooks_used or nonfinite:
            return
        last = loss.grad_fn
        behind = 0 if last is None or len(self._harmless) > _MOST_SHAPES else last._sequence_nr() - forward.last_node
        shape = (forward.nodes_of_forward, behind)
        present, nodes = [], 0
        if shape not in self._harmless:
            present, nodes = find_undefined_derivatives(session, loss, 0, self._denominators)
        if session.budget.watching_is_dear and not self._unseen and self.risk_paths.shape != shape:
            leaving_out = [n for n, _ in loss_nodes(loss, MOST_OF_LOSS) if operator_name(n) in LEAVES_OUT]
            if present or leaving_out:
                self.risk_paths.learn(loss, [*present, *leaving_out], shape)
        if shape[0] and nodes and not present:
            self._harmless.add(shape)


_WEIGHTS = ("_saved_weight", "_saved_pos_weight")

_MOST_CLASSES = 1024
"""Weights of more classes are not written down."""

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(node: Any) -> str | None:
    """How a loss operator joined its elements, as torch numbers it."""
    number = getattr(node, "_saved_reduction", None)
    return _REDUCTIONS[number] if isinstance(number, int) and number < len(_REDUCTIONS) else None


def _class_weights(node: Any) -> list[float] | None:
    """The weights that a loss was given for classes; None where there are none, or where to read them would wait for a device.
    What weighs single elements is none: it may well be negative, as an advantage."""
    name = type(node).__name__
    if "BinaryCrossEntropyWithLogits" in name:
        weight, before = getattr(node, "_saved_pos_weight", None), [1.0]
    elif "NllLoss" in name:
        weight, before = getattr(node, "_saved_weight", None), []
    else:
        return None
    if not isinstance(weight, Tensor) or weight.device.type != "cpu" or not 0 < weight.numel() <= _MOST_CLASSES:
        return None
    return before + weight.detach().reshape(-1).double().tolist()
