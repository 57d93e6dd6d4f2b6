"""Blocks under activation checkpointing that autograd never hears of: the reentrant kind makes a graph only if an input does.

`checkpoint(block, x, use_reentrant=True)` runs the block without a graph and gives its output one only where x requires a
gradient. Where it does not, as with the raw input of a model, the weights inside never get a gradient.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from ...schemas import Phase
from ..loop.forward import ForwardWatch
from ..session.patches import Patches
from ..session.session import Session

_MOST_ROWS = 400
"""In one run; the gradients that are missing show how long it goes on."""


class ReentrantWatch:
    """Writes a row of `probes` for each block that is checkpointed so."""

    def __init__(self, session: Session, forward: ForwardWatch) -> None:
        self.session = session
        self.forward = forward
        self._rows_left = _MOST_ROWS

    def install(self, patches: Patches) -> None:
        """Wrap the forward of the Function behind reentrant checkpointing."""
        patches.after_import("torch.utils.checkpoint", functools.partial(self._wrap, patches))

    def _wrap(self, patches: Patches, module: Any) -> None:
        noted = self.session.guarded("checkpointed-blocks", self._dropped)

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def forward(ctx: Any, run_function: Any, preserve_rng_state: Any, *args: Any) -> Any:
                self.forward.quiet.allowed = False  # the modules inside are asked for
                ended = self.forward.calls_ended
                result = original(ctx, run_function, preserve_rng_state, *args)
                if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
                    noted(run_function, ended, result)
                return result

            return forward

        patches.wrap(module.CheckpointFunction, "forward", wrap)

    def _dropped(self, function: Any, ended: int, result: Any) -> None:
        """``ended``: how many calls of modules had ended before."""
        session = self.session
        if not session.started or session.in_backward or self._rows_left <= 0:
            return
        inside = self.forward.ended_since(ended)
        owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
        entry = session.catalogue.by_object.get(id(owner)) if isinstance(owner, nn.Module) else None
        module_id = entry.id if entry is not None and entry.ref() is owner else inside
        outputs: Sequence[Any] = result if isinstance(result, (tuple, list)) else (result,)
        if module_id is None or not any(isinstance(t, Tensor) and t.is_floating_point() for t in outputs):
            return
        self._rows_left -= 1
        session.add(
            "probes",
            seq=session.next_seq(),
            phase=int(Phase.FORWARD),
            module_id=module_id,
            probe="checkpointed_without_graph",
            value=1.0,
        )
