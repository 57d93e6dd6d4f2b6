"""Find copies of a model that no optimizer holds: averaged weights, target networks, teachers.

They are found without a search through memory. A copy is made by copy.deepcopy or pickle (which call ``Module.__setstate__``),
gets its weights by ``load_state_dict``, or is called. Objects named after averaging, such as class EMA with a dict of tensors,
are the exception: one look through the living objects, early in the run, finds those that hold tensors of the model's shapes. A
few elements of a few weights show at each step whether copy and model have moved. Nothing here keeps a tensor of the script
alive.
"""

import gc
import re
import sys
import weakref
from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from ...schemas.files.step_values import Row
from ..base.identity_map import IdentityMap
from ..script.frames import outside, script_frame, script_line
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.device import Late, join_when_ready, scalar_of
from ..tensors.moments import measurable
from .copied_submodules import TrainedParts, is_trained, untrained_parts

_MOST_COPIES = 4
_MOST_FOUND = 64
"""Copies of the whole run: where the best weights are kept, each is a new one."""

_MOST_SUSPECTS = 4096
_WEIGHTS = 6
_ELEMENTS = 64
_STATISTICS_EVERY = 4
"""Rows from one look at running statistics to the next: they go with every forward, and stay where they stay."""

_MOST_SEARCHES = 4
"""Searches for copies of parts: each goes through all modules of the model."""

_LOOK_FOR_HOLDERS = 3
"""Step at which objects that hold averages are looked for: they are made before the training, or with its first steps."""

_MOST_BLOCKS = 3_000_000
"""Living memory blocks above which that look would take longer than a tenth of a second or two."""

_AVERAGE = {"ema", "swa", "polyak", "shadow", "averaged", "averager", "average", "averaging", "avg", "ewma"}
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_WRITTEN = re.compile(
    r"(?:^|[:;])\s*(?:self\.)?([A-Za-z_][\w.]*)\s*(?::[^=]+)?=\s*(?:copy\.)?deepcopy\("
    r"|(?:^|[\s;(])(?:self\.)?([A-Za-z_][\w.]*)\.load_state_dict\("
)
"""The line of the script that makes or fills a copy, with the name that it has there."""

_COPYING = deepcopy.__code__.co_filename


class _Copy:
    """A copy, and a few of its weights beside those of the model."""

    __slots__ = (
        "before",
        "id",
        "keys",
        "kind",
        "model_before",
        "name",
        "of",
        "owner",
        "pairs",
        "rows",
        "set_between",
        "statistics",
        "statistics_before",
        "versions",
    )

    def __init__(self, id_: int, owner: Any, name: str, kind: str, of: str, pairs: list[tuple[Tensor, Tensor]]) -> None:
        self.id = id_
        self.owner = weakref.ref(owner)
        self.name = name
        self.kind = kind
        self.of = of
        self.pairs = [(weakref.ref(theirs), weakref.ref(ours)) for theirs, ours in pairs]
        self.keys = _keys(owner, pairs) if kind == "holder" else []
        """Where a holder keeps its tensors: an update may well put new ones there."""
        self.before: Tensor | None = None
        self.model_before: Tensor | None = None
        self.versions = _versions([theirs for theirs, _ in pairs])
        self.set_between: tuple[Tensor, Tensor] | None = None
        """What the model's weights were changed by since the row before, when a step begins, and how far from it the copy is."""
        self.rows = 0
        self.statistics: list[tuple[weakref.ref[Tensor], weakref.ref[Tensor]]] = []
        """Running statistics of its batch norms beside those of the model's."""
        self.statistics_before: tuple[Tensor, Tensor] | None = None

    def tensors(self) -> list[tuple[Tensor, Tensor]]:
        """(its tensor, the model's) of those that are still there."""
        owner = self.owner()
        if owner is not None and self.keys:
            held = (_held(owner, attribute, key) for attribute, key in self.keys)
        else:
            held = (theirs() for theirs, _ in self.pairs)
        both = ((a, ours()) for a, (_, ours) in zip(held, self.pairs, strict=True))
        return [(a, b) for a, b in both if a is not None and b is not None and a.device == b.device]


