"""What a model is made of beside its registered parameters: symmetric weights, and parameters that nobody registered, or that
are wrapped in an operation."""

import weakref
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from ..script.wrappers import local
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.labels_and_masks import sample_fingerprints
from ..tensors.moments import measurable

_MOST_HELD = 256
_MOST_FREEZES = 32
"""Parts that are named of one model."""


def next_look(age: int) -> int:
    """How many steps after it was found, beyond so many, a weight that began with equal rows is looked at once more: most are
    equal only until the first update, and that of an adapter may come late. A step that is not watched is passed over."""
    return 3 if age < 3 else 10 if age < 10 else max(32, 1 << age.bit_length())


class _Symmetric:
    """A weight whose rows were all equal when it was found."""

    __slots__ = ("found", "next", "parameter_id", "ref")

    def __init__(self, weight: Tensor, parameter_id: int, step: int) -> None:
        self.ref = weakref.ref(weight)
        self.parameter_id = parameter_id
        self.found = step
        self.next = next_look(0)


def distinct_rows(weight: Tensor) -> int | None:
    """Rows of a weight that differ, by a hash of up to 64 elements of each; None where it has too many or too few."""
    hashes = sample_fingerprints(weight) if weight.is_floating_point() and measurable(weight) else None
    return len(set(hashes)) if hashes is not None and len(hashes) > 1 else None


_OF_TORCH = frozenset(vars(nn.Module()))
"""Attributes that every module has."""


def unregistered(
    root: nn.Module, private: Callable[[nn.Module], bool] | None = None
) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """(module, path, parameter) for what a module reaches only through a Python list, tuple or dict.

    In one whose name begins with an underscore only modules count of which ``private`` says so: some hide a teacher there."""
    known = {id(p) for p in root.parameters()}
    for module in root.modules():
        for name, value in vars(module).items():
            hidden = name.startswith("_")
            if name in _OF_TORCH or (hidden and private is None):
                continue
            for key, item in _items(value):
                if hidden and not (isinstance(item, nn.Module) and private is not None and private(item)):
                    continue
                held = item.named_parameters() if isinstance(item, nn.Module) else [("", item)]
                for inner, parameter in held:
                    if isinstance(parameter, nn.Parameter) and id(parameter) not in known:
                        yield module, f"{name}[{key}]" + (f".{inner}" if inner else ""), parameter


def held_by_objects(root: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """(module, path, parameter) for parameters of objects that are no modules: a layer whose class is not one."""
    known = {id(p) for p in root.parameters()}
    for module in root.modules():
        for name, value in vars(module).items():
            if name not in _OF_TORCH and not isinstance(value, (nn.Module, Tensor, type)):
                for inner, item in _items(getattr(value, "__dict__", None)):
                    if isinstance(item, nn.Parameter) and item.requires_grad and id(item) not in known:
                        yield module, f"{name}.{inner}", item


_MOST_NODES = 16
"""Operations between a parameter and the attribute that was made of it."""


def wrapped_parameters(root: nn.Module) -> Iterator[tuple[nn.Module, str, str, list[Tensor]]]:
    """(module, attribute, operation, its parameters) for tensors that were computed from parameters of no module of the model:
    `self.w = nn.Parameter(w).cuda()`. What an earlier forward has left is computed from the model's own."""
    known = {id(p) for p in root.parameters()}
    for module in root.modules():
        for name, value in vars(module).items():
            if name not in _OF_TORCH and isinstance(value, Tensor) and value.grad_fn is not None:
                leaves = _leaves(value)
                if leaves and not any(id(leaf) in known for leaf in leaves):
                    yield module, name, value.grad_fn.name(), leaves


def _leaves(tensor: Tensor) -> list[Tensor]:
    """The parameters that a tensor was computed from; none where there are other tensors among them, or too many operations."""
    leaves: list[Tensor] = []
    todo, seen = [tensor.grad_fn], 0
    while todo:
        node = todo.pop()
        seen += 1
        if node is None or seen > _MOST_NODES:
            return []
        if not node.next_functions:
            leaf = getattr(node, "variable", None)
            if not isinstance(leaf, nn.Parameter):
                return []
            leaves.append(leaf)
        todo.extend(inner for inner, _ in node.next_functions if inner is not None)
    return leaves


_ALIKE = 0.8
"""How alike, by difflib's ratio, the name of an attribute and `requires_grad` are where one was written for the other."""


def missed_freezes(root: nn.Module) -> list[tuple[nn.Module, str]]:
    """(module, attribute) for what a script has set to False to freeze a part, and which freezes nothing.

    `requires_grad` is an attribute of parameters: on a module it is one like any other. So is a misspelt name on a parameter. Of
    modules inside each other the outermost counts."""
    found: list[tuple[nn.Module, str]] = []
    inside: set[int] = set()
    for module in root.modules():
        if id(module) in inside or not any(p.requires_grad for p in module.parameters()):
            continue
        if vars(module).get("requires_grad") is False:
            found.append((module, "requires_grad"))
            inside |= {id(m) for m in module.modules()}
            continue
        for parameter in module.parameters(recurse=False):
            written = (
                get_close_matches("requires_grad", vars(parameter), n=1, cutoff=_ALIKE)
                if parameter.requires_grad
                else ()
            )
            if written and vars(parameter)[written[0]] is False:
                found.append((module, written[0]))
                break
    return found


def _has_gradient(module: nn.Module) -> bool:
    return any(parameter.grad is not None for parameter in module.parameters())


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))[:_MOST_HELD]
    if isinstance(value, dict):
        return list(value.items())[:_MOST_HELD]
    return []


