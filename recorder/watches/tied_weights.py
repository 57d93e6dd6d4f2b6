"""Weights that have two names: an embedding and a head that share one storage, and whether they go on sharing it."""

import weakref
from typing import Any

from torch import Tensor, nn

from ..session.patches import Patches
from ..session.registry import ModuleEntry, submodule
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import measurable

_MOST_TIED = 64


class _Tie:
    """Two names of one storage in a model."""

    __slots__ = ("first", "root", "second", "tied")

    def __init__(self, root: nn.Module, first: str, second: str) -> None:
        self.root = weakref.ref(root)
        self.first = first
        self.second = second
        self.tied = True


class TieWatch(Watch):
    """Fills ``tensors.storage`` and says when a tie breaks."""

    name = "ties"
    writes = ("tensors.storage", "events:weights-untied")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._ties: list[_Tie] = []
        self._storages: dict[tuple[int, int], int] = {}
        self._lost: list[tuple[weakref.ref[nn.Module], str, str]] = []
        """Modules that got new tensors before they were trained, and two names in each that shared one."""

    def listen(self, signals: Signals) -> None:
        """Look for ties in each model, and at each step whether they hold."""
        signals.model_found.connect(self.name, self._find_ties)
        signals.row_ends.connect(self.name, self._check)

    def install(self, patches: Patches) -> None:
        """Compare what `Module.to_empty` leaves with what it was given: it makes new tensors, one for each name."""
        patches.around(
            nn.Module, "to_empty", before=self.guarded(_shared_names), after=self.guarded(self._got_new_tensors)
        )

    def _got_new_tensors(self, shared: list[tuple[str, str]] | None, _: Any, module: nn.Module, **__: Any) -> None:
        self._lost += [(weakref.ref(module), *names) for names in shared or () if _are_apart(module, *names)]
        del self._lost[_MOST_TIED:]

    def _find_ties(self, root: ModuleEntry) -> None:
        module = root.ref()
        if module is None:
            return
        for reference, first, second in self._lost:
            if (part := reference()) is not None and _are_apart(part, first, second):
                inside = next((name for name, each in module.named_modules() if each is part), None)
                if inside is not None:
                    prefix = f"{inside}." if inside else ""
                    self._say(root, prefix + first, prefix + second, "no longer one tensor")
        known = {(t.first, t.second) for t in self._ties if t.root() is module}
        first_names: dict[int, str] = {}
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if not measurable(parameter) or not parameter.numel():
                continue
            pointer = parameter.data_ptr()
            first = first_names.setdefault(pointer, name)
            if first == name or len(self._ties) >= _MOST_TIED or (first, name) in known:
                continue
            self._ties.append(_Tie(module, first, name))
            self._describe(root, module, first, name)
        self._equal_but_apart(root, module)

    def _describe(self, root: ModuleEntry, module: nn.Module, *names: str) -> None:
        catalogue = self.session.catalogue
        for name in names:
            parameter = _parameter(module, name)
            owner = catalogue.find(submodule(module, name.rpartition(".")[0]))
            if parameter is None or owner is None:
                continue
            number = self._storages.setdefault((root.id, parameter.data_ptr()), len(self._storages))
            tensor_id = catalogue.tensor(owner.id, name, "parameter", parameter)
            catalogue.add_facts(tensor_id, storage=number)

    def _equal_but_apart(self, root: ModuleEntry, module: nn.Module) -> None:
        """An embedding and a linear layer that begin with the same numbers but not with the same storage."""
        tables = _weights(module, nn.Embedding)
        heads = _weights(module, nn.Linear)
        for table_name, table in tables[:8]:
            for head_name, head in heads:
                if (
                    head.shape == table.shape
                    and head.device == table.device
                    and measurable(head)
                    and measurable(table)
                    and head.data_ptr() != table.data_ptr()
                    and head.dtype == table.dtype
                    and table.device.type == "cpu"
                    and bool((table[0] == head[0]).all())
                    and bool((table == head).all())
                    and bool(table.any())
                ):
                    self._say(
                        root, f"{table_name}.weight", f"{head_name}.weight", "equal at the start, but two tensors"
                    )

    def _check(self) -> None:
        for tie in self._ties:
            module = tie.root()
            if module is None or not tie.tied:
                continue
            first, second = _parameter(module, tie.first), _parameter(module, tie.second)
            if first is None or second is None:
                continue
            if first is second or first.data_ptr() == second.data_ptr():
                continue
            tie.tied = False
            entry = self.session.catalogue.by_object.get(id(module))
            if entry is not None:
                self._describe(entry, module, tie.first, tie.second)
                self._say(entry, tie.first, tie.second, "no longer one tensor")

    def _say(self, root: ModuleEntry, first: str, second: str, how: str) -> None:
        catalogue = self.session.catalogue
        module = root.ref()
        owner = catalogue.find(submodule(module, second.rpartition(".")[0])) if module is not None else None
        self.session.rows.event(
            "weights-untied",
            f"{first} and {second} are {how}",
            module_id=owner.id if owner is not None else None,
            detail={"first": first, "second": second, "how": how},
        )


def _weights(root: nn.Module, kind: type[nn.Module]) -> list[tuple[str, nn.Parameter]]:
    """Names of modules of a kind, and their weights: not as attributes, where a parametrization would compute them and, as
    spectral norm does in train mode, go one step further with what it estimates."""
    found = (
        (name, module._parameters.get("weight")) for name, module in root.named_modules() if isinstance(module, kind)
    )
    return [(name, weight) for name, weight in found if weight is not None]


def _shared_names(module: nn.Module, *_: Any, **__: Any) -> list[tuple[str, str]]:
    """Two names of each parameter that has more than one."""
    names: dict[nn.Parameter, str] = {}
    named = module.named_parameters(remove_duplicate=False)
    return [(first, name) for name, parameter in named if (first := names.setdefault(parameter, name)) != name]


def _are_apart(module: nn.Module, first: str, second: str) -> bool:
    """Whether two names stand for tensors of their own."""
    a, b = _parameter(module, first), _parameter(module, second)
    if a is None or b is None or a is b:
        return False
    return not (measurable(a) and measurable(b) and a.data_ptr() == b.data_ptr())


def _parameter(module: nn.Module, name: str) -> Tensor | None:
    """The tensor of a name as it is now; None where there is none."""
    path, _, leaf = name.rpartition(".")
    try:
        return submodule(module, path)._parameters.get(leaf)
    except AttributeError:
        return None