class CopyWatch(Watch):
    """Writes table `copies`."""

    name = "copies"
    writes = ("copies", "events:copy-found")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._suspects: deque[weakref.ref[nn.Module]] = deque(maxlen=_MOST_SUSPECTS)
        self._written: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._copies: list[_Copy] = []
        self._known: IdentityMap[Any, None] = IdentityMap()
        self._count = 0
        self._looked = False
        self._searches = 0
        self._seen = (-1, -1)

    def listen(self, signals: Signals) -> None:
        """Look at the copies after each step, and whether the model was written to before it."""
        signals.step_begins.connect(self.name, self._begins)
        signals.row_ends.connect(self.name, self._step)

    def install(self, patches: Patches) -> None:
        """Note modules that are copied or loaded."""
        for name in ("__setstate__", "load_state_dict"):
            patches.around(nn.Module, name, after=self.guarded(self._note_copy))

    def _note_copy(self, _note: Any, _result: Any, module: nn.Module, *_: Any, **__: Any) -> None:
        self._suspects.append(weakref.ref(module))
        caller = outside(sys._getframe(1))
        if caller is None or _is_part_of_a_copy(caller):
            return
        line = script_line(caller)
        if (found := _WRITTEN.search(line)) is not None:
            name = found[1] or found[2]
            frame = script_frame(caller)
            around = frame.f_code.co_qualname.split(".")[0] if frame is not None else ""
            # a class named after averaging or teaching says what its attribute `module` or `model` is
            tells = names_an_average(around) or "teacher" in map(str.lower, _WORDS.findall(around))
            self._written[module] = f"{around}.{name}" if tells else name

    # -- each step --------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        session = self.session
        if session.position.step < 1:
            return
        now = (len(self._suspects), session.catalogue.version)
        if now != self._seen and len(self._copies) < _MOST_COPIES:
            self._seen = now
            self._find_modules()
            if self._searches < _MOST_SEARCHES:  # a script may make modules at every step
                self._searches += 1
                self._find_parts()
        if not self._looked and session.position.step >= _LOOK_FOR_HOLDERS:
            self._looked = True
            if sys.getallocatedblocks() < _MOST_BLOCKS and len(self._copies) < _MOST_COPIES:
                self._find_holders()
        for copy in list(self._copies):
            self._measure(copy)

    def _begins(self) -> None:
        """The weights that this step starts from may be others than those that the step before has left."""
        for copy in self._copies:
            before, pairs = copy.model_before, copy.tensors()
            if before is None or copy.set_between is not None or len(pairs) < len(copy.pairs):
                continue
            ours = _sample([b for _, b in pairs])
            if ours.shape != before.shape or (ours.is_cpu and torch.equal(ours, before)):
                continue
            theirs = _sample([a for a, _ in pairs])
            if theirs.shape == ours.shape:
                copy.set_between = (ours - before, theirs - ours)

    def _measure(self, copy: _Copy) -> None:
        pairs = copy.tensors()
        if copy.owner() is None or len(pairs) < len(copy.pairs):
            self._copies.remove(copy)
            return
        if any(a.requires_grad and a in self.session.catalogue.holders for a, _ in pairs):
            self._copies.remove(copy)  # an optimizer has taken it up: it is a model of its own
            return
        theirs, ours = _sample([a for a, _ in pairs]), _sample([b for _, b in pairs])
        versions = _versions([a for a, _ in pairs])
        writes = min((now - then for now, then in zip(versions, copy.versions, strict=False)), default=None)
        copy.versions = versions
        before, model_before = copy.before, copy.model_before
        between, copy.set_between = copy.set_between, None
        copy.before, copy.model_before = theirs, ours
        if before is None or model_before is None or before.shape != theirs.shape or ours.shape != theirs.shape:
            return
        size = torch.linalg.vector_norm(ours)
        apart = [] if between is None else [_norm_of(difference) for difference in between]
        numbers = [_norm_of(theirs - before), _norm_of(ours - model_before), _norm_of(theirs - ours)]
        numbers += [*apart, scalar_of(size)]
        copy.rows += 1
        looks = copy.statistics and copy.rows % _STATISTICS_EVERY == 0
        self.session.rows.add(
            "copies",
            copy_id=copy.id,
            name=copy.name,
            kind=copy.kind,
            of_model=copy.of,
            module_id=self._module_id(copy),
            writes=writes if writes is None or writes >= 0 else None,
            moved=_relative(numbers, 0),
            model_moved=_relative(numbers, 1),
            distance=_relative(numbers, 2),
            model_set=_relative(numbers, 3) if apart else None,
            distance_then=_relative(numbers, 4) if apart else None,
            **(_statistics_facts(copy) if looks else {}),
        )

    def _module_id(self, copy: _Copy) -> int | None:
        owner = copy.owner()
        entry = self.session.catalogue.by_object.get(id(owner))
        return entry.id if entry is not None and entry.ref() is owner else None

    # -- finding ----------------------------------------------------------------------------------------------------------

    def _trained(self) -> Iterator[tuple[str, nn.Module]]:
        holders = self.session.catalogue.holders
        for root in self.session.catalogue.roots:
            module = root.ref()
            if module is not None and is_trained(module, holders):
                yield root.model, module

    def _find_modules(self) -> None:
        for name, model in self._trained():
            shapes = [(n, p.shape) for n, p in model.named_parameters()]
            suspects = [ref() for ref in self._suspects] + [root.ref() for root in self.session.catalogue.roots]
            for suspect in suspects:
                if suspect is None or suspect is model or type(suspect) is not type(model) or suspect in self._known:
                    continue
                if [(n, p.shape) for n, p in suspect.named_parameters()] != shapes:
                    continue
                if is_trained(suspect, self.session.catalogue.holders):
                    continue
                around = self.session.catalogue.outermost(suspect)
                averaged = type(around).__name__ == "AveragedModel"
                called = _name_of(around) or _name_of(suspect) or self._written.get(suspect)
                called = called or type(around if averaged else suspect).__name__
                pairs: list[tuple[Tensor, Tensor]] = list(zip(suspect.parameters(), model.parameters(), strict=True))
                copy = self._add(suspect, called, "averaged" if averaged else "module", name, pairs)
                if copy is not None:
                    copy.statistics = _statistics_of(suspect, model)

    def _find_parts(self) -> None:
        """Copies of a part of a trained model, inside of it or beside it."""
        catalogue = self.session.catalogue
        suspects = [m for ref in self._suspects if (m := ref()) is not None]
        inside = {id(part) for m in suspects for part in m.modules() if part is not m}
        alone = [m for m in suspects if id(m) not in inside and catalogue.outermost(m) is m]
        for name, model in self._trained():
            copies = [(f"{name}.{path}", part) for path, part in untrained_parts(model, catalogue.holders)]
            copies += [
                (_name_of(m) or self._written.get(m) or type(m).__name__, m)
                for m in alone
                if m is not model and not is_trained(m, catalogue.holders)
            ]
            parts = TrainedParts(model, catalogue.holders) if copies else None
            for called, copy in copies:
                if parts and copy not in self._known and (found := parts.original_of(copy)) is not None:
                    self._add(copy, called, "part", f"{name}.{found[0]}", found[1])

    def _find_holders(self) -> None:
        """Objects of classes named after averaging that hold a dict or a list of tensors of a model's shapes."""
        averaging: dict[type, bool] = {}
        found: list[Any] = []
        for thing in gc.get_objects():
            kind = type(thing)
            is_one = averaging.get(kind)
            if is_one is None:
                is_one = averaging[kind] = not issubclass(kind, (nn.Module, type)) and names_an_average(kind.__name__)
            if is_one:
                found.append(thing)
        for name, model in self._trained():
            named: dict[str, Tensor] = dict(model.named_parameters())
            for thing in found:
                for value in list(getattr(thing, "__dict__", {}).values()):
                    pairs = _pairs(value, named)
                    if pairs and 2 * len(pairs) >= len(named):
                        self._add(thing, _name_of(thing) or type(thing).__name__, "holder", name, pairs)

    def _add(self, owner: Any, name: str, kind: str, of: str, pairs: list[tuple[Tensor, Tensor]]) -> _Copy | None:
        usable = _usable(pairs)
        if not usable or owner in self._known or len(self._copies) >= _MOST_COPIES or self._count >= _MOST_FOUND:
            return None
        self._known[owner] = None
        copy = _Copy(self._count, owner, name, kind, of, usable)
        self._copies.append(copy)
        self._count += 1
        self.session.rows.event(
            "copy-found",
            f"{name} holds a copy of the weights of {of} that no optimizer holds",
            detail={"copy_id": copy.id, "kind": kind},
        )
        return copy


