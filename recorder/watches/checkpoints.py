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
from ..loop.lr_schedulers import subclasses
from ..loop.optimizers import OptimizerWatch
from ..script.frames import caller
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .loaded_weights import Before, NotYetUsed, TakenStates

_MOST_KEYS = 32
_LONGEST_CALL = 120
_MOST_ROWS = 2000
"""Rows of one process; a script that saves something at every step of a long run needs no more of them."""

_MOST_MOVED = 4
"""Files of which a move is followed: each is moved right after it is written."""

_COUNTERS = re.compile(
    r"(global_?)?(step|iter(ation)?|update|batch)(s|_?(num|no|idx|count|number))?$|^(it|i)$", re.IGNORECASE
)
"""Names under which scripts save how many steps they have made."""

_EPOCHS = re.compile(r"(cur(rent)?_?|start_?)?epoch(_?(num|no|idx|index|count|number))?", re.IGNORECASE)
"""Names under which they save an epoch; `epochs` is mostly how many there are to be, `last_epoch` a scheduler's."""


_AFTER_A_RESUME = 6
"""Steps of full detail after state was put into an optimizer: three batches in a row tell an order."""


class CheckpointWatch(Watch):
    """Writes table `checkpoints`, and events for people to read."""

    name = "checkpoints"
    writes = (
        "checkpoints",
        "events:checkpoint-saved",
        "events:checkpoint-loaded",
        "events:resume",
        "events:weights-loaded",
    )

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        super().__init__(session)
        self.optimizers = optimizers
        self._rows_left = _MOST_ROWS
        self._taken = TakenStates()
        self._not_yet_used = NotYetUsed()
        self._captures = os.fspath(session.run / CAPTURES) + os.sep
        self._written: dict[str, Row] = {}
        """Files that were written last, by absolute path: one that is written beside is put in place by a move."""

    def listen(self, signals: Signals) -> None:
        """Weights are used from the first step on."""
        signals.step_begins.connect(self.name, self._not_yet_used.used)

    def install(self, patches: Patches) -> None:
        """Wrap torch.save and torch.load, safetensors where it is in use, and every load_state_dict."""
        self._wrap_file(patches, torch.serialization, "save", self._saved, also=[torch])
        self._wrap_file(patches, torch.serialization, "load", self._read, also=[torch])
        patches.after_import("safetensors.torch", functools.partial(self._safetensors, patches))
        moved = self.guarded(self._moved)
        for name in ("rename", "replace"):
            patches.around(os, name, after=lambda _note, _result, *args, **kwargs: moved(args, kwargs))
        guarded = self.guarded
        patches.around(torch.optim.Optimizer, "load_state_dict", before=guarded(_rates), after=guarded(self._optimizer))
        patches.around(nn.Module, "load_state_dict", before=guarded(_before), after=guarded(self._weights))
        taken = guarded(self._state_taken)

        def after(_note: None, state: Any, _module: Any, *args: Any, **kwargs: Any) -> None:
            if not args and kwargs.get("destination") is None:  # not asked by the module around it
                taken(state)

        patches.around(nn.Module, "state_dict", after=after)
        loaded = guarded(self._scheduler)
        for kind in dict.fromkeys([lr_scheduler.LRScheduler, *subclasses(lr_scheduler.LRScheduler)]):
            if "load_state_dict" in vars(kind):
                patches.around(kind, "load_state_dict", after=loaded)

    # -- files ------------------------------------------------------------------------------------------------------------

    def _wrap_file(
        self,
        patches: Patches,
        owner: Any,
        name: str,
        action: Callable[[tuple[Any, ...], dict[str, Any], Any, int], None],
        also: Iterable[Any] = (),
    ) -> None:
        noted = self.guarded(action)

        def after(began: int, result: Any, *args: Any, **kwargs: Any) -> None:
            noted(args, kwargs, result, perf_counter_ns() - began)

        patches.around(owner, name, before=lambda *_, **__: perf_counter_ns(), after=after, also=also)

    def _safetensors(self, patches: Patches, module: Any) -> None:
        def read(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, took: int) -> None:
            self._file("read", args[0] if args else kwargs.get("filename"), result, took)

        def saved(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any, took: int) -> None:
            given = args[0] if args else kwargs.get("tensors")
            self._file("saved", args[1] if len(args) > 1 else kwargs.get("filename"), given, took)

        self._wrap_file(patches, module, "save_file", saved)
        self._wrap_file(patches, module, "load_file", read)

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
        if path is not None and action == "saved":
            while len(self._written) >= _MOST_MOVED:
                del self._written[next(iter(self._written))]
            self._written[os.path.abspath(path)] = row  # noqa: PTH100 — as the script spells it, links and all
        word = "written" if action == "saved" else "read"
        self.session.rows.event(
            f"checkpoint-{'saved' if action == 'saved' else 'loaded'}",
            f"{path or 'a checkpoint'} was {word}",
            detail={
                k: v
                for k, v in row.items()
                if k in {"path", "bytes", "keys", "counter", "epoch", "state_step"} and v is not None
            },
        )

    def _moved(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The path of a file is where it comes to lie: who reads it looks for it there."""
        source, target = (*args, kwargs.get("src"), kwargs.get("dst"))[:2]
        if not isinstance(source, str | os.PathLike) or not isinstance(target, str | os.PathLike):
            return
        row = self._written.pop(os.path.abspath(os.fspath(source)), None)  # noqa: PTH100 — as above
        if row is not None:
            row["path"] = self.session.secrets.text(os.fspath(target))
            self._written[os.path.abspath(os.fspath(target))] = row  # noqa: PTH100 — as above

    # -- state ------------------------------------------------------------------------------------------------------------

    def _state_taken(self, state: Any) -> None:
        self._taken.note(state, self.session.position.step)

    def _optimizer(
        self, before: list[Any] | None, _result: Any, optimizer: torch.optim.Optimizer, *_: Any, **__: Any
    ) -> None:
        position = self.session.position
        if position.step > self.session.attempt.first_step:  # what comes next tells whether it goes on where it stood
            self.session.budget.full_detail_from(position.step, _AFTER_A_RESUME, "resume")
        counter = _largest_step(optimizer.state.values())
        row = self._add(
            "optimizer",
            content=type(optimizer).__name__,
            optimizer_id=self.optimizers.tracked(optimizer).id,
            state_step=counter,
            lr=_number(optimizer.param_groups[0].get("lr")) if optimizer.param_groups else None,
            lr_before=_number(before[0]) if before else None,
            entries=len(optimizer.state),
        )
        self.session.rows.event(
            "resume",
            f"state of {len(optimizer.state)} weights was put into {type(optimizer).__name__}"
            + (f", step counter {counter:g}" if counter is not None else ""),
            detail={"what": "optimizer", "optimizer_id": row["optimizer_id"], "state_step": counter, "lr": row["lr"]},
        )

    def _scheduler(self, _note: Any, _result: Any, scheduler: Any, *_: Any, **__: Any) -> None:
        last = getattr(scheduler, "last_epoch", None)
        self._add("scheduler", content=type(scheduler).__name__, last_epoch=last if isinstance(last, int) else None)
        self.session.rows.event(
            "resume",
            f"state was put into {type(scheduler).__name__}, counter {last}",
            detail={"what": "scheduler", "last_epoch": last if isinstance(last, int) else None},
        )

    def _weights(self, before: Before | None, result: Any, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        state = _state_of(*args, **kwargs)
        assigned = bool(kwargs.get("assign") or (len(args) > 2 and args[2]))
        missing = len(getattr(result, "missing_keys", ()))
        catalogue = self.session.catalogue
        entry = catalogue.by_object.get(id(module))
        known = entry is not None and entry.ref() is module
        outermost = catalogue.outermost(module) is module
        row = self._add(
            "weights",
            content=type(module).__name__,
            module_id=entry.id if known and entry is not None else None,
            entries=len(state) if isinstance(state, Mapping) else None,
            whole=outermost and not missing,
            taken_step=self._taken.step_of(state),
            assigned=assigned,
            call=_call() if before is not None and before.shared else None,
            **(before.facts(module, result) if before is not None else {}),
        )
        if before is not None:
            self._not_yet_used.note(module, before, row)
        self.session.rows.event(
            "weights-loaded",
            f"weights were put into {'' if outermost else 'a part, '}{type(module).__name__}"
            + (f", {missing} keys were missing" if missing else ""),
            module_id=entry.id if known and entry is not None else None,
        )

    def _add(self, action: str, **columns: Any) -> Row:
        if self._rows_left <= 0:
            return {"optimizer_id": None, "lr": None}
        self._rows_left -= 1
        return self.session.rows.add(
            "checkpoints", action=action, step=self.session.position.step, time_ns=time_ns(), **columns
        )


def _rates(optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> list[Any]:
    return [group.get("lr") for group in optimizer.param_groups]


def _before(module: nn.Module, *args: Any, **kwargs: Any) -> Before:
    return Before(module, _state_of(*args, **kwargs))


def _state_of(*args: Any, **kwargs: Any) -> Any:
    """What load_state_dict was given."""
    return args[0] if args else kwargs.get("state_dict")


def _facts_of(content: Any) -> Row:
    """What can be seen of a checkpoint from its top."""
    if not isinstance(content, Mapping):
        return {}
    names = [str(key) for key in list(content)[:_MOST_KEYS]]
    facts: Row = {"keys": json_text(names), "entries": len(content)}
    for key, value in content.items():
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if "counter" not in facts and _COUNTERS.search(str(key)):
            facts |= {"counter_name": str(key), "counter": value}
        elif "epoch" not in facts and _EPOCHS.fullmatch(str(key)):
            facts |= {"epoch_name": str(key), "epoch": value}
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


def _call() -> str | None:
    """The call of the script's that is running, as it is written."""
    place = caller()
    text = None if place is None else place.words()[1]
    return None if text is None else text[:_LONGEST_CALL]
