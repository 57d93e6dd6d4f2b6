"""Learning rate schedulers: when the script steps them, and what they set."""

import functools
import weakref
from typing import Any

import torch
from torch.optim import lr_scheduler

from ...schemas.files.json_text import json_text
from ..script.frames import caller
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Part
from .optimizers import OptimizerWatch
from .schedule_lengths import planned_steps

_PLAIN = (bool, int, float, str)
_LONGEST = 64
"""Letters of a setting."""


class _Known:
    """A scheduler of the script."""

    __slots__ = (
        "before_optimizer",
        "given",
        "id",
        "name",
        "optimizer",
        "optimizer_id",
        "ref",
        "settings",
        "since",
        "total",
    )

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
        self.given: str | None = None
        """The call that hands over a metric, as the script has it written."""


class ScheduleWatch(Part):
    """Writes table `schedulers`."""

    name = "schedulers"
    writes = ("schedulers", "steps.scheduler_steps")

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        super().__init__(session)
        self.optimizers = optimizers
        self._wrapped: set[type] = set()
        """Classes whose own step is wrapped."""
        self._known: dict[int, _Known] = {}
        self._count = 0
        self._depth = 0

    def alive(self) -> list[Any]:
        """Schedulers that the script steps itself, in the order in which they were made."""
        known = sorted(self._known.values(), key=lambda k: k.id)
        return [s for k in known if (s := k.ref()) is not None]

    def listen(self, signals: Signals) -> None:
        """Write what was stepped in each row of `steps`, and at the end."""
        signals.row_ends.connect(self.name, self._write_schedules)
        signals.recording_ends.connect(self.name, self._write_schedules)

    def install(self, patches: Patches) -> None:
        """Wrap __init__ and step of every scheduler class, those defined later by the script too.

        A class with a step of its own is wrapped when its first instance is made: only then is it known.
        """
        found = self.guarded(functools.partial(self._track_scheduler, patches))
        patches.later(self._wrapped.clear)
        for kind in dict.fromkeys([lr_scheduler.LRScheduler, *subclasses(lr_scheduler.LRScheduler)]):
            if "__init__" in vars(kind):
                patches.around(kind, "__init__", before=self._enter, after=found, lastly=self._leave)
            if "step" in vars(kind):
                self._wrap_step(kind, patches)

    def _wrap_step(self, kind: type, patches: Patches) -> None:
        stepped, judged = self.guarded(self._stepped), self.guarded(self._judged)

        def begins(scheduler: Any, *_: Any, **__: Any) -> None:
            stepped(scheduler)
            self._enter()

        def after(_note: None, _result: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
                judged(scheduler, *args, **kwargs)

        patches.around(kind, "step", before=begins, after=after, lastly=self._leave)
        self._wrapped.add(kind)

    def _enter(self, *_: Any, **__: Any) -> None:
        self._depth += 1

    def _leave(self, *_: Any) -> None:
        self._depth -= 1

    def _track_scheduler(
        self, patches: Patches, _note: None, _result: None, scheduler: Any, *_: Any, **__: Any
    ) -> None:
        if self._depth:
            return  # its own constructor, or a scheduler that a scheduler makes
        kind = type(scheduler)
        for base in kind.__mro__:
            if "step" in vars(base) and base not in self._wrapped:
                self._wrap_step(base, patches)
        for inner in getattr(scheduler, "_schedulers", ()):  # SequentialLR and ChainedScheduler step these themselves
            self._known.pop(id(inner), None)
        optimizer = getattr(scheduler, "optimizer", None)
        if isinstance(optimizer, torch.optim.Optimizer):
            self._known[id(scheduler)] = _Known(self._count, scheduler, optimizer)
            self._count += 1

    def _stepped(self, scheduler: Any) -> None:
        if self._depth:
            return  # stepped by its own constructor or by the scheduler around it
        known = self._known.get(id(scheduler))
        if known is None or known.ref() is not scheduler:
            return
        if self.session.position.unwatched:
            known.total += 1
            return
        self.session.step_row.log_call("l")
        facts = self.session.step_row.facts
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
        if known.given is None:
            place = caller()
            known.given = (place.words()[1] or "")[:_LONGEST] if place is not None else ""
        # reading it waits for nothing: the scheduler itself has just read it
        given = {"metric": None if metrics is None else float(metrics), "given": known.given}
        known.settings = _settings(scheduler, **given)

    def _write_schedules(self) -> None:
        for key, known in list(self._known.items()):
            scheduler, optimizer = known.ref(), known.optimizer()
            if optimizer is not None:
                known.optimizer_id = self.optimizers.tracked(optimizer).id
            if scheduler is None or optimizer is None:
                del self._known[key]
                if known.since == 0 or known.optimizer_id is None:
                    continue  # what it did before it went, at the end of its function, still counts
            groups = optimizer.param_groups if optimizer is not None else None
            lr = groups[0].get("lr") if groups else None
            last = getattr(scheduler, "last_epoch", None)
            self.session.rows.add(
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
    found = vars(scheduler) | planned_steps(scheduler) | more
    values = {k: v for k, v in found.items() if not k.startswith("_") and isinstance(v, _PLAIN)}
    return json_text({k: v for k, v in values.items() if not isinstance(v, str) or len(v) <= _LONGEST})


def subclasses(kind: type) -> list[type]:
    """All classes that are made from a class."""
    return [k for direct in kind.__subclasses__() for k in (direct, *subclasses(direct))]
