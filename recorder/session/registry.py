"""Number the models, modules and tensors of this process once, and name them as ``named_modules()`` does.

A model is found when it is first called. The search goes from the called module up through the modules that it was registered
in, past wrappers such as DistributedDataParallel, to the outermost one. A global registration hook notes parents. Nothing here
keeps a module or a tensor alive.
"""

import weakref
from collections.abc import Callable, Iterator

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ...schemas.files.json_text import json_text
from ..base.identity_map import IdentityMap
from ..script.variable_names import global_name_of
from ..script.wrappers import Layout, layout_of, unwrapped
from ..storage.attempt import EarlierNames


class OutputSlot:
    """What a module's n-th output is called, and the hook that its gradient gets at every step."""

    __slots__ = ("gradient_hook", "tensor_id")

    def __init__(self, tensor_id: int) -> None:
        self.tensor_id = tensor_id
        self.gradient_hook: Callable[[Tensor], None] | None = None


class ModuleEntry:
    """A module of a known model."""

    __slots__ = (
        "call_order", "class_name", "compiled", "depth", "id", "model", "modes", "name", "outputs", "own_numel", "parent_id",
        "ref", "root", "settings",
    )  # fmt: skip

    def __init__(
        self,
        id_: int,
        module: nn.Module,
        name: str,
        model: str,
        root: "ModuleEntry | None",
        parent_id: int | None,
        *,
        compiled: bool = False,
    ) -> None:
        self.compiled = compiled  # stands for the model inside: the modules of that run inside compiled code, unseen
        self.id = id_
        self.ref = weakref.ref(module)
        self.name = name
        self.model = model
        self.root = root or self
        self.parent_id = parent_id
        self.class_name = type(module).__name__
        self.depth = name.count(".") + 1 if name else 0
        self.call_order: int | None = None
        self.outputs: dict[int, OutputSlot] = {}
        self.modes: dict[bool, bool] = {}
        """Gradient mode → training flag in the last call in it."""
        self.settings = settings_of(module)
        self.own_numel = sum(p.numel() for p in module.parameters(recurse=False))


class ParameterEntry:
    """A parameter and the tensor_ids of what is measured of it."""

    __slots__ = ("gradient_id", "module_id", "name", "parameter_id", "ref", "update_id")

    def __init__(self, parameter: Tensor, name: str, module_id: int | None, ids: tuple[int, int, int]) -> None:
        self.ref = weakref.ref(parameter)
        self.name = name
        self.module_id = module_id
        self.parameter_id, self.gradient_id, self.update_id = ids


