"""Learning rate schedulers: when the script steps them, and what they set."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import lr_scheduler

from ...schemas.files.json_text import json_text
from ..session.patches import Patches
from ..session.session import Session
from .optimizers import OptimizerWatch

_WRAPPED = "__firstfault__"
_PLAIN = (bool, int, float, str)


class _Known:
    """A scheduler of the script."""

    __slots__ = ("before_optimizer", "id", "name", "optimizer", "optimizer_id", "ref", "settings", "since", "total")

    def __init__(self, id_: int, scheduler: Any, optimizer: Any) -> None:
        self.id = id_
        self.ref = weakref.ref(scheduler)
        self.optimizer = weakref.ref(optimizer)
        self.optimizer_id: int | None = None
        self.name = type(scheduler).__name__
        self.settings = _settings(scheduler)
        self.since = 0
        self.total = 0
        self.before_optimizer = False


class ScheduleWatch:
    """Writes table `schedulers`."""

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        self.session = session
        self.optimizers = optimizers
        self._known: dict[int, _Known] = {}
        self._count = 0
        self._depth = 0
        session.at_finish.append(("schedulers", self._rows))
        session.at_close.append(session.guarded("schedulers", self._rows))

    def install(self, patches: Patches) -> None:
        """Wrap __init__ and step of every scheduler class, those defined later by the script too.

        A class with a step of its own is wrapped when its first instance is made: only then is it known.
        """
        found = self.session.guarded("schedulers", self._found)
        enter, leave = self._enter, self._leave

        def wrap_init(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def init(self: Any, *args: Any, **kwargs: Any) -> None:
                enter()
                try:
                    original(self, *args, **kwargs)
                finally:
                    leave()
                found(self, patches)

            return init

        bases = [lr_scheduler.LRScheduler, *_subclasses(lr_scheduler.LRScheduler)]
        for kind in dict.fromkeys(bases):
            if "__init__" in vars(kind):
                patches.wrap(kind, "__init__", wrap_init)
            if "step" in vars(kind):
                self._wrap_step(kind, patches)

    def _wrap_step(self, kind: type, patches: Patches) -> None:
        stepped = self.session.guarded("schedulers", self._stepped)
        judged = self.session.guarded("schedulers", self._judged)
        enter, leave = self._enter, self._leave

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def step(self: Any, *args: Any, **kwargs: Any) -> Any:
                stepped(self)
                enter()
                try:
                    result = original(self, *args, **kwargs)
                finally:
                    leave()
                if isinstance(self, lr_scheduler.ReduceLROnPlateau):
                    judged(self, *args, **kwargs)
                return result

            step.__dict__[_WRAPPED] = True
            return step

        patches.wrap(kind, "step", wrap)

    def _enter(self) -> None:
        self._depth += 1

    def _leave(self) -> None:
        self._depth -= 1

    def _found(self, scheduler: Any, patches: Patches) -> None:
        if self._depth:
            return  # its own constructor, or a scheduler that a scheduler makes
        kind = type(scheduler)
        for base in kind.__mro__:
            own = vars(base).get("step")
            if own is not None and _WRAPPED not in vars(own) and base is not object:
                self._wrap_step(base, patches)
        for inner in getattr(scheduler, "_schedulers", ()):  # SequentialLR and ChainedScheduler step these themselves
            self._known.pop(id(inner), None)
        optimizer = getattr(scheduler, "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer):
            self._known[id(scheduler)] = _Known(self._count, scheduler, optimizer)
            self._count += 1

    def _stepped(self, scheduler: Any) -> None:
        if self._depth:
            return  # stepped by its own constructor or by the scheduler round it
        known = self._known.get(id(scheduler))
        if known is None or known.ref() is not scheduler:
            return
        if self.session.unwatched:
            known.total += 1
            return
        self.session.called("l")
        facts = self.session.facts
        facts["scheduler_steps"] = facts.get("scheduler_steps", 0) + 1
        optimizer = known.optimizer()
        if known.total == 0 and optimizer is not None and self.optimizers.steps_of(optimizer) == 0:
            known.before_optimizer = True
        known.since += 1
        known.total += 1

    def _judged(self, scheduler: Any, metrics: Any = None, *_: Any, **__: Any) -> None:
        """A scheduler on a metric: what it was given, and what it makes of it, from here on."""
        known = self._known.get(id(scheduler))
        if known is None or known.ref() is not scheduler or self._depth:
            return
        # reading it waits for nothing: the scheduler itself has just read it
        known.settings = _settings(scheduler, metric=None if metrics is None else float(metrics))

    def _rows(self) -> None:
        for key, known in list(self._known.items()):
            scheduler, optimizer = known.ref(), known.optimizer()
            if optimizer is not None:
                known.optimizer_id = self.optimizers.record_of(optimizer).id
            if scheduler is None or optimizer is None:
                del self._known[key]
                if known.since == 0 or known.optimizer_id is None:
                    continue  # what it did before it went, at the end of its function, still counts
            groups = optimizer.param_groups if optimizer is not None else None
            lr = groups[0].get("lr") if groups else None
            last = getattr(scheduler, "last_epoch", None)
            self.session.add(
                "schedulers",
                scheduler_id=known.id,
                optimizer_id=known.optimizer_id,
                scheduler=known.name,
                steps=known.since,
                total_steps=known.total,
                last_epoch=last if isinstance(last, int) else None,
                before_optimizer=known.before_optimizer,
                lr=float(lr) if isinstance(lr, (int, float)) else None,
                settings=known.settings,
            )
            known.since = 0


def _settings(scheduler: Any, **more: Any) -> str:
    values = {k: v for k, v in (vars(scheduler) | more).items() if not k.startswith("_") and isinstance(v, _PLAIN)}
    return json_text({k: v for k, v in values.items() if not isinstance(v, str) or len(v) <= 64})


def _subclasses(kind: type) -> list[type]:
    return [k for direct in kind.__subclasses__() for k in (direct, *_subclasses(direct))]
