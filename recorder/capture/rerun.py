"""Run a model a second time on the arguments of a call: to see in which operator a value was lost.

The training does not notice. Parameters are stood in for by aliases without hooks, buffers and attributes by
copies; torch's, numpy's and Python's random states, autocast, the standard streams and the recorder itself are put back; hooks
of modules do not run; no gradient is accumulated; no tensor that existed before is written to (see operator_watch).
What a forward does beyond that, such as counting in a global variable or writing a file, it does once more.
"""

import contextlib
import io
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from time import perf_counter
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..script.wrappers import unwrapped
from ..session.session import Session
from .operator_trace import BrokenOffError, ModuleCall, Operator, OperatorWatch
from .weak_calls import Again, GoneError, HeldCall, copied, floats_in, taken_up

LIMIT_S = 20.0
"""A replay that takes longer is broken off; it costs about two passes and the looks at their operators."""

_CONTAINERS = (list, dict, set, deque, OrderedDict)


@dataclass
class Replay:
    """What one replay showed. ``note`` says why there is no operator, or what is to be said beside it."""

    operators: list[Operator] = field(default_factory=list)
    first_bad: Operator | None = None
    reproduced: bool = False
    finite: bool = False
    """Whether it went through, and what it showed is finite."""
    random: bool = False
    """Whether it drew random numbers."""
    only_compiled: bool | None = None
    """Whether compiled code had lost what it did not lose; None where that cannot be told."""
    note: str | None = None
    module: ModuleCall | None = None
    """The innermost call in which the first bad operator ran, if it was kept."""
    given: list[tuple[str, Tensor]] = field(default_factory=list)
    """Inputs of the first bad operator."""
    made: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    """What the model put out."""


def run_again(session: Session, call: HeldCall, again: Again, *, backward: bool) -> Replay:
    """Run the forward of a call once more; with ``backward`` its backward too, from a gradient of our own.

    ``again`` has what the calls before it put out when they were run again, and gets what this one does.
    Never raises what the model raises; a Replay that could not be made says why in ``note``.
    """
    module = call.ref()
    if module is None:
        return Replay(note="the model does not exist any more")
    module = unwrapped(module)
    try:
        args = [taken_up(v, again) for v in call.args]
        kwargs = {k: taken_up(v, again) for k, v in call.kwargs.items()}
        _check(module)
        copies: dict[int, Tensor] = {}
        with torch.no_grad():
            args, kwargs = [copied(v, copies) for v in args], {k: copied(v, copies) for k, v in kwargs.items()}
    except GoneError as e:
        return Replay(note=f"not run once more: {e}")
    replay = Replay()
    watch = OperatorWatch(_run.__code__, perf_counter() + LIMIT_S)
    watch.owns(copies.values())
    kept: dict[int, ModuleCall] = {}
    try:
        with _aside(session, module, call, watch, kept if backward else None) as leaves:
            if backward:
                leaves += [t for t in copies.values() if t.requires_grad]
            _run(replay, module, args, kwargs, watch, leaves if backward else None, loss=call.module_id is None)
    except BrokenOffError as e:
        replay.note = f"broken off: {e}"
    replay.operators = watch.operators
    replay.random = watch.random
    again[call] = replay.outputs
    if replay.first_bad is not None:
        birth = watch.births.get(replay.first_bad.ordinal)
        if birth is not None:
            replay.module, replay.given, replay.made = birth
        if replay.module is None and replay.first_bad.module is not None:
            replay.module = kept.get(replay.first_bad.module.id)
    return replay


def _run(
    replay: Replay,
    module: nn.Module,
    args: list[Any],
    kwargs: dict[str, Any],
    watch: OperatorWatch,
    leaves: list[Tensor] | None,
    *,
    loss: bool,
) -> None:
    """The passes themselves. Its code marks the end of the script's frames."""
    lost: list[Operator] = []
    try:
        with watch:
            outputs = list(floats_in(module(*args, **kwargs)))
        replay.outputs = outputs
        if leaves is None:
            lost = [o for t in outputs if (o := watch.producer(t, harmful=loss)) is not None]
        elif (roots := [t for t in outputs if t.requires_grad]) and leaves:
            directions = [_direction(t) for t in roots]
            watch.owns(directions)
            with watch:
                gradients: Any = torch.autograd.grad(roots, leaves, directions, allow_unused=True)
            made = [g for g in gradients if g is not None]
            lost = [o for g in made if (o := watch.producer(g)) is not None]
    except Exception as e:  # noqa: BLE001 — the script's own code runs here, and may find its values bad
        replay.note = f"the model raised {type(e).__name__}: {e}"
        last = next((o for o in reversed(watch.operators) if o.lost and not o.wanted), None)
        lost = [last] if last is not None else []
    if not lost:
        if replay.note is None:
            replay.finite = True
            what = "its gradients were" if leaves is not None else "its output was"
            replay.note = f"run once more, {what} finite: the value was lost in code outside the model"
        return
    origins = [watch.origin(operator) for operator in lost]
    replay.first_bad, outside = min(origins, key=lambda o: o[0].ordinal)
    replay.reproduced = True
    if outside:
        replay.note = "what it was given was not finite before the model ran"


def _direction(output: Tensor) -> Tensor:
    """A gradient to begin a backward with: small, the same in every run, different for each element."""
    numbers = torch.arange(output.numel(), dtype=torch.float64).mul_(0.7548776662466927).frac_().sub_(0.4)
    numbers /= max(output.numel(), 1)
    return numbers.to(device=output.device, dtype=output.dtype).reshape(output.shape)