class Catalogue:
    """Numbers modules and tensors; hands out table rows for what is new or has changed since it was last asked."""

    def __init__(
        self,
        rank: int = 0,
        chosen: Callable[[str, str], bool] | None = None,
        earlier: Callable[[], EarlierNames] = EarlierNames,
    ) -> None:
        self.rank = rank
        self._chosen = chosen
        self._ask_earlier = earlier
        self._earlier: EarlierNames | None = None
        self.excluded: set[int] = set()
        """Tensors of which the options want no statistics; they are described all the same."""
        self.by_object: dict[int, ModuleEntry | None] = {}
        """id(module) → its entry, None if it belongs to no model worth recording. An entry goes when its module does. A plain
        dictionary: it is asked at every call of every module."""
        self._alive: dict[int, weakref.ref[nn.Module]] = {}
        """id(module) → the module, for each key of ``by_object``."""
        self._owners: dict[int, tuple[weakref.ref[Tensor], weakref.ref[nn.Module]]] = {}
        """id(parameter) → the parameter and the module that registered it last."""
        self._parents: dict[int, tuple[weakref.ref[nn.Module], weakref.ref[nn.Module]]] = {}
        self._parameters: IdentityMap[Tensor, ParameterEntry] = IdentityMap()
        self._tensor_ids: dict[tuple[int | None, str, str], int] = {}
        self._described: dict[int, dict[str, object]] = {}
        self._dirty_tensors: set[int] = set()
        self.calls = 0
        """Modules that have been called."""
        self._order: dict[int, int] = {}
        """module_id → call_order."""
        self._dirty_modules: dict[int, ModuleEntry] = {}
        self.roots: list[ModuleEntry] = []
        self.version = 0
        """Grows with every module or parameter that is registered anywhere and every model that is found."""
        self._new_models: list[ModuleEntry] = []
        self.holders: IdentityMap[Tensor, tuple[int, int]] = IdentityMap()
        """Parameter → (optimizer_id, group_id), refreshed by the optimizer room."""

    # -- modules ------------------------------------------------------------------------------------------------------

    def note_parent(self, parent: nn.Module, _name: str, child: nn.Module | None) -> None:
        """Global registration hook: ``child`` has become a sub-module of ``parent``."""
        self.version += 1
        if child is not None:
            key = id(child)
            self._parents[key] = (weakref.ref(parent), weakref.ref(child, lambda _, k=key: self._parents.pop(k, None)))

    def note_parameter(self, module: nn.Module, _name: str, parameter: nn.Parameter | None) -> None:
        """Global registration hook: a module has got a parameter."""
        self.version += 1
        if parameter is not None:
            key = id(parameter)
            known: weakref.ref[Tensor] = weakref.ref(parameter, lambda _, k=key: self._owners.pop(k, None))
            self._owners[key] = (known, weakref.ref(module))

    def find(self, module: nn.Module) -> ModuleEntry | None:
        """Entry of a known module; None if it is new, or belongs to no model worth recording."""
        return self.by_object[id(module)] if self.knows(module) else None

    def knows(self, module: nn.Module) -> bool:
        """Whether it was asked for before, as a part of a model or as one of none."""
        known = self._alive.get(id(module))
        return known is not None and known() is module

    def _enter(self, module: nn.Module, entry: ModuleEntry | None) -> None:
        key = id(module)

        def gone(ref: "weakref.ref[nn.Module]") -> None:
            if self._alive.get(key) is ref:  # not one that has the address now
                del self._alive[key], self.by_object[key]

        self._alive[key] = weakref.ref(module, gone)
        self.by_object[key] = entry

    def alive(self, key: int) -> nn.Module | None:
        """The living module with this ``id()``: one of a known model, or one that was registered in another or has registered
        a parameter. Searched for, so not for every step."""
        known, link = self._alive.get(key), self._parents.get(key)
        if known is not None and (module := known()) is not None:
            return module
        if link is not None and (module := link[1]()) is not None:
            return module
        owners = (*(parent for parent, _ in self._parents.values()), *(owner for _, owner in self._owners.values()))
        return next((m for ref in owners if (m := ref()) is not None and id(m) == key), None)

    def module(self, module_id: int) -> ModuleEntry | None:
        """Entry of a module by its number; searched for, so not for every step."""
        return next((e for e in self.by_object.values() if e is not None and e.id == module_id), None)

    def discover(self, module: nn.Module) -> ModuleEntry | None:
        """Find the model that a called module belongs to and number all its modules and parameters."""
        root = unwrapped(self._climb(module))
        if not any(True for _ in root.parameters()):
            self._enter(module, None)  # a loss or an activation standing alone: nothing to train, nothing to name
            return None
        entry = self.add_model(root, global_name_of(root, module) or type(root).__name__)
        if not self.knows(module):
            if isinstance(getattr(module, "_orig_mod", None), nn.Module):
                self._enter(module, ModuleEntry(entry.id, module, "", entry.model, entry, None, compiled=True))
            else:
                self._enter(module, None)  # a wrapper: its forward is the model's forward
        return self.find(module)

    def unfilled(self, module: nn.Module) -> bool:
        """Whether the model that a module belongs to has lazy parts whose shapes only its first call will tell."""
        root = unwrapped(self._climb(module))
        return any(is_lazy(t) for tensors in (root.parameters(), root.buffers()) for t in tensors)

    def take_new_models(self) -> list[ModuleEntry]:
        """Roots that were numbered since the last call."""
        new, self._new_models = self._new_models, []
        return new

    def add_model(self, root: nn.Module, model: str) -> ModuleEntry:
        """Number a model's modules and parameters; known ones keep their numbers."""
        self.version += 1
        taken = {r.model for r in self.roots if r.ref() is not None and r.ref() is not root}
        name, count = model, 2
        while name in taken:
            name, count = f"{model}_{count}", count + 1
        root_entry: ModuleEntry | None = None
        tells = False
        """Whether the model itself, or a module that is new in it, has a number of its own."""
        for path, module in root.named_modules():
            known = self.find(module)
            id_, own = (known.id, True) if known else self._numbers().module(name, path, type(module).__name__)
            parent = submodule(root, path.rpartition(".")[0]) if path else None
            parent_entry = self.by_object.get(id(parent)) if parent is not None else None
            entry = ModuleEntry(id_, module, path, name, root_entry, parent_entry.id if parent_entry else None)
            entry.call_order = self._order.get(id_)
            tells = tells or (own and (root_entry is None or known is None))
            root_entry = root_entry or entry
            self._enter(module, entry)
            if own:
                self._dirty_modules[id_] = entry
            for leaf, parameter in module.named_parameters(recurse=False):
                self._add_parameter(parameter, f"{path}.{leaf}" if path else leaf, id_)
        assert root_entry is not None  # noqa: S101 — named_modules yields the root first
        self.roots = [r for r in self.roots if r.ref() is not None and r.ref() is not root and r.id != root_entry.id]
        self.roots = [r for r in self.roots if self.by_object.get(id(r.ref())) is r]
        self.roots.append(root_entry)
        if tells:
            self._new_models.append(root_entry)
        return root_entry

    def note_first_call(self, entry: ModuleEntry) -> None:
        """Note the order of the first calls."""
        entry.call_order = self._order[entry.id] = self.calls
        self.calls += 1
        self._dirty_modules[entry.id] = entry

    def outermost(self, module: nn.Module) -> nn.Module:
        """The module that a module was registered in, and so on up; itself where it stands alone."""
        return self._climb(module)

    def _climb(self, module: nn.Module) -> nn.Module:
        seen = {id(module)}
        while (link := self._parents.get(id(module))) is not None:
            parent = link[0]()
            if parent is None or link[1]() is not module or id(parent) in seen:
                break
            if all(child is not module for child in parent._modules.values()):
                break  # it was taken out again
            module = parent
            seen.add(id(module))
        return module

    def _numbers(self) -> EarlierNames:
        """Asked for when the first number is wanted: only then the rank is known."""
        if self._earlier is None:
            self._earlier = self._ask_earlier()
        return self._earlier

    def take_module_rows(self) -> list[dict[str, object]]:
        """Rows of table `modules` for what is new since the last call."""
        rows: list[dict[str, object]] = [
            {
                "module_id": e.id,
                "model": e.model,
                "module": e.name,
                "class_name": e.class_name,
                "parent_id": e.parent_id,
                "depth": e.depth,
                "call_order": e.call_order,
                "own_numel": e.own_numel,
                "settings": e.settings,
            }
            for e in self._dirty_modules.values()
        ]
        self._dirty_modules.clear()
        return rows

    # -- tensors ------------------------------------------------------------------------------------------------------

    def tensor(self, module_id: int | None, name: str, kind: str, like: Tensor) -> int:
        """tensor_id of something measured; described once, from the tensor at hand."""
        key = (module_id, name, kind)
        id_ = self._tensor_ids.get(key)
        if id_ is None:
            id_ = self._tensor_ids[key] = self._numbers().tensor(key)
            if self._chosen is not None and not self._chosen(name, kind):
                self.excluded.add(id_)
            self.describe(id_, name, kind, module_id, like)
        return id_

    def describe(self, id_: int, name: str, kind: str, module_id: int | None, like: Tensor) -> None:
        """Queue a row of table `tensors`; a later row for the same id replaces an earlier one."""
        optimizer_id, group_id = self.holders.get(like, (None, None)) if kind in _OF_PARAMETERS else (None, None)
        self._described[id_] = {
            **self._described.get(id_, {}),
            "tensor_id": id_,
            "tensor_name": name,
            "kind": kind,
            "module_id": module_id,
            "shape": list(like.shape),
            "dtype": str(like.dtype).removeprefix("torch."),
            "device": str(like.device),
            "numel": like.numel(),
            "requires_grad": like.requires_grad,
            "optimizer_id": optimizer_id,
            "group_id": group_id,
            **_layout_columns(like),
        }
        self._dirty_tensors.add(id_)

    def rekind(self, id_: int, kind: str) -> None:
        """A tensor turns out to be something else: a field of the batch is the target."""
        if self._described[id_]["kind"] != kind:
            self.add_facts(id_, kind=kind)

    def add_facts(self, id_: int, **columns: object) -> None:
        """Columns of `tensors` that another look has found out."""
        self._described[id_] |= columns
        self._dirty_tensors.add(id_)

    def note_layout(self, id_: int, layout: Layout) -> None:
        """A tensor turns out to be spread over ranks in this way."""
        if self._described[id_].get("placements") != layout.placements:
            self.add_facts(id_, **layout.columns())

    def take_tensor_rows(self) -> list[dict[str, object]]:
        """Rows of table `tensors` for what is new or changed since the last call."""
        rows = [dict(self._described[id_]) for id_ in sorted(self._dirty_tensors)]
        self._dirty_tensors.clear()
        return rows

    def _add_parameter(self, parameter: Tensor, name: str, module_id: int | None) -> ParameterEntry:
        known = self._parameters.get(parameter)
        if known is not None and known.name == name:
            return known
        ids = (
            self.tensor(module_id, name, "parameter", parameter),
            self.tensor(module_id, name, "gradient", parameter),
            self.tensor(module_id, name, "update", parameter),
        )
        entry = self._parameters[parameter] = ParameterEntry(parameter, name, module_id, ids)
        return entry

    def parameter(self, parameter: Tensor, prefix: str, group: int, index: int) -> ParameterEntry:
        """Entry of a parameter; one that no known module owns (a bare tensor) is named by its place in the optimizer."""
        entry = self._parameters.get(parameter)
        if entry is None:
            for root in self.roots:  # the model may have been changed since it was found
                module = root.ref()
                if module is not None and any(p is parameter for p in module.parameters()):
                    self.add_model(module, root.model)
                    return self._parameters[parameter]
            if self.calls == 0 and self._add_unseen(parameter):
                return self._parameters[parameter]
            entry = self._add_parameter(parameter, f"{prefix}param_groups[{group}][{index}]", None)
        return entry

    def described(self, parameter: Tensor) -> tuple[ModuleEntry, str] | None:
        """The module that owns a known parameter, and the parameter's name in the model. Searched for, so not for every step."""
        entry = self._parameters.get(parameter)
        owner = self.module(entry.module_id) if entry is not None and entry.module_id is not None else None
        return (owner, entry.name) if entry is not None and owner is not None else None

    def has_parameter(self, tensor: Tensor) -> bool:
        """Whether it is known as a parameter."""
        return tensor in self._parameters

    def only_bare_parameters(self) -> bool:
        """Whether something is trained, and no known module owns anything of it."""
        return bool(self._parameters) and all(entry.module_id is None for entry in self._parameters.values())

    def bare_parameter(self, tensor: Tensor, name: str) -> ParameterEntry:
        """Entry of a tensor that is trained without an optimizer; one that no known module owns has the name given."""
        entry = self._parameters.get(tensor)
        if entry is None:
            if self.calls == 0 and self._add_unseen(tensor):
                return self._parameters[tensor]
            entry = self._add_parameter(tensor, name, None)
        return entry

    def _add_unseen(self, parameter: Tensor) -> bool:
        """Number the model of a parameter that is trained although no module call has been seen: all of it may run in
        compiled code, or its weights are handed to functions."""
        known, owner = self._owners.get(id(parameter), (None, None))
        module = owner() if owner is not None and known is not None and known() is parameter else None
        if module is None:
            return False
        root = unwrapped(self._climb(module))
        self.add_model(root, global_name_of(root, root) or type(root).__name__)
        return parameter in self._parameters

    def registered(self, parameter: Tensor) -> bool:
        """Whether a living module has registered the parameter, whatever model it is of."""
        known, owner = self._owners.get(id(parameter), (None, None))
        return known is not None and known() is parameter and owner is not None and owner() is not None

    def owned(self, parameter: Tensor) -> bool:
        """Whether a known module owns the parameter."""
        entry = self._parameters.get(parameter)
        return entry is not None and entry.module_id is not None

    def model_parameters(self, of: ModuleEntry | None = None) -> Iterator[tuple[Tensor, ParameterEntry]]:
        """Every parameter of one or every known model that still lives, once each."""
        for root in self.roots if of is None else [of]:
            module = root.ref()
            if module is not None:
                for parameter in module.parameters():
                    entry = self._parameters.get(parameter)
                    if entry is not None:
                        yield parameter, entry

    def redescribe_parameters(self) -> None:
        """Queue rows of `tensors` again after the optimizers have changed."""
        for entry in self._parameters.values():
            parameter = entry.ref()
            if parameter is not None:
                self.describe(entry.parameter_id, entry.name, "parameter", entry.module_id, parameter)
                self.describe(entry.gradient_id, entry.name, "gradient", entry.module_id, parameter)
                self.describe(entry.update_id, entry.name, "update", entry.module_id, parameter)


_PLAIN = (bool, int, float)
_OF_PARAMETERS = {"parameter", "gradient", "update"}


def _layout_columns(x: Tensor) -> dict[str, object]:
    layout = layout_of(x)
    return {} if layout is None else layout.columns()


def settings_of(module: nn.Module) -> str:
    """Public attributes that are numbers, truth values or short strings, as JSON."""
    values = {
        k: v
        for k, v in vars(module).items()
        if not k.startswith("_")
        and k != "training"
        and (isinstance(v, _PLAIN) or (isinstance(v, str) and len(v) <= 32))
    }
    return json_text(values)


def submodule(root: nn.Module, path: str) -> nn.Module:
    """As ``root.get_submodule(path)``, which a ScriptModule does not have."""
    for name in path.split(".") if path else ():
        root = getattr(root, name)
    return root
