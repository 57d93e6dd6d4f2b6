"""Find parts of a model that the script puts into eval mode to freeze them, and that train() of the whole model resets.

Their running statistics then change again, and their dropout drops again. They are noted at calls of eval() and train(), and
compared at each loss. Nothing is looked at where no part was ever put aside.
"""

import functools
import operator
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from ..base.identity_map import IdentityMap
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch

_MOST = 256
"""Parts that are followed."""


class _Part:
    """A module that the script has put into eval mode."""

    __slots__ = ("frozen", "module", "norm", "rested", "told", "trainable")

    def __init__(self, module: nn.Module, *, trained: bool, early: bool) -> None:
        self.module = weakref.ref(module)
        self.trainable = _trainable(module)
        self.frozen = early and self.trainable == 0 and any(True for _ in module.parameters())
        """Whether that was before the first loss, and none of its parameters is to be trained."""
        self.norm = trained and isinstance(module, _NormBase)
        """Whether it is a norm with running statistics, picked from others: whoever does so wants these to stand still."""
        self.rested = False
        """Whether it was in eval mode in a step of the training."""
        self.told = False


class SetAsideWatch(Watch):
    """Writes event ``mode-undone``."""

    name = "set-aside"
    writes = ("events:mode-undone",)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._parts: IdentityMap[nn.Module, _Part] = IdentityMap()
        self._depth = 0
        self._began = False

    def listen(self, signals: Signals) -> None:
        """Compare modes at each loss."""
        signals.loss.connect(self.name, self._compare)

    def install(self, patches: Patches) -> None:
        """Be told of eval() and train()."""
        patches.around(
            nn.Module, "eval", before=self.guarded(operator.attrgetter("training")), after=self.guarded(self._aside)
        )
        patches.wrap(nn.Module, "train", self._train)

    def _train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        told = self.guarded(self._meant)

        @functools.wraps(original)
        def train(self_: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not len(self._parts) or torch.compiler.is_compiling():
                return original(self_, *args, **kwargs)
            if self._depth == 0:
                told(self_)
            self._depth += 1
            try:
                return original(self_, *args, **kwargs)
            finally:
                self._depth -= 1

        return train

    def _aside(self, trained: bool, _result: Any, module: nn.Module, *_: Any, **__: Any) -> None:
        if len(self._parts) >= _MOST or module in self._parts or torch.compiler.is_compiling():
            return
        if any(isinstance(m, (_NormBase, _DropoutNd)) for m in module.modules()):
            self._parts[module] = _Part(module, trained=trained, early=not self._began)

    def _meant(self, module: nn.Module) -> None:
        """The script sets the mode of this very module: what it says now is what it wants."""
        if module in self._parts:
            self._parts.pop(module)

    def _compare(self, _loss: Tensor) -> None:
        self._began = True
        for part in list(self._parts.values()):
            module = part.module()
            if module is None or part.told:
                continue
            entry = self.session.catalogue.find(module)
            if entry is None or entry.depth == 0:  # unknown so far, or a whole model
                continue
            if not module.training:
                part.rested = True
            elif part.trainable != _trainable(module):
                part.told = True  # somebody has thawed it
            elif (
                part.rested
                or (part.frozen and any(isinstance(m, _NormBase) for m in module.modules()))
                or (part.norm and False not in entry.modes.values())  # no evaluation has used it there
            ):
                part.told = True
                self.session.rows.event(
                    "mode-undone",
                    f"{type(module).__name__} was put into eval mode, and is in training mode again",
                    module_id=entry.id,
                    detail={"class": type(module).__name__},
                )


def _trainable(module: nn.Module) -> int:
    return sum(p.requires_grad for p in module.parameters())
