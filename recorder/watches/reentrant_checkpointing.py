"""Blocks under activation checkpointing that autograd never hears of: the reentrant kind makes a graph only if an input does.

`checkpoint(block, x, use_reentrant=True)` runs the block without a graph and gives its output one only where x requires a
gradient. Where it does not, as with the raw input of a model, the weights inside never get a gradient.
"""

import functools
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ...schemas import Phase
from ..loop.forward import ForwardWatch
from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch

_MOST_ROWS = 400
"""In one run; the gradients that are missing show how long it goes on."""


class ReentrantWatch(Watch):
    """Writes a row of `probes` for each block that is checkpointed so."""

    name = "checkpointed-blocks"
    writes = ("probes:checkpointed_without_graph",)

    def __init__(self, session: Session, forward: ForwardWatch) -> None:
        super().__init__(session)
        self.forward = forward
        self._rows_left = _MOST_ROWS

    def install(self, patches: Patches) -> None:
        """Wrap the forward of the Function behind reentrant checkpointing."""
        patches.after_import("torch.utils.checkpoint", functools.partial(self._wrap, patches))

    def _wrap(self, patches: Patches, module: Any) -> None:
        patches.around(
            module.CheckpointFunction, "forward", before=self.guarded(self._begins), after=self.guarded(self._ends)
        )

    def _begins(self, *_: Any) -> int:
        """How many calls of modules have ended before."""
        self.forward.quiet.allowed = False  # the modules inside are asked for
        return self.forward.calls_ended

    def _ends(self, ended: int, result: Any, _ctx: Any, function: Any, _preserve: Any, *args: Any) -> None:
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            self._dropped(function, ended, result)

    def _dropped(self, function: Any, ended: int, result: Any) -> None:
        """``ended``: how many calls of modules had ended before."""
        session = self.session
        if not session.started or session.position.in_backward or self._rows_left <= 0:
            return
        inside = self.forward.ended_since(ended)
        owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
        entry = session.catalogue.by_object.get(id(owner)) if isinstance(owner, nn.Module) else None
        module_id = entry.id if entry is not None and entry.ref() is owner else inside
        outputs: Sequence[Any] = result if isinstance(result, (tuple, list)) else (result,)
        if module_id is None or not any(isinstance(t, Tensor) and t.is_floating_point() for t in outputs):
            return
        self._rows_left -= 1
        session.rows.add(
            "probes",
            seq=session.position.next_seq(),
            phase=int(Phase.FORWARD),
            module_id=module_id,
            probe="checkpointed_without_graph",
            value=1.0,
        )
