"""How long a schedule and its warm-up are meant to be, in steps, as far as the scheduler or its function says so by name."""

import functools
import re
from argparse import Namespace
from collections.abc import Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

_WARM_UP = re.compile(r"warm", re.IGNORECASE)
_NOT_A_LENGTH = re.compile(r"epoch|lr|rate|factor|ratio|start|init|frac|pct|prop|power|type", re.IGNORECASE)
_WHOLE = re.compile(r"(total|max|num|train|decay|t_)\w*(step|iter)", re.IGNORECASE)
_MOST_NAMES = 64


def planned_steps(scheduler: Any) -> dict[str, int]:
    """``warmup`` and ``planned``, where they are told. A length in epochs is none."""
    found: dict[str, int] = {}
    for name, value in _named(scheduler):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1 or _NOT_A_LENGTH.search(name):
            continue
        kind = "warmup" if _WARM_UP.search(name) else "planned" if _WHOLE.search(name) else None
        if kind is not None:
            found.setdefault(kind, value)
    if (warm_up := _first_part(scheduler)) is not None:
        found.setdefault("warmup", warm_up)
    return found


def _first_part(scheduler: Any) -> int | None:
    """Steps of a part that raises the rate, before others or alone."""
    begin, end = getattr(scheduler, "start_factor", None), getattr(scheduler, "end_factor", None)
    if begin is not None and end is not None:
        return scheduler.total_iters if begin < end else None
    inner, milestones = getattr(scheduler, "_schedulers", ()), getattr(scheduler, "_milestones", ())
    if inner and milestones and (planned_steps(inner[0]).get("warmup") or getattr(inner[0], "factor", 1) < 1):
        return milestones[0]
    return None


def _named(scheduler: Any) -> Iterator[tuple[str, Any]]:
    """Names and values that a scheduler has itself, or that its functions of the step take from around them."""
    if not type(scheduler).__module__.startswith("torch."):  # torch's own count whatever they are stepped by
        yield from ((name, value) for name, value in vars(scheduler).items() if not name.startswith("_"))
    for function in getattr(scheduler, "lr_lambdas", ()):
        yield from _read_by(function)


def _read_by(function: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(function, functools.partial):
        yield from function.keywords.items()
        function = function.func
    if not isinstance(function, FunctionType):
        return
    code = function.__code__
    around: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            around[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    around |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    defaults = function.__defaults__ or ()
    around |= dict(zip(code.co_varnames[: code.co_argcount][-len(defaults) :], defaults, strict=False))
    for name, value in list(around.items())[:_MOST_NAMES]:
        yield name, value
        held = vars(value) if isinstance(value, (Namespace, SimpleNamespace)) else value
        if isinstance(held, dict):
            yield from ((n, held[n]) for n in (*code.co_names, *filter(_text, code.co_consts)) if n in held)


def _text(value: object) -> bool:
    return isinstance(value, str)
