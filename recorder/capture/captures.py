"""Capture what is at hand when a value is lost, and start the search for the operator.

A capture is written at the first non-finite loss or gradient, at a collapsed loss scale, and at an exception. It holds the
batch, the inputs of the model, the random states, and the innermost bad module: its weights, what entered it and what left it.
The model is run a second time, apart from the training, to name the operator. A sound step costs a weak reference to each
argument of the model and a copy of the random state. On a device whose numbers arrive late, the captured step is the one in
which they arrive.
"""

from collections import deque
from collections.abc import Callable
from math import isfinite
from time import time_ns
from typing import Any

import torch
from torch import nn

from ...schemas import CaptureMeta, Phase
from ...schemas.files.layout import capture_name
from ..autograd.compiled_graphs import CompiledGraphs
from ..base.terminal import warn
from ..loop.batches import DataWatch
from ..script.frames import caller
from ..script.wrappers import WRAPPERS
from ..session.patches import Patches
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.device import Late, LateMoments, wait_for
from ..tensors.moments import Moments
from .call_recipe import save_function_plan, save_module_plan, torch_function_in_flight
from .exceptions import module_in_flight
from .folder import CaptureFolder, free_name
from .nonfinite_policy import Policy
from .operator_trace import Operator
from .rerun import Replay, run_again
from .weak_calls import Again, Allowance, HeldCall

MOST_CAPTURES = 3
"""In one run; an exception may have one more."""

MOST_CALLS = 8
"""Of models and losses since the last step, the latest."""

MOST_KEPT = 64 * 1024 * 1024
"""Bytes of arguments that are kept alive until their step is judged: what a call was given may be a temporary of that call."""

_ONLY_COMPILED = "run once more, uncompiled, its output was finite: the value was lost in compiled code alone"

FULL_STEPS = 6
"""Steps that are recorded in full from a capture on."""

_ROWS_BEFORE, _ROWS_AFTER = 24, 8
_MOST_STATE = 64 * 1024 * 1024
_MOST_LATE = 8


