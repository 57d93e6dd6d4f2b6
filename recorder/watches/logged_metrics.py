"""Numbers that the script logs anyway: TensorBoard's SummaryWriter (torch's and tensorboardX), wandb and mlflow.

A library is wrapped when the script imports it, and called exactly as before; nothing is imported for this.
"""

import functools
import numbers
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch
from ..tensors.device import Late, scalar_of

_MOST_OF_A_CALL = 256
_MOST_BEFORE_TRAINING = 1000
"""Numbers kept while nothing trains yet: a script that never trains has no recording to put them in."""

_DEPTH = 3


class MetricsWatch(Watch):
    """Fills table `metrics` from what other libraries are given."""

    name = "metrics"
    writes = ("metrics:tensorboard", "metrics:wandb", "metrics:mlflow")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._early = 0
        self._inside = False

    def install(self, patches: Patches) -> None:
        """Wrap what is imported, now or later."""
        for module in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
            patches.after_import(module, functools.partial(self._wrap_writer, patches))
        patches.after_import("wandb.sdk.wandb_run", functools.partial(self._wrap_wandb, patches))
        patches.after_import("mlflow", functools.partial(self._wrap_mlflow, patches))

    def _wrap_writer(self, patches: Patches, module: Any) -> None:
        self._tell(
            patches, module.SummaryWriter, "add_scalar", "tensorboard", ("", "tag", "scalar_value", "global_step")
        )
        names = ("", "main_tag", "tag_scalar_dict", "global_step")
        self._tell(patches, module.SummaryWriter, "add_scalars", "tensorboard", names)

    def _wrap_wandb(self, patches: Patches, module: Any) -> None:
        self._tell(patches, module.Run, "log", "wandb", ("", "data", "step"))

    def _wrap_mlflow(self, patches: Patches, module: Any) -> None:
        for name, places in (("log_metric", ("key", "value", "step")), ("log_metrics", ("metrics", "step"))):
            if hasattr(module, name):
                self._tell(patches, module, name, "mlflow", places)

    def _tell(self, patches: Patches, owner: Any, name: str, source: str, places: tuple[str, ...]) -> None:
        """Note the arguments of calls that have returned. ``places`` are their names in order: the step last, before it the
        numbers, before them their name where they have one in common."""
        *_, numbers_, step_ = places
        name_ = places[-3] if len(places) > 2 else ""

        def note(outermost: bool, _result: Any, *args: Any, **kwargs: Any) -> None:
            if not outermost:  # a library's own call, of which the script's is noted
                return
            given = dict(zip(places, args, strict=False)) | kwargs
            values, step = given.get(numbers_), given.get(step_)
            if name_:
                values = {given.get(name_): values}
            self._add(source, values, int(step) if isinstance(step, numbers.Integral) else None)

        patches.around(owner, name, before=self._begins, after=self.guarded(note), lastly=self._ends)

    def _begins(self, *_: Any, **__: Any) -> bool:
        """Whether this is the script's call."""
        inside, self._inside = self._inside, True
        return not inside

    def _ends(self, outermost: bool, _returned: bool) -> None:
        if outermost:
            self._inside = False

    def _add(self, source: str, values: Any, logged_step: int | None) -> None:
        session = self.session
        if not session.started:
            self._early += 1
            if self._early > _MOST_BEFORE_TRAINING:
                return
        # between two steps a number speaks of the step that has just ended
        begun = session.position.pending or "f" in session.step_row.calls
        step = session.position.step if begun else max(session.position.step - 1, 0)
        for count, (name, value) in enumerate(_flat(values, "", 0)):
            if count == _MOST_OF_A_CALL:
                return
            session.rows.metric(name, value, step, source, logged_step)


def _text(name: Any) -> str:
    return str(name)[:200]


def _flat(values: Any, prefix: str, depth: int) -> Iterator[tuple[str, "float | Late"]]:
    """Named numbers in a mapping of any nesting; what is no number (pictures, tables, texts) is passed by."""
    if not isinstance(values, Mapping) or depth == _DEPTH:
        return
    for key, value in list(values.items()):
        name = f"{prefix}/{_text(key)}" if prefix else _text(key)
        if isinstance(value, Mapping):
            yield from _flat(value, name, depth + 1)
        elif (number := _number(value)) is not None:
            yield name, number


def _number(value: Any) -> "float | Late | None":
    if isinstance(value, Tensor):
        return scalar_of(value.detach()) if value.numel() == 1 and not value.is_complex() else None
    if isinstance(value, numbers.Real):
        return float(value)
    if getattr(value, "size", None) == 1 and hasattr(value, "dtype") and hasattr(value, "item"):  # numpy, without numpy
        item = value.item()
        return float(item) if isinstance(item, (int, float)) else None
    return None
