"""Numbers that the script logs anyway: TensorBoard's SummaryWriter (torch's and tensorboardX), wandb and mlflow.

A library is wrapped when the script imports it, and called exactly as before; nothing is imported for this.
"""

import functools
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from .device_statistics import Late, scalar_of
from .patches import Patches
from .session import Session

_MOST_OF_A_CALL = 256
_MOST_BEFORE_TRAINING = 1000
"""Numbers kept while nothing trains yet: a script that never trains has no recording to put them in."""

_DEPTH = 3


class MetricsWatch:
    """Fills table `metrics` from what other libraries are given."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._early = 0

    def install(self, patches: Patches) -> None:
        """Wrap what is imported, now or later."""
        for module in ("torch.utils.tensorboard.writer", "tensorboardX.writer"):
            patches.after_import(module, functools.partial(self._wrap_writer, patches))
        patches.after_import("wandb.sdk.wandb_run", functools.partial(self._wrap_wandb, patches))
        patches.after_import("mlflow", functools.partial(self._wrap_mlflow, patches))

    def _wrap_writer(self, patches: Patches, module: Any) -> None:
        one = self._told("tensorboard", lambda _, tag, value, step=None, *a, **k: ({_text(tag): value}, step))
        many = self._told("tensorboard", lambda _, tag, values, step=None, *a, **k: ({_text(tag): values}, step))
        patches.wrap(module.SummaryWriter, "add_scalar", _then(one, {"scalar_value": "value", "global_step": "step"}))
        patches.wrap(
            module.SummaryWriter,
            "add_scalars",
            _then(many, {"main_tag": "tag", "tag_scalar_dict": "values", "global_step": "step"}),
        )

    def _wrap_wandb(self, patches: Patches, module: Any) -> None:
        told = self._told("wandb", lambda _, data, step=None, *a, **k: (data, step))
        patches.wrap(module.Run, "log", _then(told, {}))

    def _wrap_mlflow(self, patches: Patches, module: Any) -> None:
        one = self._told("mlflow", lambda key, value, step=None, *a, **k: ({_text(key): value}, step))
        many = self._told("mlflow", lambda metrics, step=None, *a, **k: (metrics, step))
        for name, told in (("log_metric", one), ("log_metrics", many)):
            if hasattr(module, name):
                patches.wrap(module, name, _then(told, {}))

    def _told(self, source: str, read: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
        def tell(*args: Any, **kwargs: Any) -> None:
            values, logged_step = read(*args, **kwargs)
            step = logged_step if isinstance(logged_step, numbers.Integral) else None
            self._add(source, values, int(step) if step is not None else None)

        return self.session.guarded("metrics", tell)

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


def _then(
    tell: Callable[..., Any], renamed: Mapping[str, str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Call the original, then tell of its arguments; keywords may have other names there."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            tell(*args, **{renamed.get(k, k): v for k, v in kwargs.items()})
            return result

        return call

    return wrap


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
