"""Describes a captured call so that another process can make it again: the module without its constructor, its arguments.

What a module is made of is read from its attributes; nothing of it is run. What cannot be described (a lambda, an open file)
is named in the plan's ``lost``.
"""

import enum
import math
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Mapping
from pathlib import Path
from traceback import walk_tb
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ...schemas.files.call_recipe import CallPlan, ModulePart, TensorPlan
from ...schemas.files.secrets import Redactor
from ..script.frames import is_installed, is_ours
from .folder import CaptureFolder
from .weak_calls import HeldCall

_DEEPEST = 8
_MOST_VALUES = 20_000
_MOST_TENSORS = 16 * 1024 * 1024
_MOST_PRINTED = 4_000
_WAYS = ("__new__", "__reduce__", "__reduce_ex__", "__getstate__")
"""An object whose class has one of these of its own is more than its attributes."""

_OWN = {*vars(nn.Module())}
"""Attributes that nn.Module itself makes."""


class _CannotError(Exception):
    """A value that the plan has no words for."""


def save_module_plan(
    folder: CaptureFolder,
    secrets: Redactor,
    module: nn.Module,
    args: Any,
    kwargs: Any,
    rng: Tensor | None,
    call: HeldCall | None,
) -> None:
    """The plan of a module's call whose arguments lie in module.pt. ``rng``: torch's generator when it began, if known;
    ``call``: the call of the model that it was part of."""
    planner = Planner()
    try:
        plan = planner.module_call(module, args, kwargs, "module.pt")
    except Exception as e:  # noqa: BLE001 # attributes of the script's own classes are looked at; the capture goes before
        folder.meta.missing.append(f"plan: {e}")
        return
    if rng is not None:
        folder.save("module_random.pt", "state of torch's generator when that module was called", {"cpu": rng})
        plan.random = True
    if planner.tensors:
        what = "tensors of that module beyond its state_dict"
        folder.save("module_tensors.pt", what, planner.tensors, most=_MOST_TENSORS)
    if call is not None:
        plan.autocast = [(device, str(dtype).removeprefix("torch.")) for device, on, dtype in call.autocast if on]
    folder.save_plan(without_secrets(plan, secrets))


def save_function_plan(
    folder: CaptureFolder, secrets: Redactor, function: FunctionType, kwargs: dict[str, Any]
) -> None:
    """The plan of a function's call, with its arguments in call.pt."""
    try:
        plan = Planner().function_call(function, kwargs, "call.pt")
    except Exception as e:  # noqa: BLE001 # as above
        folder.meta.missing.append(f"plan: {e}")
        return
    folder.save("call.pt", f"arguments of {plan.function[1] if plan.function else 'a function'}", {"kwargs": kwargs})
    folder.save_plan(without_secrets(plan, secrets))


def without_secrets(plan: CallPlan, secrets: Redactor) -> CallPlan:
    """The plan with the secrets in its texts hidden: attributes and arguments go by their names too."""
    plan.args = [_hidden(value, secrets) for value in plan.args]
    plan.kwargs = [(name, _hidden(value, secrets, name)) for name, value in plan.kwargs]
    plan.printed = secrets.text(plan.printed)
    plan.lost = [secrets.text(what) for what in plan.lost]
    parts = [plan.root] if plan.root is not None else []
    while parts:
        part = parts.pop()
        part.attributes = [(name, _hidden(value, secrets, name)) for name, value in part.attributes]
        parts += [child for child in part.children.values() if child is not None]
    return plan


def _hidden(value: Any, secrets: Redactor, name: str = "") -> Any:
    if isinstance(value, str):
        return secrets.value(value, name)
    if not isinstance(value, dict):
        return value
    made = dict(value)
    for key in made.keys() & {"dict", "state"}:
        made[key] = [[_hidden(k, secrets), _hidden(v, secrets, str(k))] for k, v in made[key]]
    for key in made.keys() & {"list", "tuple", "set", "items"}:
        made[key] = [_hidden(v, secrets, name) for v in made[key]]
    return made


