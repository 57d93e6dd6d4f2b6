"""Checkpoints that a script believes it has written while trials run: these weights are nobody's."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..session.patches import Patches


class UnwrittenCheckpoints:
    """Leaves the user's files alone. Many scripts write a checkpoint beside and put it in place: both do nothing."""

    def __init__(self) -> None:
        self._paths = set[Path]()

    def install(self, patches: Patches) -> None:
        """Let ``torch.save`` to a path, and moves of what it would have written, do nothing."""
        patches.wrap(torch.serialization, "save", self._wrap_save)
        patches.put(torch, "save", torch.serialization.save)
        for name in ("replace", "rename"):
            patches.wrap(os, name, self._wrap_move)

    def _wrap_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(f, str | os.PathLike):
                self._paths.add(Path(f).absolute())
                return None
            return original(obj, f, *args, **kwargs)

        return save

    def _wrap_move(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def move(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(src, str | os.PathLike) and Path(src).absolute() in self._paths:
                self._paths.add(Path(dst).absolute())
                return None
            return original(src, dst, *args, **kwargs)

        return move
