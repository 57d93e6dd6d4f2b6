"""What the script calls its models and tensors: global variables, and places in global lists and dictionaries.

Local variables are left alone: reading ``frame.f_locals`` keeps all of a function's values alive until it returns, and fills the
dictionary that an earlier ``locals()`` gave to the script.
"""

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from ..base.identity_map import IdentityMap
from .frames import is_ours, is_users


def global_name_of(root: nn.Module, called: nn.Module) -> str | None:
    """Name of the global variable that holds the model, in the modules on the call stack."""
    frame: FrameType | None = sys._getframe(1)
    torch_folder = torch.__path__[0]
    seen: set[int] = set()
    while frame is not None:
        if (
            not frame.f_code.co_filename.startswith(torch_folder)
            and not is_ours(frame.f_code.co_filename)
            and id(frame.f_globals) not in seen
        ):
            seen.add(id(frame.f_globals))
            for name, value in list(frame.f_globals.items()):
                if (value is root or value is called) and not name.startswith("_"):
                    return name
        frame = frame.f_back
    return None


class TensorNames:
    """Names of tensors, from the modules on the call stack."""

    def __init__(self) -> None:
        self._names: IdentityMap[Tensor, str] = IdentityMap()
        frame: FrameType | None = sys._getframe(1)
        seen: set[int] = set()
        while frame is not None:
            if id(frame.f_globals) not in seen and is_users(frame.f_code.co_filename):
                seen.add(id(frame.f_globals))
                variables = list(frame.f_globals.items())
                # the variable that came first, not that of a loop; only then a place in a list
                for name, value in variables:
                    if isinstance(value, Tensor):
                        self._add(value, name)
                for name, value in variables:
                    self._add_items(name, value)
            frame = frame.f_back

    def of(self, tensor: Tensor) -> str | None:
        """The name of a tensor; None where no global variable leads to it."""
        return self._names.get(tensor)

    def _add(self, tensor: Tensor, name: str) -> None:
        if tensor not in self._names:
            self._names[tensor] = name

    def _add_items(self, name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, tensor in list(value.items()):
                if isinstance(tensor, Tensor):
                    self._add(tensor, key if isinstance(key, str) else f"{name}[{key}]")
        elif isinstance(value, (list, tuple)):
            for i, tensor in enumerate(value):
                if isinstance(tensor, Tensor):
                    self._add(tensor, f"{name}[{i}]")