class StructureWatch(Watch):
    """Fills columns of `tensors` that need a look at the model."""

    name = "structure"
    writes = (
        "tensors.rows",
        "tensors.distinct_rows",
        "tensors.distinct_rows_step",
        "tensors.registered",
        "tensors:parameter",
        "events:unregistered",
        "events:freeze-missed",
        "events:parameter-wrapped",
    )

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._symmetric: list[_Symmetric] = []
        """Weights with equal rows: their tensor_id, and the step in which they were found."""
        self._calls_others: list[ModuleEntry] = []
        """Modules that have called what is not registered in them, since the last row."""
        self._noted: set[int] = set()
        self._wrapped: list[tuple[ModuleEntry, dict[str, str], list[weakref.ref[Tensor]]]] = []
        """Module, words for the event, and the parameters of what was computed from parameters that no module holds."""
        self._unregistered: list[tuple[int, weakref.ref[Tensor]]] = []
        """tensor_id and parameter, until it is known what the optimizers hold."""
        self._held: list[tuple[ModuleEntry, str, weakref.ref[Tensor]]] = []
        """Module, path and parameter of an object that is no module, until it is known whether a gradient reaches it."""

    def listen(self, signals: Signals) -> None:
        """Look at each model, and now and then at what looked symmetric."""
        signals.model_found.connect(self.name, self._describe_model)
        signals.inner_model_found.connect(self.name, self._grown)
        signals.row_ends.connect(self.name, self._look_at_private)
        signals.row_ends.connect(self.name, self._judge_wrapped)
        signals.row_ends.connect(self.name, self._judge_held)
        signals.row_ends.connect(self.name, self._look_who_holds)
        signals.row_ends.connect(self.name, self._look_again)

    def _describe_model(self, root: ModuleEntry) -> None:
        module = root.ref()
        if module is None:
            return
        catalogue = self.session.catalogue
        for parameter, entry in catalogue.model_parameters(root):
            mine = local(parameter)
            rows = distinct_rows(mine) if mine.dim() >= 2 else None
            if rows is not None:
                catalogue.add_facts(entry.parameter_id, rows=mine.shape[0], distinct_rows=rows)
                if rows == 1:
                    self._symmetric.append(_Symmetric(mine, entry.parameter_id, self.session.position.step))
        self._find_unregistered(module)
        self._find_wrapped(module)
        self._held += [
            (entry, path, weakref.ref(parameter))
            for owner, path, parameter in held_by_objects(module)
            if (entry := catalogue.find(owner)) is not None
        ]
        for part, attribute in missed_freezes(module)[:_MOST_FREEZES]:
            entry = catalogue.find(part)
            if entry is not None:
                self.session.rows.event(
                    "freeze-missed",
                    f"{attribute} = False was set on {type(part).__name__}, which freezes nothing",
                    module_id=entry.id,
                    detail={"class": type(part).__name__, "attribute": attribute},
                )

    def _grown(self, outer: ModuleEntry) -> None:
        """A module has called another that is not registered in it, for the first time."""
        module = outer.ref()
        if module is not None:
            self._calls_others.append(outer)
            self._note(outer, self._find_unregistered(module))

    def _look_at_private(self) -> None:
        """What stands in private lists counts once it has a gradient: a teacher that is hidden there on purpose has none."""
        for outer in self._calls_others:
            module = outer.ref()
            if module is not None:
                self._note(outer, self._find_unregistered(module, _has_gradient))
        self._calls_others.clear()

    def _note(self, outer: ModuleEntry, found: bool) -> None:
        if found and outer.id not in self._noted:
            self._noted.add(outer.id)
            self.session.rows.event(
                "unregistered", f"{outer.model} calls modules that it holds unregistered", module_id=outer.id
            )

    def _find_unregistered(self, module: nn.Module, private: Callable[[nn.Module], bool] | None = None) -> bool:
        """Note parameters that nobody registered; whether there are any."""
        catalogue, any_found = self.session.catalogue, False
        for owner, path, parameter in unregistered(module, private):
            entry = catalogue.find(owner)
            if entry is not None:
                name = f"{entry.name}.{path}" if entry.name else path
                tensor_id = catalogue.tensor(entry.id, name, "parameter", parameter)
                catalogue.add_facts(tensor_id, registered=False)
                self._unregistered.append((tensor_id, weakref.ref(parameter)))
                any_found = True
        return any_found

    def _judge_held(self) -> None:
        """Parameters in objects that are no modules count once they have a gradient and it is known what optimizers hold."""
        catalogue = self.session.catalogue
        if not self._held or not len(catalogue.holders):
            return
        for entry, path, ref in self._held:
            parameter = ref()
            if parameter is None or parameter.grad is None:
                continue
            if parameter not in catalogue.holders and not catalogue.registered(parameter):
                name = f"{entry.name}.{path}" if entry.name else path
                catalogue.add_facts(catalogue.tensor(entry.id, name, "parameter", parameter), registered=False)
        self._held.clear()

    def _look_who_holds(self) -> None:
        """What another model has registered, or what an optimizer was given by hand, is trained: a head that shares weights."""
        catalogue = self.session.catalogue
        if not self._unregistered or not len(catalogue.holders):
            return
        for tensor_id, ref in self._unregistered:
            parameter = ref()
            holder = catalogue.holders.get(parameter) if parameter is not None else None
            if holder is not None:
                catalogue.add_facts(tensor_id, optimizer_id=holder[0], group_id=holder[1])
        self._unregistered.clear()

    def _find_wrapped(self, module: nn.Module) -> None:
        catalogue = self.session.catalogue
        for owner, attribute, operation, leaves in wrapped_parameters(module):
            entry = catalogue.find(owner)
            if entry is not None and not any(catalogue.registered(leaf) for leaf in leaves):
                words = {"attribute": attribute, "operation": operation, "class": type(owner).__name__}
                self._wrapped.append((entry, words, [weakref.ref(leaf) for leaf in leaves]))

    def _judge_wrapped(self) -> None:
        """Once it is known what the optimizers hold: a parameter that one was given by hand is computed with on purpose."""
        holders = self.session.catalogue.holders
        if not self._wrapped or not len(holders):
            return
        for entry, words, refs in self._wrapped:
            if not any(leaf is not None and leaf in holders for leaf in (ref() for ref in refs)):
                self.session.rows.event(
                    "parameter-wrapped",
                    f"{words['attribute']} of {words['class']} was computed from a parameter that no module holds",
                    module_id=entry.id,
                    detail=words,
                )
        self._wrapped.clear()

    def _look_again(self) -> None:
        session = self.session
        step = session.position.step
        for look in [s for s in self._symmetric if step - s.found >= s.next]:
            weight, look.next = look.ref(), next_look(step - look.found)
            # rows that all became NaN are alike for another reason
            rows = distinct_rows(weight) if weight is not None and bool(weight.isfinite().all()) else None
            if rows is not None:
                session.catalogue.add_facts(look.parameter_id, distinct_rows=rows, distinct_rows_step=step)
            if rows != 1:
                # not by list.remove: weak references compare what they refer to
                self._symmetric = [kept for kept in self._symmetric if kept is not look]
