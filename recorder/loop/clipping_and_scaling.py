"""Gradient clipping and loss scaling: what was clipped, to what, and whether the gradients were still scaled then."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..script.wrappers import layout_of, local
from ..session.patches import Patches
from ..session.session import Session
from ..tensors.device import Late, either, scalar_of
from ..tensors.norm_parts import Share
from .optimizers import OptimizerWatch


class ClippingWatch:
    """Wraps clip_grad_norm_, clip_grad_value_ and GradScaler."""

    def __init__(self, session: Session, optimizers: OptimizerWatch, scaled: Callable[[Any, Any], None]) -> None:
        self.session = session
        self.optimizers = optimizers
        self.scaled = scaled
        self._scaler_used = False
        self._still_scaled = False
        """Whether gradients of this step come from a loss multiplied by a scale, and nothing has divided them again."""
        session.at_finish.append(("clipping", self._forget))

    def install(self, patches: Patches) -> None:
        """Put the wrappers into torch."""
        self._wrap_scaler(patches)
        self._wrap_clipping(patches)

    def _wrap_scaler(self, patches: Patches) -> None:
        session, guarded = self.session, self.session.guarded
        steps_of, left_out = guarded("scaler", self.optimizers.steps_of), guarded("scaler", self.optimizers.left_out)
        scaled, unscaled = guarded("scaler", self._scaled), guarded("scaler", self._unscaled)
        scale_of, updated = guarded("scaler", _scale_of), guarded("scaler", lambda: session.called("g"))

        def wrap_scale(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def scale(self: Any, outputs: Any) -> Any:
                result = original(self, outputs)
                scaled(self, outputs, result)
                return result

            return scale

        def wrap_unscale(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def unscale_(self: Any, optimizer: Any) -> Any:
                unscaled()
                return original(self, optimizer)

            return unscale_

        def wrap_step(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
                before = steps_of(optimizer)
                session.loss_scale = scale_of(self)
                result = original(self, optimizer, *args, **kwargs)
                if before is not None:
                    left_out(optimizer, before)
                return result

            return step

        def wrap_update(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def update(self: Any, *args: Any, **kwargs: Any) -> Any:
                updated()
                return original(self, *args, **kwargs)

            return update

        patches.wrap(torch.amp.GradScaler, "scale", wrap_scale)
        patches.wrap(torch.amp.GradScaler, "unscale_", wrap_unscale)
        patches.wrap(torch.amp.GradScaler, "step", wrap_step)
        patches.wrap(torch.amp.GradScaler, "update", wrap_update)

    def _wrap_clipping(self, patches: Patches) -> None:
        clip = torch.nn.utils.clip_grad
        guarded = self.session.guarded
        before, after = guarded("clipping", self._clipping), guarded("clipping", self._clipped)
        by_value = guarded("clipping", self._clipped_by_value)

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

        def wrap_value(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def clip_grad_value_(parameters: Any, clip_value: Any, *args: Any, **kwargs: Any) -> Any:
                by_value(clip_value)
                return original(parameters, clip_value, *args, **kwargs)

            return clip_grad_value_

        patches.wrap(clip, "clip_grad_norm_", wrap_norm)
        patches.put(torch.nn.utils, "clip_grad_norm_", clip.clip_grad_norm_)
        if hasattr(torch.nn.utils, "clip_grads_with_norm_"):  # what clip_grad_norm_ calls has another name
            patches.wrap(torch.nn.utils, "clip_grads_with_norm_", wrap_known_norm)
        patches.wrap(clip, "clip_grad_value_", wrap_value)
        patches.put(torch.nn.utils, "clip_grad_value_", clip.clip_grad_value_)

    # -- what is noted ------------------------------------------------------------------------------------------------

    def _scaled(self, scaler: Any, original: Any, result: Any) -> None:
        self.scaled(original, result)
        if scaler.is_enabled():
            self._scaler_used = True
            scale = _scale_of(scaler)
            self._still_scaled = isinstance(scale, Late) or scale != 1

    def _unscaled(self) -> None:
        if not self.optimizers.in_step:
            self.session.called("u")
        self._still_scaled = False

    def _clipping(self, parameters: Any) -> None:
        session = self.session
        if session.unwatched:
            return
        session.called("c")
        tensors = [parameters] if isinstance(parameters, Tensor) else parameters
        facts = session.facts
        facts["clip_numel"] = facts.get("clip_numel", 0) + sum(p.grad.numel() for p in tensors if p.grad is not None)
        facts["clip_scaled"] = facts.get("clip_scaled", False) or self._still_scaled

    def _clipped(self, total_norm: Any, max_norm: Any) -> None:
        if self.session.unwatched:
            return
        # torch joins the norm of sharded gradients over ranks itself, in order to clip by it
        norm = scalar_of(local(total_norm)) if isinstance(total_norm, Tensor) else float(total_norm)
        self._note_part(total_norm, norm)
        if not self._scaler_used:
            self.session.on_gradients(norm, early=True)
        facts = self.session.facts
        facts["clip_norm"] = either([facts.get("clip_norm", 0.0), norm], _joined)
        facts["clip_max_norm"] = scalar_of(max_norm) if isinstance(max_norm, Tensor) else float(max_norm)

    def _note_part(self, total_norm: Any, norm: "float | Late | None") -> None:
        """Keep apart what torch has left to be joined over ranks."""
        session = self.session
        layout = layout_of(total_norm) if isinstance(total_norm, Tensor) else None
        parts = session.norm_parts.get("clip_norm", {})
        mine = Share((session.catalogue.rank,))
        if layout is not None and layout.partial:
            parts = parts or ({mine: session.facts["clip_norm"]} if "clip_norm" in session.facts else {})
            share = Share(layout.shard_ranks, not layout.placements.startswith(_JOINED_BY_SQUARES))
        elif parts:
            share = mine
        else:
            return
        session.norm_parts["clip_norm"] = {**parts, share: either([parts.get(share, 0.0), norm], _joined)}

    def _clipped_by_value(self, clip_value: Any) -> None:
        self.session.called("c")
        self.session.facts["clip_value"] = float(clip_value)

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