class Planner:
    """Describes one call; ``tensors`` collects those of the module that its state_dict does not hold, by path."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.lost: list[str] = []
        self.files: dict[str, str] = {}
        self._paths: dict[int, str] = {}
        self._modules: dict[int, str] = {}
        self._values = 0

    def module_call(self, module: nn.Module, args: Any, kwargs: Any, file: str) -> CallPlan:
        """The plan of a call of a module, whose arguments lie in ``file`` under "args" and "kwargs"."""
        self._see(module, "")
        root = self._part(module, "")
        plan = self._call(file, list(args), dict(kwargs))
        plan.root = root
        plan.printed = repr_of(module)
        plan.device = next((str(t.device) for t in module.parameters()), "cpu")
        return plan

    def function_call(self, function: FunctionType, kwargs: dict[str, Any], file: str) -> CallPlan:
        """The plan of a call of a function of an installed package, by keywords."""
        plan = self._call(file, [], kwargs)
        plan.function = self._name(function)
        return plan

    def _call(self, file: str, args: list[Any], kwargs: dict[str, Any]) -> CallPlan:
        given: list[Any] = [self._argument(value, ["args", i]) for i, value in enumerate(args)]
        named = [(key, self._argument(value, ["kwargs", key])) for key, value in kwargs.items()]
        return CallPlan(file=file, args=given, kwargs=named, files=self.files, lost=self.lost)

    def _argument(self, value: Any, keys: list[Any]) -> Any:
        try:
            return self._value(value, keys)
        except _CannotError as e:
            self.lost.append(f"argument {keys[-1]}: {e}")
            return None

    # -- modules ---------------------------------------------------------------------------------------------------------------

    def _see(self, module: nn.Module, path: str) -> None:
        """Note where each submodule and each of their tensors is: others may refer to it."""
        for name, part in module.named_modules(prefix=path):
            self._modules.setdefault(id(part), name)
        for name, tensor in [*module.named_parameters(prefix=path), *module.named_buffers(prefix=path)]:
            self._paths.setdefault(id(tensor), name)

    def _part(self, module: nn.Module, path: str) -> ModulePart:
        first = self._modules[id(module)]
        if first != path:
            return ModulePart(same_as=first)
        dot = f"{path}." if path else ""
        class_module, class_name = self._name(type(module))
        part = ModulePart(class_module=class_module, class_name=class_name, training=module.training)
        for name, parameter in module._parameters.items():
            part.parameters[name] = _tensor_plan(parameter)
        for name, buffer in module._buffers.items():
            part.buffers[name] = plan = _tensor_plan(buffer)
            if buffer is not None and plan is not None and name in module._non_persistent_buffers_set:
                plan.persistent = False
                self.tensors[dot + name] = buffer
        for name, value in vars(module).items():
            if name in _OWN:
                continue
            try:
                part.attributes.append((name, self._value(value, None, dot + name)))
            except _CannotError as e:
                if not _of_weakrefs(value):
                    self.lost.append(f"{dot}{name}: {e}")
        if module._forward_pre_hooks or module._forward_hooks:
            self.lost.append(f"hooks of {path or 'the module'}")
        for name, child in module._modules.items():
            part.children[name] = self._part(child, dot + name) if child is not None else None
        return part

    # -- values ----------------------------------------------------------------------------------------------------------------

    def _value(self, value: Any, keys: list[Any] | None, path: str = "", depth: int = 0) -> Any:
        """``keys`` lead to an argument in its file, ``path`` to an attribute."""
        self._values += 1
        if depth > _DEEPEST or self._values > _MOST_VALUES:
            raise _CannotError("too much is in it")
        plain, known = self._plain(value)
        if known:
            return plain
        if isinstance(value, Tensor):
            return self._tensor(value, keys, path)
        if isinstance(value, nn.Module):
            if id(value) not in self._modules:
                raise _CannotError(f"a {type(value).__name__} outside of the module")
            return {"part": self._modules[id(value)]}

        def items(of: Any) -> list[Any]:
            return [
                self._value(v, [*keys, i] if keys is not None else None, f"{path}[{i}]", depth + 1)
                for i, v in enumerate(of)
            ]

        def pairs(of: Any) -> list[Any]:
            return [
                [
                    self._value(k, None, "", depth + 1),
                    self._value(v, [*keys, k] if keys is not None else None, f"{path}[{k!r}]", depth + 1),
                ]
                for k, v in of.items()
            ]

        kind = type(value)
        if kind in {list, tuple, deque}:
            return {"tuple" if kind is tuple else "list": items(value)}
        if kind in {set, frozenset}:
            return {"set": items(sorted(value, key=repr))}
        if kind in {dict, OrderedDict} or (keys is not None and isinstance(value, Mapping)):
            return {"dict": pairs(value)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"fields": self._name(kind), "items": items(value)}
        if keys is not None:
            raise _CannotError(f"a {kind.__name__} is not kept")
        # a configuration: plain attributes, no slots, no way of its own to be copied
        own = vars(value) if hasattr(value, "__dict__") else None
        copied = any(getattr(kind, way, None) is not getattr(object, way) for way in _WAYS)
        if own is None or copied:
            raise _CannotError(f"a {kind.__name__} is not kept")
        if isinstance(value, (list, dict, tuple, set, str, int, float, ModuleType)) or callable(value):
            raise _CannotError(f"a {kind.__name__} is not kept")
        return {"object": self._name(kind), "state": pairs(own)}

    def _plain(self, value: Any) -> tuple[Any, bool]:
        """(JSON, whether it is of a kind without tensors)."""
        if value is None or type(value) in {bool, str}:
            return value, True
        if type(value) is int:
            return (value, True) if abs(value) < 2**53 else ({"float": str(value)}, True)
        if type(value) is float:
            return (value, True) if math.isfinite(value) else ({"float": str(value)}, True)
        if isinstance(value, enum.Enum):
            return {"enum": [*self._name(type(value)), value.name]}, True
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return {"torch": str(value).removeprefix("torch.")}, True
        if isinstance(value, torch.device):
            return {"device": str(value)}, True
        if isinstance(value, torch.Size):
            return {"size": list(value)}, True
        if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            return {"name": self._name(value)}, True
        return None, False

    def _tensor(self, tensor: Tensor, keys: list[Any] | None, path: str) -> Any:
        if keys is not None:
            return {"at": keys}
        if id(tensor) not in self._paths:
            self._paths[id(tensor)] = path
            self.tensors[path] = tensor
        return {"tensor": self._paths[id(tensor)]}

    def _name(self, thing: Any) -> tuple[str, str]:
        """(module, qualname) by which it is found again; its file is noted where it is not installed."""
        module, name = str(getattr(thing, "__module__", None)), str(getattr(thing, "__qualname__", ""))
        if isinstance(thing, BuiltinFunctionType) and not module.startswith("torch") and hasattr(torch, name):
            module = "torch"
        found: Any = sys.modules.get(module)
        file = getattr(found, "__file__", None)
        if "<locals>" not in name:
            for step in name.split("."):
                found = getattr(found, step, None)
            if found is not thing:
                raise _CannotError(f"{module}.{name} cannot be imported by that name")
        elif "<lambda>" in name or not isinstance(thing, type):
            raise _CannotError(f"{name} has no name of its own")
        if isinstance(file, str) and not is_installed(file):
            self.files[module] = str(Path(file).absolute())
        return module, name


def repr_of(module: nn.Module) -> str:
    """What the module prints as, bounded; its class where printing fails."""
    try:
        return repr(module)[:_MOST_PRINTED]
    except Exception:  # noqa: BLE001 # the script's own extra_repr
        return type(module).__name__


def torch_function_in_flight(error: BaseException) -> tuple[FunctionType, dict[str, Any]] | None:
    """The function of torch that the script's own code had called when an exception was raised, and its arguments.

    None where the innermost of the script's frames called no Python of torch.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    frames = [f for f in frames if not is_ours(f.f_code.co_filename)]
    last = max((i for i, f in enumerate(frames) if not is_installed(f.f_code.co_filename)), default=None)
    if last is None or last + 1 >= len(frames):
        return None
    frame = frames[last + 1]
    code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
    function = frame.f_globals.get(code.co_name)
    if not module.startswith("torch.") or not isinstance(function, FunctionType) or function.__code__ is not code:
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    local = frame.f_locals
    return function, {name: local[name] for name in names if name in local}


def _tensor_plan(tensor: Tensor | None) -> TensorPlan | None:
    if tensor is None:
        return None
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorPlan(shape=list(tensor.shape), dtype=dtype, requires_grad=tensor.requires_grad)


def _of_weakrefs(value: Any) -> bool:
    return isinstance(value, (weakref.ref, list)) and all(
        isinstance(v, weakref.ref) for v in (value if isinstance(value, list) else [value])
    )
