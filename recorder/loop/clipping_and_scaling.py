"""Gradient clipping and loss scaling: what was clipped, to what, and whether the gradients were still scaled then."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..script.wrappers import layout_of, local
from ..session.patches import Patches
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Part
from ..tensors.device import Late, join_when_ready, scalar_of
from ..tensors.norm_parts import Share
from .optimizers import OptimizerWatch


class ClippingWatch(Part):
    """Wraps clip_grad_norm_, clip_grad_value_ and GradScaler."""

    name = "clipping"
    writes = (
        "steps.clip_norm",
        "steps.clip_max_norm",
        "steps.clip_numel",
        "steps.clip_scaled",
        "steps.clip_value",
        "steps.loss_scale",
        "steps.skipped_by_scaler",
    )

    def __init__(self, session: Session, optimizers: OptimizerWatch, scaled: Callable[[Any, Any], None]) -> None:
        super().__init__(session)
        self.optimizers = optimizers
        self.scaled = scaled
        self._scaler_used = False
        self._still_scaled = False
        """Whether gradients of this step come from a loss multiplied by a scale, and nothing has divided them again."""

    def listen(self, signals: Signals) -> None:
        """The gradients of each step are new."""
        signals.row_ends.connect(self.name, self._forget)

    def install(self, patches: Patches) -> None:
        """Put the wrappers into torch."""
        self._wrap_scaler(patches)
        self._wrap_clipping(patches)

    def _wrap_scaler(self, patches: Patches) -> None:
        guarded = functools.partial(self.session.guard.guarded, "scaler")
        steps_of, left_out, scale_of = (
            guarded(self.optimizers.steps_of),
            guarded(self.optimizers.skipped_by_scaler),
            guarded(_scale_of),
        )
        step_row = self.session.step_row

        def steps(scaler: Any, optimizer: Any, *_: Any, **__: Any) -> int | None:
            step_row.loss_scale = scale_of(scaler)
            return steps_of(optimizer)

        def stepped(before: int | None, _result: Any, _scaler: Any, optimizer: Any, *_: Any, **__: Any) -> None:
            if before is not None:
                left_out(optimizer, before)

        scaler = torch.amp.GradScaler
        patches.around(scaler, "scale", after=guarded(self._scaled))
        patches.around(scaler, "unscale_", before=guarded(self._unscaled))
        patches.around(scaler, "step", before=steps, after=stepped)
        patches.around(scaler, "update", before=guarded(lambda *_, **__: step_row.log_call("g")))

    def _wrap_clipping(self, patches: Patches) -> None:
        clip = torch.nn.utils.clip_grad
        before, after = self.guarded(self._clipping), self.guarded(self._clipped)

        def wrap_norm(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def clip_grad_norm_(parameters: Any, max_norm: Any, *args: Any, **kwargs: Any) -> Any:
                if not isinstance(parameters, (Tensor, Sequence)):
                    parameters = list(parameters)  # a generator can be read once
                before(parameters)
                norm = original(parameters, max_norm, *args, **kwargs)
                after(norm, max_norm)
                return norm

            return clip_grad_norm_

        def wrap_known_norm(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def clip_grads_with_norm_(
                parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kwargs: Any
            ) -> Any:
                if not isinstance(parameters, (Tensor, Sequence)):
                    parameters = list(parameters)
                before(parameters)
                result = original(parameters, max_norm, total_norm, *args, **kwargs)
                after(total_norm, max_norm)
                return result

            return clip_grads_with_norm_

        patches.wrap(clip, "clip_grad_norm_", wrap_norm)
        patches.put(torch.nn.utils, "clip_grad_norm_", clip.clip_grad_norm_)
        if hasattr(torch.nn.utils, "clip_grads_with_norm_"):  # what clip_grad_norm_ calls has another name
            patches.wrap(torch.nn.utils, "clip_grads_with_norm_", wrap_known_norm)
        patches.around(clip, "clip_grad_value_", before=self.guarded(self._clipped_by_value), also=[torch.nn.utils])

    # -- what is noted ------------------------------------------------------------------------------------------------

    def _scaled(self, _note: Any, result: Any, scaler: Any, original: Any) -> None:
        self.scaled(original, result)
        if scaler.is_enabled():
            self._scaler_used = True
            scale = _scale_of(scaler)
            self._still_scaled = isinstance(scale, Late) or scale != 1

    def _unscaled(self, *_: Any) -> None:
        if not self.optimizers.in_step:
            self.session.step_row.log_call("u")
        self._still_scaled = False

    def _clipping(self, parameters: Any) -> None:
        session = self.session
        if session.position.unwatched:
            return
        session.step_row.log_call("c")
        tensors = [parameters] if isinstance(parameters, Tensor) else parameters
        facts = session.step_row.facts
        facts["clip_numel"] = facts.get("clip_numel", 0) + sum(p.grad.numel() for p in tensors if p.grad is not None)
        facts["clip_scaled"] = facts.get("clip_scaled", False) or self._still_scaled

    def _clipped(self, total_norm: Any, max_norm: Any) -> None:
        if self.session.position.unwatched:
            return
        # torch joins the norm of sharded gradients over ranks itself, in order to clip by it
        norm = scalar_of(local(total_norm)) if isinstance(total_norm, Tensor) else float(total_norm)
        self._note_part(total_norm, norm)
        if not self._scaler_used:
            self.session.signals.gradients.emit(norm, True, False)
        facts = self.session.step_row.facts
        facts["clip_norm"] = join_when_ready([facts.get("clip_norm", 0.0), norm], _joined)
        facts["clip_max_norm"] = scalar_of(max_norm) if isinstance(max_norm, Tensor) else float(max_norm)

    def _note_part(self, total_norm: Any, norm: "float | Late | None") -> None:
        """Keep apart what torch has left to be joined over ranks."""
        session = self.session
        layout = layout_of(total_norm) if isinstance(total_norm, Tensor) else None
        parts = session.step_row.norm_parts.get("clip_norm", {})
        mine = Share((session.catalogue.rank,))
        if layout is not None and layout.partial:
            parts = parts or (
                {mine: session.step_row.facts["clip_norm"]} if "clip_norm" in session.step_row.facts else {}
            )
            share = Share(layout.shard_ranks, not layout.placements.startswith(_JOINED_BY_SQUARES))
        elif parts:
            share = mine
        else:
            return
        session.step_row.norm_parts["clip_norm"] = {
            **parts,
            share: join_when_ready([parts.get(share, 0.0), norm], _joined),
        }

    def _clipped_by_value(self, _parameters: Any, clip_value: Any, *_: Any, **__: Any) -> None:
        self.session.step_row.log_call("c")
        self.session.step_row.facts["clip_value"] = float(clip_value)

    def _forget(self) -> None:
        self._still_scaled = False


_JOINED_BY_SQUARES = "_NormPartial(2"
"""Placement of an L2 norm of which each rank has a part."""


def _joined(norms: list[float]) -> float:
    """Norm of several sets of gradients clipped apart."""
    return sum(n * n for n in norms) ** 0.5


def _scale_of(scaler: Any) -> "float | Late | None":
    """Scale of a GradScaler, without making the host wait for the device it lies on (its own get_scale() waits); None
    where it is switched off."""
    if not scaler.is_enabled():
        return None
    scale = scaler._scale
    return scalar_of(scale) if isinstance(scale, Tensor) else scaler.get_scale()