class CaptureWatch(Watch):
    """Holds the calls of the current step weakly; captures when told of something that is not finite."""

    name = "captures"
    writes = (
        "captured_steps",
        "replays",
        "events:capture",
        "events:stopped",
        "events:step-skipped",
        "events:rolled-back",
    )
    uses = ("memory-growth", "unwatched-steps")
    """Memory that has run out is to be looked at as it was; gradients are looked at before a step is left out for them."""

    def __init__(
        self,
        session: Session,
        data: DataWatch,
        graphs: CompiledGraphs,
        optimizers: Callable[[], list[torch.optim.Optimizer]],
    ) -> None:
        super().__init__(session)
        self.graphs = graphs
        self.data = data
        self.policy = Policy(session, optimizers)
        self._calls: deque[HeldCall] = deque(maxlen=MOST_CALLS)
        self._allowance = Allowance(MOST_KEPT)
        self._late: deque[LateMoments] = deque(maxlen=_MOST_LATE)
        self._fresh = 0
        """How many of them came after the last backward."""
        self._left = MOST_CAPTURES
        self._captured_step = -1
        self._bad_step = -2
        """The last step in which something was lost."""
        self._collapsed = False

    def listen(self, signals: Signals) -> None:
        """Hear of calls, where they may be needed again, and of losses and gradients."""
        if self.session.options.on_nonfinite != "record":
            signals.call.connect(self.name, self._called)
            signals.output.connect(self.name, self._returned)
        signals.loss_measured.connect(self.name, self._loss)
        signals.gradients.connect(self.name, self._gradients)
        signals.row_ends.connect(self.name, self._forget)
        signals.exception.connect(self.name, self._exception)
        self.policy.listen(signals)

    def install(self, patches: Patches) -> None:
        """The policy puts in what it needs."""
        self.policy.install(patches)

    # -- what it is told ------------------------------------------------------------------------------------------------------

    def _called(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], entry: ModuleEntry | None
    ) -> None:
        """The script's own code calls a model, or (without an entry) a module that has no weights, such as a loss."""
        if entry is None and (type(module).__name__ in WRAPPERS or hasattr(module, "_orig_mod")):
            return
        self._fresh += 1
        module_id = entry.id if entry is not None else None
        if len(self._calls) == MOST_CALLS:
            self._allowance.left += self._calls.popleft().kept_bytes
        allowance = self._allowance if torch.is_grad_enabled() else None  # an evaluation's step is not judged
        self._calls.append(HeldCall(module, args, kwargs, module_id, caller(), self._calls, allowance))

    def _forget(self) -> None:
        self._calls.clear()
        self._allowance.left = MOST_KEPT

    def _returned(self, entry: ModuleEntry, output: Any, grad: bool) -> None:
        """A model has put something out."""
        if grad and self._calls and self._calls[-1].module_id == entry.id:
            self._calls[-1].returned(output)

    def _loss(self, moments: Moments) -> None:
        """A loss is about to be differentiated."""
        self._fresh = 0
        if isinstance(moments, LateMoments):
            if self.policy.must_know:
                moments.compute()
            else:
                self._late.append(moments)
        if moments.nonfinite or any(m.nonfinite for m in self._late):
            self._late.clear()
            self._lost("loss", backward=False)

    def _gradients(self, norm: "float | Late | None", early: bool, scaler: bool) -> None:
        """The gradients of a step are known: ``early`` before it is certain that they will be used, with ``scaler`` after a
        GradScaler has left the step out for them."""
        if isinstance(norm, Late) and not self.policy.must_know:
            return
        value: float | None = wait_for(norm)
        if value is None or isfinite(value):
            return
        if not scaler:
            self.policy.bad_gradients = not early
            self._lost("gradient", backward=True)
            return
        scale = self.session.step_row.loss_scale
        collapsed = isinstance(scale, float) and scale <= 1.0
        if collapsed and not self._collapsed:
            self._collapsed = True
            self._lost("scaler", backward=True)

    def _exception(self, error: BaseException) -> None:
        """An exception that nothing has caught ends the script."""
        session = self.session
        if not session.started or session.options.on_nonfinite == "record" or not isinstance(error, Exception):
            return
        if self._captured_step != session.position.step:
            self._capture("exception", None, error)

    def _lost(self, reason: str, *, backward: bool) -> None:
        session = self.session
        before, self._bad_step = self._bad_step, session.position.step
        if session.options.on_nonfinite == "record":
            return
        new = before < session.position.step - 1  # a value that stays lost is one event
        if self._captured_step != session.position.step and new and self._left > 0:
            self._left -= 1
            session.budget.full_detail(FULL_STEPS, "capture")
            self._capture(reason, backward)
        self.policy.lost()

    # -- the capture ----------------------------------------------------------------------------------------------------------

    def _capture(self, reason: str, backward: bool | None, error: BaseException | None = None) -> None:
        """Write the folder and the rows. ``backward`` says which pass to run once more, None for neither."""
        session = self.session
        self._captured_step = session.position.step
        meta = CaptureMeta(
            capture=free_name(session.run, capture_name(session.position.step, session.catalogue.rank)),
            rank=session.catalogue.rank,
            step=session.position.step,
            microbatch=session.position.microbatch,
            reason=reason,
            time_ns=time_ns(),
        )
        replay, call = self._replay(backward) if backward is not None else (None, None)
        folder = None
        try:
            folder = CaptureFolder(session.run, meta)
            self._fill(folder, replay, call, error)
            folder.finish()
        except (OSError, RuntimeError) as e:  # a full disk, a device that has failed
            if folder is not None:
                folder.abandon()
            if reason == "exception":
                return
            warn("capture", f"step {session.position.step} could not be captured: {e}; what the replay showed is kept")
            meta.files, meta.bytes = {}, 0
            meta.missing.append(str(e))
        self._write_rows(meta, replay)

    def _replay(self, backward: bool) -> tuple[Replay, HeldCall | None]:
        """Run the calls of this step once more, one after the other, until one shows where the value was lost."""
        if len(self._calls) <= self._fresh:
            return Replay(note="not run once more: no model was called in this step"), None
        shown = Replay()
        again: Again = {}
        for call in list(self._calls)[: len(self._calls) - self._fresh]:
            replay = run_again(self.session, call, again, backward=backward)
            replay.only_compiled = None if backward else self._only_compiled(call, replay)
            if replay.only_compiled:
                replay.note = _ONLY_COMPILED
            if replay.first_bad is not None or replay.only_compiled:
                return replay, call
            if shown.note is None or replay.operators:
                shown = replay
        return shown, None

    def _only_compiled(self, call: HeldCall, replay: Replay) -> bool | None:
        """Whether compiled code of the called model lost a value that the same call, run once more uncompiled, did not. None
        where nothing was lost in such code, or the two cannot be compared: random numbers differ between them."""
        session, lost = self.session, self.graphs.lost
        if lost is None or lost[0] != session.position.step or lost[1] is None or call.module_id is None:
            return None
        bad, called = session.catalogue.module(lost[1]), session.catalogue.module(call.module_id)
        if bad is None or called is None or bad.root is not called.root:
            return None
        if replay.reproduced and replay.note is None:
            return False
        return True if replay.finite and not replay.random else None

    def _fill(
        self, folder: CaptureFolder, replay: Replay | None, call: HeldCall | None, error: BaseException | None
    ) -> None:
        meta = folder.meta
        if self.policy.stops and meta.reason != "exception":
            folder.save_whole(
                "checkpoint.pt", "weights, optimizers and random states before the step", self.policy.checkpoint()
            )
            meta.stopped = True
        first = replay.first_bad if replay is not None else None
        if replay is not None and first is not None:
            meta.reproduced = replay.reproduced
            meta.operator = row_of(first, meta.capture, first_bad=True)
            inputs = dict(replay.given)
            folder.save(
                "operator.pt",
                "inputs and outputs of the first bad operator",
                {"inputs": inputs, "outputs": replay.made},
            )
        if replay is not None:
            meta.note = replay.note
        part = replay.module if replay is not None else None
        if part is not None:
            meta.module = part.entry.name if part.entry is not None else None
            meta.module_class = type(part.module).__name__
            content = {"args": part.args, "kwargs": part.kwargs, "output": part.output}
            folder.save("module.pt", "inputs and output of the innermost module it ran in", content)
            state = dict(part.module.state_dict())
            folder.save("module_state.pt", "weights and buffers of that module", state, most=_MOST_STATE)
            save_module_plan(folder, self.session.secrets, part.module, part.args, part.kwargs, part.rng, call)
        elif error is not None:
            module, frame = module_in_flight(error)
            if module is not None and frame is not None:
                entry = self.session.catalogue.by_object.get(id(module))
                meta.module = entry.name if entry is not None else None
                meta.module_class = type(module).__name__
                args, kwargs = frame.f_locals.get("args", ()), frame.f_locals.get("kwargs", {})
                folder.save("module.pt", "inputs of the module in flight", {"args": args, "kwargs": kwargs})
                state = dict(module.state_dict())
                folder.save("module_state.pt", "weights and buffers of that module", state, most=_MOST_STATE)
                last = self._calls[-1] if self._calls else None
                rng = last.rng if last is not None and last.ref() is module else None
                save_module_plan(folder, self.session.secrets, module, args, kwargs, rng, last)
            elif (called := torch_function_in_flight(error)) is not None:
                save_function_plan(folder, self.session.secrets, *called)
        calls = list(self._calls)
        for i, held in enumerate(calls):
            suffix = "" if len(calls) == 1 else f"_{i}"
            kind = "model" if held.module_id is not None else "loss"
            what = f"arguments of {kind} {held.name}"
            folder.save(f"inputs{suffix}.pt", what, held.arguments(meta.missing))
        folder.save("batch.pt", "fields of the batch that still exist", self.data.alive_fields())
        chosen = call or (calls[-1] if calls else None)
        if chosen is not None:
            random = {"cpu": chosen.rng} | ({"cuda": chosen.cuda_rng} if chosen.cuda_rng is not None else {})
            folder.save("random.pt", "random states when that call began", random)

    def _write_rows(self, meta: CaptureMeta, replay: Replay | None) -> None:
        session = self.session
        operators = replay.operators if replay is not None else []
        first = replay.first_bad if replay is not None else None
        session.rows.add(
            "captured_steps",
            time_ns=meta.time_ns,
            capture=meta.capture,
            reason=meta.reason,
            bytes=meta.bytes,
            operators=len(operators) if operators else None,
            reproduced=replay.reproduced if operators and replay is not None else None,
            only_compiled=replay.only_compiled if replay is not None else None,
            note=replay.note if replay is not None else None,
            stopped=meta.stopped,
        )
        if first is not None:
            for operator in operators[max(first.ordinal - _ROWS_BEFORE, 0) : first.ordinal + _ROWS_AFTER + 1]:
                session.rows.add("replays", **row_of(operator, meta.capture, first_bad=operator is first))
        session.rows.event(
            "capture",
            f"step {meta.step} was captured ({meta.reason}) into captures/{meta.capture}",
            module_id=first.module.id if first is not None and first.module is not None else None,
            detail={"capture": meta.capture, "missing": meta.missing},
        )


