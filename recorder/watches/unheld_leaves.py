"""Tensors that ask for a gradient and stand in every loss, and that no optimizer holds: of a script without modules, or
attributes of modules that are no Parameters."""

import weakref

from torch import Tensor

from ..autograd.graph import leaves_of
from ..script.variable_names import TensorNames
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from .rare_looks import RareLooks

_MOST_STEPS = 64
"""Steps after which nobody looks any more: what stands in the loss does so from the first step on."""
_FEWEST = 16
"""Elements: a number may be a setting."""
_STEPS = 4
"""Looks at different steps in which a tensor must be the same object with the same values."""
_MOST_TOLD = 4


class UnheldLeaves(Watch):
    """Writes an event for each of the first such tensors, once an optimizer has stepped."""

    name = "unheld-leaves"
    writes = ("events:leaf-not-held", "events:leaf-attribute")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._looks = RareLooks()
        self._first = -1
        self._last = -1
        self._seen: dict[int, tuple[weakref.ref[Tensor], int, int]] = {}
        """id → the tensor, its version, and the number of steps in which it was seen so."""
        self._told = 0

    def listen(self, signals: Signals) -> None:
        """Look at losses."""
        signals.loss.connect(self.name, self._loss)

    def _loss(self, loss: Tensor) -> None:
        step = self.session.position.step
        if self._first < 0:
            self._first = step
        if step >= self._first + _MOST_STEPS or self._told >= _MOST_TOLD or step == self._last:
            return
        catalogue = self.session.catalogue
        if not self._looks.due(step) or not catalogue.holders:
            return
        self._last = step
        if catalogue.only_bare_parameters():
            for leaf in leaves_of(loss):
                if leaf.numel() >= _FEWEST and catalogue.holders.get(leaf) is None and self._stays(leaf):
                    self._tell(leaf)
        elif held := self._attributes():  # the inputs of a module may ask for gradients too
            for leaf in leaves_of(loss):
                holder = held.get(id(leaf))
                if holder is not None and catalogue.holders.get(leaf) is None and self._stays(leaf):
                    self._tell_attribute(leaf, *holder)

    def _attributes(self) -> dict[int, tuple[int, str]]:
        """id of a tensor that asks for a gradient and is a plain attribute of a module → the module's id and the attribute."""
        return {
            id(value): (entry.id, name)
            for entry in self.session.catalogue.by_object.values()
            if entry is not None and (module := entry.ref()) is not None
            for name, value in vars(module).items()
            if type(value) is Tensor and value.requires_grad and value.is_leaf
        }

    def _tell_attribute(self, leaf: Tensor, module_id: int, attribute: str) -> None:
        self._told += 1
        self.session.rows.event(
            "leaf-attribute",
            f"attribute {attribute} of shape {tuple(leaf.shape)} asks for a gradient and is no Parameter",
            module_id=module_id,
            detail={"attribute": attribute, "shape": list(leaf.shape), "first": self._first, "steps": _STEPS},
        )

    def _stays(self, leaf: Tensor) -> bool:
        """Note that a tensor was seen; whether it has now been seen often enough, always with the same values."""
        known = self._seen.get(id(leaf))
        same = known is not None and known[0]() is leaf and known[1] == leaf._version
        count = known[2] + 1 if known is not None and same else 1
        self._seen[id(leaf)] = weakref.ref(leaf), leaf._version, count
        return count == _STEPS

    def _tell(self, leaf: Tensor) -> None:
        self._told += 1
        name = TensorNames().of(leaf) or "a tensor"
        self.session.rows.event(
            "leaf-not-held",
            f"{name} of shape {tuple(leaf.shape)} is in the graph of the loss, and no optimizer holds it",
            detail={
                "tensor": name,
                "shape": list(leaf.shape),
                "first": self._first,
                "steps": _STEPS,
            },
        )
