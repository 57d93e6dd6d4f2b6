"""Checkpoints: files written and read, and state that is put into models, optimizers and schedulers.

What a file holds is looked at from its top: keys, counters, the learning rate and the step counter of optimizer state. No
tensor of it is read but an optimizer's step counter, and nothing of it is kept.
"""

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter_ns, time_ns
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

from ...schemas.files.json_text import json_text
from ...schemas.files.layout import CAPTURES
from ...schemas.files.step_values import Row
from ..loop.optimizers import OptimizerWatch
from ..session.patches import Patches
from ..session.session import Session
from .loaded_weights import Before, TakenStates

_MOST_KEYS = 32
_MOST_ROWS = 2000
"""Rows of one process; a script that saves something at every step of a long run needs no more of them."""

_COUNTERS = re.compile(
    r"(global_?)?(step|iter(ation)?|update|batch)(s|_?(num|no|idx|count|number))?$|^(it|i)$", re.IGNORECASE
)
"""Names under which scripts save how many steps they have made."""


class CheckpointWatch:
    """Writes table `checkpoints`, and events for people to read."""

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        self.session = session
        self.optimizers = optimizers
        self._rows_left = _MOST_ROWS
        self._taken = TakenStates()
        self._captures = os.fspath(session.run / CAPTURES) + os.sep

    def install(self, patches: Patches) -> None:
        """Wrap torch.save and torch.load, safetensors where it is in use, and every load_state_dict."""
        for name, action in (("save", self._saved), ("load", self._read)):
            wrapped = self._file_wrapper(action)
            patches.wrap(torch.serialization, name, wrapped)
            patches.put(torch, name, getattr(torch.serialization, name))
        patches.after_import("safetensors.torch", functools.partial(self._safetensors, patches))
        self._wrap_optimizers(patches)
        self._wrap_modules(patches)
        loaded = self.session.guarded("checkpoints", self._scheduler)
        for kind in dict.fromkeys([lr_scheduler.LRScheduler, *_subclasses(lr_scheduler.LRScheduler)]):
            if "load_state_dict" in vars(kind):
                patches.wrap(kind, "load_state_dict", _after_method(loaded))

    # -- files ------------------------------------------------------------------------------------------------------------

    def _file_wrapper(
        self, action: Callable[[tuple[Any, ...], dict[str, Any], Any, int], None]
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        noted = self.session.guarded("checkpoints", action)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                began = perf_counter_ns()
                result = original(*args, **kwargs)
                noted(args, kwargs, result, perf_counter_ns() - began)
                return result

            return call

        return wrap

    def _safetensors(self, patches: Patches, module: Any) -> None:
        def read(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, took: int) -> None:
            self._file("read", args[0] if args else kwargs.get("filename"), result, took)

        def saved(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any, took: int) -> None:
            given = args[0] if args else kwargs.get("tensors")
            self._file("saved", args[1] if len(args) > 1 else kwargs.get("filename"), given, took)

        patches.wrap(module, "save_file", self._file_wrapper(saved))
        patches.wrap(module, "load_file", self._file_wrapper(read))

    def _saved(self, args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any, took: int) -> None:
        content = args[0] if args else kwargs.get("obj")
        self._file("saved", args[1] if len(args) > 1 else kwargs.get("f"), content, took)

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, took: int) -> None:
        self._file("read", args[0] if args else kwargs.get("f"), result, took)

    def _file(self, action: str, target: Any, content: Any, took: int) -> None:
        path = os.fspath(target) if isinstance(target, (str, os.PathLike)) else getattr(target, "name", None)
        path = path if isinstance(path, str) else None
        if path is not None and path.startswith(self._captures):
            return  # written by this recorder
        shown = None if path is None else self.session.secrets.text(path)
        row = self._add(action, path=shown, ns=took, content=type(content).__name__, **_facts_of(content))
        if path is not None and os.path.isfile(path):  # noqa: PTH113 — a name of the script's, not one of ours
            row["bytes"] = os.path.getsize(path)  # noqa: PTH202
        if isinstance(content, nn.Module):
            row["keys"] = None
        word = "written" if action == "saved" else "read"
        self.session.event(
            f"checkpoint-{'saved' if action == 'saved' else 'loaded'}",
            f"{path or 'a checkpoint'} was {word}",
            detail={
                k: v
                for k, v in row.items()
                if k in {"path", "bytes", "keys", "counter", "state_step"} and v is not None
            },
        )

    # -- state ------------------------------------------------------------------------------------------------------------

    def _wrap_optimizers(self, patches: Patches) -> None:
        loaded = self.session.guarded("checkpoints", self._optimizer)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
                before = [group.get("lr") for group in self.param_groups]
                result = original(self, *args, **kwargs)
                loaded(self, before)
                return result

            return load_state_dict

        patches.wrap(torch.optim.Optimizer, "load_state_dict", wrap)

    def _wrap_modules(self, patches: Patches) -> None:
        looked, loaded, taken = (
            self.session.guarded("checkpoints", hook) for hook in (Before, self._weights, self._state_taken)
        )

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
                state = args[0] if args else kwargs.get("state_dict")
                before = looked(self, state)
                result = original(self, *args, **kwargs)
                loaded(self, state, result, before, assigned=bool(kwargs.get("assign") or (len(args) > 2 and args[2])))
                return result

            return load_state_dict

        def wrap_taking(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
                state = original(self, *args, **kwargs)
                if not args and kwargs.get("destination") is None:  # not asked by the module around it
                    taken(state)
                return state

            return state_dict

        patches.wrap(nn.Module, "load_state_dict", wrap)
        patches.wrap(nn.Module, "state_dict", wrap_taking)

    def _state_taken(self, state: Any) -> None:
        self._taken.note(state, self.session.step)

    def _optimizer(self, optimizer: torch.optim.Optimizer, before: list[Any]) -> None:
        counter = _largest_step(optimizer.state.values())
        row = self._add(
            "optimizer",
            content=type(optimizer).__name__,
            optimizer_id=self.optimizers.record_of(optimizer).id,
            state_step=counter,
            lr=_number(optimizer.param_groups[0].get("lr")) if optimizer.param_groups else None,
            lr_before=_number(before[0]) if before else None,
            entries=len(optimizer.state),
        )
        self.session.event(
            "resume",
            f"state of {len(optimizer.state)} weights was put into {type(optimizer).__name__}"
            + (f", step counter {counter:g}" if counter is not None else ""),
            detail={"what": "optimizer", "optimizer_id": row["optimizer_id"], "state_step": counter, "lr": row["lr"]},
        )

    def _scheduler(self, scheduler: Any) -> None:
        last = getattr(scheduler, "last_epoch", None)
        self._add("scheduler", content=type(scheduler).__name__, last_epoch=last if isinstance(last, int) else None)
        self.session.event(
            "resume",
            f"state was put into {type(scheduler).__name__}, counter {last}",
            detail={"what": "scheduler", "last_epoch": last if isinstance(last, int) else None},
        )

    def _weights(self, module: nn.Module, state: Any, result: Any, before: Before | None, *, assigned: bool) -> None:
        missing = len(getattr(result, "missing_keys", ()))
        catalogue = self.session.catalogue
        entry = catalogue.by_object.get(id(module))
        known = entry is not None and entry.ref() is module
        outermost = catalogue.outermost(module) is module
        self._add(
            "weights",
            content=type(module).__name__,
            module_id=entry.id if known and entry is not None else None,
            entries=len(state) if isinstance(state, Mapping) else None,
            whole=outermost and not missing,
            taken_step=self._taken.step_of(state),
            assigned=assigned,
            **(before.facts(module, result) if before is not None else {}),
        )
        self.session.event(
            "weights-loaded",
            f"weights were put into {'' if outermost else 'a part, '}{type(module).__name__}"
            + (f", {missing} keys were missing" if missing else ""),
            module_id=entry.id if known and entry is not None else None,
        )

    def _add(self, action: str, **columns: Any) -> Row:
        if self._rows_left <= 0:
            return {"optimizer_id": None, "lr": None}
        self._rows_left -= 1
        return self.session.add("checkpoints", action=action, step=self.session.step, time_ns=time_ns(), **columns)


def _facts_of(content: Any) -> Row:
    """What can be seen of a checkpoint from its top."""
    if not isinstance(content, Mapping):
        return {}
    names = [str(key) for key in list(content)[:_MOST_KEYS]]
    facts: Row = {"keys": json_text(names), "entries": len(content)}
    for key, value in content.items():
        if isinstance(value, int) and not isinstance(value, bool) and _COUNTERS.search(str(key)):
            facts |= {"counter_name": str(key), "counter": value}
            break
    for inner in (content, *content.values()):
        for state in inner if isinstance(inner, (list, tuple)) and len(inner) <= 8 else (inner,):
            if not isinstance(state, Mapping):
                continue
            groups = state.get("param_groups")
            if isinstance(groups, list) and groups and isinstance(state.get("state"), Mapping) and "lr" not in facts:
                facts |= {
                    "lr": _number(groups[0].get("lr")),
                    "state_step": _largest_step(state["state"].values()),
                    "optimizer_entries": len(state["state"]),
                }
            elif isinstance(state.get("last_epoch"), int):
                facts["last_epoch"] = state["last_epoch"]
    return facts


def _largest_step(states: Iterable[Any]) -> float | None:
    """Largest step counter in optimizer state; None where there is none, or only on a device, where asking would wait."""
    found: list[float] = []
    for state in states:
        step = state.get("step") if isinstance(state, Mapping) else None
        number = _number(step)
        if number is not None:
            found.append(number)
    return max(found, default=None)


def _number(value: Any) -> float | None:
    if isinstance(value, Tensor):
        plain = value.numel() == 1 and value.device.type == "cpu"  # elsewhere asking would wait
        return float(value) if plain else None
    return float(value) if isinstance(value, (int, float)) else None


def _after_method(noted: Callable[[Any], None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            noted(self)
            return result

        return method

    return wrap


def _subclasses(kind: type) -> list[type]:
    return [k for direct in kind.__subclasses__() for k in (direct, *_subclasses(direct))]
