"""What a rank says to the other ranks: calls of torch.distributed, and forwards of DistributedDataParallel.

Only calls made from Python are seen. The reductions of DistributedDataParallel run in C++ inside backward: its forward
stands for them, with the same place in the order of calls on every rank. A forward without gradients reduces nothing, but
sends the buffers of rank 0 to all: it waits for the others like any collective. A row is in the journal before a call that may
never return, so that a rank that waits for ever leaves what it waited for.
"""

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns, time_ns
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from ..script.frames import caller
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import measurable

_CALLS = (
    *("all_reduce", "broadcast", "reduce", "barrier", "monitored_barrier", "gather", "scatter", "send", "recv"),
    *(
        "all_gather",
        "all_gather_into_tensor",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "all_to_all",
        "all_to_all_single",
    ),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "isend", "irecv"),
)
_GIVEN = ("tensor", "input_tensor", "input", "input_list", "input_tensor_list", "gather_list", "scatter_list", "output")
"""Parameters that hold what a rank gives, in the order in which they are looked for."""

_BUFFERS = "DistributedDataParallel's broadcast of buffers"
"""Stands for what a forward without gradients sends to the other ranks."""

_WRITTEN_AT_ONCE = 8
"""Calls a step whose row is written before they begin: about a hundred microseconds each."""

_MOST_BEFORE_TRAINING = 1000
"""Calls that are kept while nothing trains: a script that only infers makes them without end."""

_MOST_SUMMED = 2**20


