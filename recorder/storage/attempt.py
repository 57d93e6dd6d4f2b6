"""Where the numbers of a resumed run go on: steps, segments and loaders after those of earlier attempts; a module or tensor
that an earlier attempt knew keeps the number it had, so that its history is one series.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...schemas import SchemaError, read_manifest
from .segments import read_rows


class Attempt(NamedTuple):
    """What run.json says of the newest attempt; see RunManifest."""

    number: int = 1
    first_step: int = 0
    first_part: int = 0
    first_loader: int = 0


def attempt_of(run: Path) -> Attempt:
    """The newest attempt of a run folder. A folder without a readable manifest is taken for a first attempt: a script must run
    all the same."""
    try:
        manifest = read_manifest(run)
    except SchemaError:
        return Attempt()
    return Attempt(manifest.attempt, manifest.first_step, manifest.first_part, manifest.first_loader)


_MOST_ALIKE = 256
"""Modules of one name and class, one after the other, that get numbers of their own. A script that makes a model anew in each
step would else fill its memory and the tables: further ones have the number of the last."""


@dataclass(slots=True)
class EarlierNames:
    """Gives numbers to modules and tensors. Empty, as in a first attempt, it counts from 0."""

    modules: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(model, module, class) → module_id of an earlier attempt; each is given out once."""
    tensors: dict[tuple[int | None, str, str], int] = field(default_factory=dict)
    """(module_id, tensor_name, kind) → tensor_id."""
    next_module: int = 0
    next_tensor: int = 0
    alike: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)
    """(model, module, class) → how many numbers such modules have, and the last of them."""

    def module(self, model: str, path: str, class_name: str) -> tuple[int, bool]:
        """The number of a module that is new in this process, and whether no other one has had it in this process."""
        key = model, path, class_name
        given, last = self.alike.get(key, (0, 0))
        if given >= _MOST_ALIKE:
            return last, False
        number = self.modules.pop(key, None)
        if number is None:
            number = self.next_module
            self.next_module += 1
        self.alike[key] = given + 1, number
        return number, True

    def tensor(self, key: tuple[int | None, str, str]) -> int:
        """The number of a tensor that is new in this process."""
        known = self.tensors.pop(key, None) if self.tensors else None
        if known is not None:
            return known
        self.next_tensor += 1
        return self.next_tensor - 1


def earlier_names(run: Path, rank: int) -> EarlierNames:
    """Numbers that earlier attempts of ``run`` gave out in this rank."""
    names = EarlierNames()
    modules = read_rows(run, "modules", ["rank", "model", "module", "class_name", "module_id"])
    for of, model, module, class_name, id_ in zip(*(c.to_pylist() for c in modules.columns), strict=True):
        if of == rank:
            names.modules[model, module, class_name] = id_
            names.next_module = max(names.next_module, id_ + 1)
    tensors = read_rows(run, "tensors", ["rank", "module_id", "tensor_name", "kind", "tensor_id"])
    for of, module_id, name, kind, id_ in zip(*(c.to_pylist() for c in tensors.columns), strict=True):
        if of == rank:
            names.tensors[module_id, name, kind] = id_
            names.next_tensor = max(names.next_tensor, id_ + 1)
    return names