def _usable(pairs: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
    """A few of these pairs, spread over all that are two tensors on one device and can be measured."""
    usable = [
        (a, b)
        for a, b in pairs
        if a is not b
        and a.numel()
        and a.is_floating_point()
        and a.is_contiguous()
        and b.is_contiguous()
        and a.device == b.device
        and measurable(a)
        and measurable(b)
        and a.data_ptr() != b.data_ptr()
    ]
    return usable[:: max(1, len(usable) // _WEIGHTS)][:_WEIGHTS]


def _statistics_of(suspect: nn.Module, model: nn.Module) -> list[tuple[weakref.ref[Tensor], weakref.ref[Tensor]]]:
    """Pairs of running means and variances of the same name."""
    ours = dict(model.named_buffers())
    pairs = [
        (theirs, ours[name])
        for name, theirs in suspect.named_buffers()
        if name.endswith(("running_mean", "running_var")) and name in ours and theirs.shape == ours[name].shape
    ]
    return [(weakref.ref(a), weakref.ref(b)) for a, b in _usable(pairs)]


def _statistics_facts(copy: _Copy) -> Row:
    """How far the running statistics of a copy and of its model have moved since the look before, and lie apart."""
    pairs = [(a, b) for theirs, ours in copy.statistics if (a := theirs()) is not None and (b := ours()) is not None]
    if len(pairs) < len(copy.statistics) or any(a.device != b.device for a, b in pairs):
        copy.statistics = []  # they were put in again: what these would say is of the past
        return {}
    theirs, ours = _sample([a for a, _ in pairs]), _sample([b for _, b in pairs])
    before, copy.statistics_before = copy.statistics_before, (theirs, ours)
    if before is None:
        return {}
    numbers = [
        _norm_of(theirs - before[0]),
        _norm_of(ours - before[1]),
        _norm_of(theirs - ours),
        _norm_of(ours),
    ]
    names = ("statistics_moved", "model_statistics_moved", "statistics_distance")
    return {name: _relative(numbers, place) for place, name in enumerate(names)}


def _is_part_of_a_copy(caller: FrameType) -> bool:
    """Whether copy.deepcopy is at a module inside the one that it was asked for."""
    asked = caller.f_back.f_back if caller.f_back is not None else None
    return asked is not None and caller.f_code.co_filename == asked.f_code.co_filename == _COPYING


def names_an_average(name: str) -> bool:
    """Whether a name (CamelCase or with underscores) has a word in it that stands for averaged weights."""
    return any(word.lower() in _AVERAGE for word in _WORDS.findall(name))


def _pairs(value: Any, named: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """(their tensor, our parameter) for a dict by name, or a list in the order of the parameters."""
    if isinstance(value, dict):
        return [
            (held, named[key])
            for key, held in value.items()
            if isinstance(key, str) and isinstance(held, Tensor) and key in named and held.shape == named[key].shape
        ]
    if isinstance(value, (list, tuple)) and len(value) == len(named):
        both = list(zip(value, named.values(), strict=True))
        if all(isinstance(held, Tensor) and held.shape == ours.shape for held, ours in both):
            return both
    return []


def _keys(owner: Any, pairs: list[tuple[Tensor, Tensor]]) -> list[tuple[str, Any]]:
    """(attribute, key or position) of each tensor of a holder; none where one of them is not found again."""
    places: dict[int, tuple[str, Any]] = {}
    for attribute, value in vars(owner).items():
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
        )
        places |= {id(held): (attribute, key) for key, held in items if isinstance(held, Tensor)}
    found = [places.get(id(theirs)) for theirs, _ in pairs]
    return [place for place in found if place is not None] if None not in found else []


def _held(owner: Any, attribute: str, key: Any) -> Tensor | None:
    """What a holder keeps there now; None where it keeps no usable tensor there any more."""
    container = getattr(owner, attribute, None)
    try:
        held = container[key] if container is not None else None
    except (LookupError, TypeError):
        return None
    return held if isinstance(held, Tensor) and held.is_contiguous() and measurable(held) else None


def _name_of(thing: Any) -> str | None:
    """Name of the script's global variable that holds it, or `variable.attribute`; None for what lives in a function."""
    main = sys.modules.get("__main__")
    for name, value in list(vars(main).items()) if main is not None else ():
        if value is thing:
            return name
        for attribute, inner in list(getattr(value, "__dict__", {}).items()) if _is_plain_object(value) else ():
            if inner is thing:
                return f"{name}.{attribute}"
    return None


def _is_plain_object(value: Any) -> bool:
    return type(value).__module__ == "__main__" and not isinstance(value, (type, nn.Module))


def _sample(tensors: list[Tensor]) -> Tensor:
    pieces = [t.detach().view(-1)[:_ELEMENTS] for t in tensors]
    return torch.cat([p if p.dtype is torch.float32 else p.float() for p in pieces])


def _versions(tensors: list[Tensor]) -> list[int]:
    """torch's counters of writes in place; empty where one of the tensors has none."""
    return [] if any(t.is_inference() for t in tensors) else [t._version for t in tensors]


def _norm_of(difference: Tensor) -> "float | Late | None":
    return scalar_of(torch.linalg.vector_norm(difference))


def _relative(numbers: "list[float | Late | None]", which: int) -> "float | Late | None":
    """A length as a share of the model's own, which is the last of the numbers."""
    return join_when_ready([numbers[which], numbers[-1]], _quotient)


def _quotient(values: list[float]) -> float | None:
    return values[0] / values[1] if values[1] > 0 else None
