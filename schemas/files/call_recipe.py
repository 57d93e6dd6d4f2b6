"""How a captured call is made once more in another process: plan.json of a capture folder.

A module is rebuilt without its constructor: its class, its plain attributes, its weights. Tensors lie beside the plan in files
that torch.load(weights_only=True) reads; the plan says where. Written by the recorder, turned into a script by `firstfault mre`.

Values of attributes and arguments stand as JSON:
    null, true, 3, "text"           themselves
    {"float": "inf"}                a float, as float() reads it
    {"list"|"tuple"|"set": [...]}   a container
    {"dict": [[key, value], ...]}   a dictionary
    {"name": [module, qualname]}    a class or function, by import
    {"torch": "float32"}            an attribute of torch: a dtype, a layout
    {"size": [2, 3]}                a torch.Size
    {"device": "cpu"}               a torch.device
    {"tensor": path}                a weight, buffer or other tensor of the module, by its path from the root
    {"at": [key, ...]}              a tensor of the call's file, by the keys that lead to it
    {"part": path}                  a submodule, by its path from the root
    {"object": [module, qualname], "state": [[key, value], ...]}   an object without a constructor of its own to be run
    {"fields": [module, qualname], "items": [...]}                 a tuple whose fields have names
    {"enum": [module, qualname, member]}
"""

from pathlib import Path
from typing import Any

import msgspec

from .json_text import json_file
from .manifest import SchemaError
from .safe_files import read_file

PLAN_JSON = "plan.json"


class TensorPlan(msgspec.Struct, kw_only=True):
    """A weight or buffer: enough to stand in for it where its values did not fit."""

    shape: list[int]
    dtype: str
    requires_grad: bool = False
    persistent: bool = True


class ModulePart(msgspec.Struct, kw_only=True):
    """One module. ``same_as``: path of the module that it is, where it is reached a second time."""

    class_module: str = ""
    class_name: str = ""
    training: bool = True
    attributes: list[tuple[str, Any]] = []
    parameters: dict[str, TensorPlan | None] = {}
    buffers: dict[str, TensorPlan | None] = {}
    children: dict[str, "ModulePart | None"] = {}
    same_as: str | None = None


class CallPlan(msgspec.Struct, kw_only=True):
    """The call that lost a value or raised. ``root`` is the module, or null for ``function`` (module, qualname).

    ``file`` holds the tensors of the arguments. ``files`` names the file of each module of Python that is not installed.
    ``printed`` is what the module prints as. ``lost`` names what could not be kept. ``autocast``: (device, dtype). ``random``
    tells whether ``module_random.pt`` holds the state of torch's generator.
    """

    file: str
    args: list[Any]
    kwargs: list[tuple[str, Any]]
    root: ModulePart | None = None
    function: tuple[str, str] | None = None
    printed: str = ""
    device: str = "cpu"
    autocast: list[tuple[str, str]] = []
    files: dict[str, str] = {}
    lost: list[str] = []
    random: bool = False


def read_plan(folder: Path) -> CallPlan | None:
    """The plan of a capture, None where there is none. Raises SchemaError where it is damaged."""
    path = folder / PLAN_JSON
    try:
        return msgspec.json.decode(read_file(path, folder.parents[1]), type=CallPlan)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        raise SchemaError(f"{path}: cannot be read ({e}); capture the step again") from e


def write_plan(folder: Path, plan: CallPlan) -> None:
    """Write the plan, before the meta."""
    (folder / PLAN_JSON).write_bytes(json_file(plan))