def row_of(operator: Operator, capture: str, *, first_bad: bool) -> dict[str, Any]:
    """Columns of `replays` for one operator."""
    source, code = operator.place.words() if operator.place is not None else (None, None)
    moments = operator.moments
    operand = _operand(operator)
    return {
        "capture": capture,
        "ordinal": operator.ordinal,
        "phase": int(Phase.BACKWARD if operator.node is not None else Phase.FORWARD),
        "op": operator.name,
        "node": operator.node,
        "module_id": operator.module.id if operator.module is not None else None,
        "source": source,
        "code": code,
        "inputs": "; ".join(_in_words(*given) for given in operator.inputs),
        "operand": operand[0] if operand is not None else None,
        "operand_min": operand[1].min if operand is not None else None,
        "operand_max": operand[1].max if operand is not None else None,
        "operand_numel": operand[1].numel if operand is not None else None,
        "operand_zero_count": operand[1].zero_count if operand is not None else None,
        "dtype": operator.dtype,
        "shape": operator.shape,
        "numel": moments.numel if moments is not None else None,
        "nan_count": moments.nan_count if moments is not None else None,
        "inf_count": moments.inf_count if moments is not None else None,
        "min": moments.min if moments is not None else None,
        "max": moments.max if moments is not None else None,
        "first_bad": first_bad,
    }


def _operand(operator: Operator) -> tuple[str, Moments] | None:
    """The argument that decides whether the operator is defined."""
    floats = [(name, moments) for name, _, _, moments in operator.inputs if moments is not None]
    if operator.name.startswith("div"):
        return next((f for f in floats if f[0] == "other"), None)
    return floats[0] if floats else None


def _in_words(name: str, dtype: str, shape: list[int], moments: Moments | None) -> str:
    text = f"{name} {dtype} {shape}"
    if moments is None:
        return text
    if moments.min is not None and moments.max is not None:
        text += f" {moments.min:.4g} to {moments.max:.4g}"
    for count, what in ((moments.nan_count, "NaN"), (moments.inf_count, "Inf"), (moments.zero_count, "zero")):
        if count:
            text += f", {count} {what}"
    return text
