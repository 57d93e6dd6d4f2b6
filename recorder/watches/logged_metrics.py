"""Numbers that the script logs anyway: TensorBoard's SummaryWriter (torch's and tensorboardX), wandb and mlflow.

A library is wrapped when the script imports it, and called exactly as before; nothing is imported for this.
"""

import functools
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from ..session.patches import Patches
from ..session.session import Session
from ..tensors.device import Late, scalar_of

_MOST_OF_A_CALL = 256
_MOST_BEFORE_TRAINING = 1000
"""Numbers kept while nothing trains yet: a script that never trains has no recording to put them in."""

_DEPTH = 3


class MetricsWatch:
    """Fills table `metrics` from what other libraries are given."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._early = 0
        self._inside = False

    def install(self, patches: Patches) -> None:
        """Wrap what is imported, now or later."""
        for module in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
            patches.after_import(module, functools.partial(self._wrap_writer, patches))
        patches.after_import("wandb.sdk.wandb_run", functools.partial(self._wrap_wandb, patches))
        patches.after_import("mlflow", functools.partial(self._wrap_mlflow, patches))

    def _wrap_writer(self, patches: Patches, module: Any) -> None:
        one = self._wrapper("tensorboard", ("", "tag", "scalar_value", "global_step"))
        many = self._wrapper("tensorboard", ("", "main_tag", "tag_scalar_dict", "global_step"))
        patches.wrap(module.SummaryWriter, "add_scalar", one)
        patches.wrap(module.SummaryWriter, "add_scalars", many)

    def _wrap_wandb(self, patches: Patches, module: Any) -> None:
        patches.wrap(module.Run, "log", self._wrapper("wandb", ("", "data", "step")))

    def _wrap_mlflow(self, patches: Patches, module: Any) -> None:
        for name, places in (("log_metric", ("key", "value", "step")), ("log_metrics", ("metrics", "step"))):
            if hasattr(module, name):
                patches.wrap(module, name, self._wrapper("mlflow", places))

    def _wrapper(self, source: str, places: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Calls the original, then notes what it was given. ``places`` are the names of its arguments in order: the step
        last, before it the numbers, before them their name where they have one in common."""
        *_, numbers_, step_ = places
        name_ = places[-3] if len(places) > 2 else ""

        def note(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = dict(zip(places, args, strict=False)) | kwargs
            values, step = given.get(numbers_), given.get(step_)
            if name_:
                values = {given.get(name_): values}
            self._add(source, values, int(step) if isinstance(step, numbers.Integral) else None)

        noted = self.session.guarded("metrics", note)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if self._inside:  # a library's own call, of which the script's has been noted
                    return original(*args, **kwargs)
                self._inside = True
                try:
                    result = original(*args, **kwargs)
                finally:
                    self._inside = False
                noted(args, kwargs)
                return result

            return call

        return wrap

    def _add(self, source: str, values: Any, logged_step: int | None) -> None:
        session = self.session
        if not session.started:
            self._early += 1
            if self._early > _MOST_BEFORE_TRAINING:
                return
        # between two steps a number speaks of the step that has just ended
        begun = session.pending or "f" in session.calls
        step = session.step if begun else max(session.step - 1, 0)
        for count, (name, value) in enumerate(_flat(values, "", 0)):
            if count == _MOST_OF_A_CALL:
                return
            session.metric(name, value, step, source, logged_step)


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
