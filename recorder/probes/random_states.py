"""The random generators that a script draws from, put back where they were: those of the process and the script's own."""

import random
import sys
from types import FrameType, ModuleType
from typing import Any

import torch

_MOST = 16
_DEPTH = 2
"""How far generators are looked for inside the objects of a frame: a sampler in a loader, a generator in a dataset."""


def random_states(frame: FrameType | None = None) -> dict[str, Any]:
    """States of the generators of torch, Python and, where in use, numpy; with a frame, of those that its code holds too."""
    states: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states["numpy"] = numpy.random.get_state()
    states["own"] = [(generator, _state(generator)) for generator in _generators(frame)]
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Put the generators back."""
    torch.set_rng_state(states["torch"])
    random.setstate(states["python"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])
    for generator, state in states["own"]:
        if isinstance(generator, torch.Generator):
            generator.set_state(state)
        elif isinstance(generator, random.Random):
            generator.setstate(state)
        else:
            generator.bit_generator.state = state


def _state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state


def _generators(frame: FrameType | None) -> list[Any]:
    """Generators among the variables of the script's frames and in the objects that these hold."""
    found: list[Any] = []
    seen: set[int] = set()
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in {"torch", "firstfault"}:
            for names in (frame.f_locals, frame.f_globals):
                for value in list(names.values()):
                    _look_into(value, found, seen, 0)
        frame = frame.f_back
    return found


def _look_into(value: Any, found: list[Any], seen: set[int], depth: int) -> None:
    if len(found) == _MOST or id(value) in seen:
        return
    kind = type(value)
    if isinstance(value, torch.Generator | random.Random) or (
        kind.__module__.startswith("numpy.random") and hasattr(value, "bit_generator")
    ):
        seen.add(id(value))
        found.append(value)
        return
    if isinstance(value, type | ModuleType | torch.nn.Module | torch.Tensor):
        return
    held = getattr(value, "__dict__", None)
    if depth == _DEPTH or not isinstance(held, dict) or callable(value):
        return
    seen.add(id(value))
    for inner in list(held.values()):
        _look_into(inner, found, seen, depth + 1)