class CollectiveWatch(Watch):
    """Wraps the functions of torch.distributed and the forward of DistributedDataParallel."""

    name = "collectives"
    writes = ("collectives",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._numbers: defaultdict[str, int] = defaultdict(int)
        self._inside = False
        self._at_once = 0
        self._before_training = 0

    def listen(self, signals: Signals) -> None:
        """Number the calls of each step again."""
        signals.row_ends.connect(self.name, self._next_step)

    def install(self, patches: Patches) -> None:
        """Put the wrappers into torch; nothing where torch was built without torch.distributed."""
        if not torch.distributed.is_available():
            return
        module = torch.distributed.distributed_c10d
        for name in _CALLS:
            if hasattr(module, name):
                original = getattr(module, name)
                patches.put(module, name, self._wrapper(name, original))
                if getattr(torch.distributed, name, None) is original:
                    patches.put(torch.distributed, name, getattr(module, name))
        patches.after_import("torch.nn.parallel.distributed", lambda owner: self._wrap_replicas(patches, owner))

    def _wrapper(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        session, position = self.session, self.session.position
        bind = inspect.signature(original).bind
        begins = self.guarded(lambda *args, **kwargs: self._begins(name, bind(*args, **kwargs).arguments))
        returned = self.guarded(self._returned)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._inside or (session.started and get_ident() != position.thread):
                return original(*args, **kwargs)
            row = begins(*args, **kwargs)
            began, self._inside = perf_counter_ns(), True
            error: BaseException | None = None
            try:
                return original(*args, **kwargs)
            except BaseException as e:
                error = e
                raise
            finally:
                self._inside = False
                if row is not None:
                    returned(row, perf_counter_ns() - began, error)

        return call

    def _wrap_replicas(self, patches: Patches, owner: Any) -> None:
        replicas = owner.DistributedDataParallel
        patches.around(replicas, "__init__", after=self.guarded(self._made))
        patches.around(replicas, "forward", before=self.guarded(self._replica))

    # -- rows ---------------------------------------------------------------------------------------------------------------

    def _begins(self, name: str, given: dict[str, Any]) -> tuple[dict[str, Any], Tensor | None] | None:
        tensor = _tensor_of(given)
        peer = next(
            (given[key] for key in ("src", "dst", "group_src", "group_dst") if isinstance(given.get(key), int)), None
        )
        reduces = "reduce" in name
        row: dict[str, Any] = {
            "op": name,
            "reduce_op": str(given.get("op", "sum")).rpartition(".")[2].strip(">").lower() if reduces else None,
            "dtype": None if tensor is None else str(tensor.dtype).removeprefix("torch."),
            "numel": None if tensor is None else _numel(given, tensor),
            "peer": peer,
            "blocking": not given.get("async_op", False) and name not in {"isend", "irecv"},
        }
        summed = (
            tensor if name == "all_reduce" and row["blocking"] and _can_be_summed(tensor, row["reduce_op"]) else None
        )
        if summed is not None:
            row["sum_before"], row["size_before"] = _sums(summed)
        return (row, summed) if self._add(_group_name(given.get("group")), row) else None

    def _returned(self, begun: tuple[dict[str, Any], Tensor | None], took_ns: int, error: BaseException | None) -> None:
        row, summed = begun
        row = {**row, "waited_ns": took_ns}
        if error is not None:
            row["error"] = f"{type(error).__name__}: {error}"[:500]
        elif summed is not None:
            row["sum_after"] = _sums(summed)[0]
        self.session.rows.add("collectives", **row)

    def _made(self, _note: Any, _result: Any, module: Any, *_: Any, **__: Any) -> None:
        self._replicas("DistributedDataParallel.__init__", module)

    def _replica(self, module: Any, *_: Any, **__: Any) -> None:
        if torch.is_grad_enabled() and module.require_backward_grad_sync:
            self._replicas("DistributedDataParallel", module)
        elif (
            module.will_sync_module_buffers()
        ):  # without gradients too, as in an evaluation: rank 0's buffers go to all
            numel = sum(b.numel() for b in module.buffers())
            self._add(_group_name(module.process_group), {"op": _BUFFERS, "numel": numel, "blocking": True})

    def _replicas(self, op: str, module: Any) -> None:
        numel = sum(p.numel() for p in module.parameters() if p.requires_grad)
        self._add(_group_name(module.process_group), {"op": op, "numel": numel, "blocking": True})

    def _add(self, group: str, row: dict[str, Any]) -> bool:
        """Number the call and make its row; whether there is one."""
        session = self.session
        number = self._numbers[group]
        self._numbers[group] += 1
        if not session.started:  # nothing trains yet: the rows wait for the first training forward
            self._before_training += 1
            if self._before_training > _MOST_BEFORE_TRAINING and row["op"] != "DistributedDataParallel.__init__":
                return False  # perhaps nothing ever will; the call is counted
        place = caller()
        row |= {
            "time_ns": time_ns(),
            "phase": session.position.phase,
            "seq": session.position.seq,
            "group": group,
            "number": number,
            "place": place.words()[0] if place is not None else None,
        }
        session.position.seq += 1
        session.rows.add("collectives", **row)
        if row["blocking"] and self._at_once < _WRITTEN_AT_ONCE:
            self._at_once += 1
            session.rows.write(("collectives",))
        return True

    def _next_step(self) -> None:
        self._at_once = 0


def _tensor_of(given: dict[str, Any]) -> Tensor | None:
    for name in _GIVEN:
        value = given.get(name)
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, Tensor):
            return value
    return None


def _numel(given: dict[str, Any], tensor: Tensor) -> int:
    for name in _GIVEN:
        value = given.get(name)
        if isinstance(value, (list, tuple)) and value and value[0] is tensor:
            return sum(t.numel() for t in value if isinstance(t, Tensor))
    return tensor.numel()


def _can_be_summed(tensor: Tensor | None, reduce_op: str | None) -> bool:
    return (
        tensor is not None
        and reduce_op in {"sum", "avg"}
        and tensor.device.type == "cpu"
        and tensor.is_floating_point()
        and tensor.numel() <= _MOST_SUMMED
        and measurable(tensor)
    )


def _sums(tensor: Tensor) -> tuple[float, float]:
    wide = tensor.detach().double()
    return float(wide.sum()), float(wide.abs().sum())


def _group_name(group: Any) -> str:
    if group is None or group is torch.distributed.group.WORLD:
        return "default"
    return str(getattr(group, "group_name", group))