def _check(module: nn.Module) -> None:
    """Raise GoneError for a model that cannot be run again."""
    for part in module.modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise GoneError("it is a TorchScript module")
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None and (type(tensor) not in {nn.Parameter, Tensor} or tensor.is_meta):
                raise GoneError(f"it holds a tensor of type {type(tensor).__name__}")


@contextmanager
def _aside(
    session: Session, module: nn.Module, call: HeldCall, watch: OperatorWatch, kept: dict[int, ModuleCall] | None
) -> Generator[list[Tensor]]:
    """Everything round a replay; yields the aliases of the parameters that require a gradient."""
    with ExitStack() as stack:
        stack.enter_context(_recorder_off(session))
        stack.enter_context(_random_states(call))
        leaves = stack.enter_context(_stand_ins(module, watch))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        for device, enabled, dtype in call.autocast:
            stack.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False))
        if "torch._dynamo" in sys.modules:
            stack.enter_context(cast("AbstractContextManager[Any]", torch.compiler.set_stance("force_eager")))
        stack.enter_context(torch.enable_grad())
        if kept is None:  # without a backward nothing that autograd would save is needed
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_nothing, _nothing))
        stack.enter_context(_plain_calls(session, watch, kept))
        yield leaves


def _nothing(_: Any) -> Any:
    """Save nothing, give nothing back."""


@contextmanager
def _recorder_off(session: Session) -> Generator[None]:
    """No hook of ours runs, and what it would have noted is as before."""
    alive, hooks_used = session.guard.alive, session.position.saved_tensor_hooks_used
    session.guard.alive = False
    try:
        yield
    finally:
        session.guard.alive, session.position.saved_tensor_hooks_used = alive, hooks_used


@contextmanager
def _random_states(call: HeldCall) -> Generator[None]:
    """Random numbers as the call found them; afterwards as they are now."""
    python: Any = sys.modules.get("random")
    numpy: Any = sys.modules.get("numpy")
    before = torch.default_generator.get_state()
    of_python = python.getstate() if python is not None else None
    of_numpy = numpy.random.get_state() if numpy is not None else None
    cuda = torch.cuda.default_generators[torch.cuda.current_device()] if call.cuda_rng is not None else None
    cuda_before = cuda.get_state() if cuda is not None else None
    try:
        torch.default_generator.set_state(call.rng)
        if cuda is not None and call.cuda_rng is not None:
            cuda.set_state(call.cuda_rng)
        yield
    finally:
        torch.default_generator.set_state(before)
        if cuda is not None and cuda_before is not None:
            cuda.set_state(cuda_before)
        if python is not None:
            python.setstate(of_python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)


@contextmanager
def _stand_ins(module: nn.Module, watch: OperatorWatch) -> Generator[list[Tensor]]:
    """Aliases for parameters, clones for buffers, shallow copies for containers; the module's own come back unchanged."""
    twins: dict[int, Any] = {}
    kept: list[tuple[nn.Module, dict[str, Any]]] = [(part, dict(vars(part))) for part in module.modules()]
    try:
        with torch.no_grad():
            for part, _ in kept:
                for parameter in part._parameters.values():
                    if parameter is not None and id(parameter) not in twins:
                        twin = nn.Parameter(parameter.detach(), requires_grad=parameter.requires_grad)
                        vars(twin).update(vars(parameter))
                        twins[id(parameter)] = twin
                for buffer in part._buffers.values():
                    if buffer is not None and id(buffer) not in twins:
                        twins[id(buffer)] = twin = buffer.detach().clone()
                        watch.owns([twin], mask=True)
            for part, state in kept:
                for name, value in state.items():
                    if type(value) in _CONTAINERS:
                        vars(part)[name] = _with_twins(value, twins)
                    elif id(value) in twins:
                        vars(part)[name] = twins[id(value)]
        yield [t for t in twins.values() if isinstance(t, nn.Parameter) and t.requires_grad]
    finally:
        for part, state in kept:
            own = vars(part)
            for name in [n for n in own if n not in state]:
                del own[name]
            own.update(state)


def _with_twins(container: Any, twins: dict[int, Any]) -> Any:
    """A shallow copy in which what has a stand-in is replaced by it."""
    if isinstance(container, dict):
        copy = container.copy()
        for key, value in copy.items():
            if id(value) in twins:
                copy[key] = twins[id(value)]
        return copy
    if isinstance(container, set):
        return set(container)
    return type(container)(twins.get(id(value), value) for value in container)


@contextmanager
def _plain_calls(session: Session, watch: OperatorWatch, kept: dict[int, ModuleCall] | None) -> Generator[None]:
    """Calls of modules run their forward and nothing else, and are noted in the watch."""
    original: Callable[..., Any] = nn.Module.__call__
    by_object = session.catalogue.by_object
    thread = session.position.thread

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if get_ident() != thread:
            return original(self, *args, **kwargs)
        inner = unwrapped(self)
        entry = by_object.get(id(inner))
        if entry is not None and entry.ref() is not inner:
            entry = None
        noted = ModuleCall(entry, inner, args, kwargs)
        if kept is not None and entry is not None:
            kept.setdefault(entry.id, noted)
        watch.calls.append(noted)
        try:
            output = inner.forward(*args, **kwargs)
            if noted.kept or kept is not None:
                noted.output = output
            return output
        finally:
            watch.calls.pop()

    nn.Module.__call__ = call  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        nn.Module.__call__ = original  # pyright: ignore[reportAttributeAccessIssue]
