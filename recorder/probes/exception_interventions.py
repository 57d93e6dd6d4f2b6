"""Interventions against exceptions: samples left out, saved activations copied, operands of different types cast."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.data._utils import fetch

from ...schemas.files.probe_report import LEFT_OUT
from ..session.patches import Patches
from .optimizer_interventions import Intervention
from .stage import replaced, tensors_of


class SampleLeftOut(Intervention):
    """Samples that the data set cannot give, or that do not fit to the others of their batch, replaced by another one of it.

    From the beginning, not from the step on: a worker reads ahead, and does not know the step.
    """

    def install(self, patches: Patches) -> None:
        """Wrap what reads the samples of a batch, in this process and in workers that are forks of it."""

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def read(fetcher: Any, indices: Any) -> Any:
                try:
                    return original(fetcher, indices)
                except Exception:
                    if not fetcher.auto_collation:
                        raise
                    batch = self._without_bad(fetcher, list(indices))
                    if batch is None:
                        raise
                    return batch

            return read

        patches.wrap(fetch._MapDatasetFetcher, "fetch", wrap)

    def _without_bad(self, fetcher: Any, indices: list[Any]) -> Any:
        """The batch of those that can be had together; None where there are none, or where all can."""
        read = {i: given for i in indices if (given := _tried(fetcher.dataset.__getitem__, i)) is not None}
        for sample in read.values():  # the odd one may be the first: those that fit to it are then fewer than half
            fits = [i for i in read if _tried(fetcher.collate_fn, [sample, read[i]]) is not None]
            if 2 * len(fits) >= len(read):
                bad = [i for i in indices if i not in fits]
                batch = _tried(fetcher.collate_fn, [read[i if i in fits else fits[0]] for i in indices])
                if batch is not None and bad:
                    self._note(bad)
                    return batch
        return None

    def _note(self, indices: list[Any]) -> None:
        folder = self.values.get("folder")
        numbers = [str(int(i)) for i in indices if isinstance(i, int) or hasattr(i, "__index__")]
        if folder and numbers:
            file = os.open(Path(folder) / LEFT_OUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.write(file, ("\n".join(numbers) + "\n").encode())  # one write: several workers may leave out some
            os.close(file)


def _tried(function: Callable[..., Any], argument: Any) -> Any:
    try:
        return function(argument)
    except Exception:  # noqa: BLE001 — the script's own code, which raises: that is what it is called for
        return None


class SavedCopied(Intervention):
    """What autograd saves for backward is copied: what is changed in place afterwards stays as it was."""

    def install(self, patches: Patches) -> None:
        """Hooks of all tensors that are saved in this thread."""

        def pack(tensor: Tensor) -> tuple[Tensor, int]:
            kept = tensor.detach()  # the tensor itself would hold the graph that holds it
            kept = kept.clone() if self.active else kept
            return kept, kept._version

        def unpack(packed: tuple[Tensor, int]) -> Tensor:
            kept, version = packed
            if kept._version != version:  # hooks take this check out of torch's hands
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation"
                )
            return kept

        hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
        hooks.__enter__()
        patches.later(lambda: hooks.__exit__(None, None, None))


class OperandsCast(Intervention):
    """A function that refuses floating operands of several types gets them in the widest of these types."""

    def install(self, patches: Patches) -> None:
        """A mode in which each function of torch is called."""
        mode = _Casting(self)
        mode.__enter__()
        patches.later(lambda: mode.__exit__(None, None, None))


class _Casting(TorchFunctionMode):
    def __init__(self, intervention: Intervention) -> None:
        super().__init__()
        self.intervention = intervention

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        try:
            return func(*args, **given)
        except (RuntimeError, TypeError):
            kinds = {t.dtype for t in tensors_of((args, given)) if t.is_floating_point()}
            if not self.intervention.active or len(kinds) < 2:
                raise
            widest = functools.reduce(torch.promote_types, kinds)
            args, given = replaced((args, given), lambda t: t.to(widest) if t.is_floating_point() else t)
            return func(*args, **given)
