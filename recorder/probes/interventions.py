"""Interventions: the fixes of causes in executable form, switched into a re-run of the script from a step on.

Each is a class that installs its hooks and changes nothing before its step. What a rule's cause is confirmed by stands in
reports/reruns/interventions.toml, by these names.
"""

import contextlib
from collections.abc import Callable, Generator
from typing import Any

from ..session.patches import Patches
from .batch_learnt import BatchLearnt
from .checkpoints_aside import CheckpointsBack
from .data_interventions import (
    BatchReplaced,
    DomainsKept,
    InputsClipped,
    MaskedRowsOpened,
    TargetsKept,
    TargetsMoved,
)
from .epoch_end import EpochShortened
from .exception_interventions import OperandsCast, SampleLeftOut, SavedCopied
from .model_interventions import AllTrained, Deterministic, Eager, LossTurned, TermTurned, TrainMode
from .optimizer_interventions import (
    Clipped,
    EpsLarger,
    EpsSmaller,
    GradientsCleared,
    GradientsFinite,
    GradientsOfThisRound,
    Intervention,
    LrHeld,
    LrKept,
    LrRaised,
    LrScaled,
    LrTenfold,
    Nothing,
    NoWeightDecay,
    StateKept,
    StateReset,
)
from .precision_interventions import AutocastOff, AutocastOn, Float32, Float64, LossScaled
from .rank_interventions import OneRank, SumsMadeAnew
from .script_end import PassesShortened

INTERVENTIONS: dict[str, tuple[type[Intervention], dict[str, Any]]] = {
    "nothing": (Nothing, {}),
    "batch-replaced": (BatchReplaced, {}),
    "inputs-clipped": (InputsClipped, {}),
    "sample-left-out": (SampleLeftOut, {}),
    "saved-copied": (SavedCopied, {}),
    "operands-cast": (OperandsCast, {}),
    "lr-kept": (LrKept, {}),
    "lr-tenth": (LrScaled, {}),
    "lr-held": (LrHeld, {}),
    "lr-tenfold": (LrTenfold, {}),
    "lr-hundredfold": (LrRaised, {}),
    "clip-on": (Clipped, {}),
    "eps-larger": (EpsLarger, {}),
    "eps-smaller": (EpsSmaller, {}),
    "gradients-cleared": (GradientsCleared, {}),
    "gradients-of-this-round": (GradientsOfThisRound, {}),
    "gradients-finite": (GradientsFinite, {}),
    "no-weight-decay": (NoWeightDecay, {}),
    "optimizer-state-reset": (StateReset, {}),
    "optimizer-state-kept": (StateKept, {}),
    "autocast-off": (AutocastOff, {}),
    "autocast-on": (AutocastOn, {}),
    "float32": (Float32, {}),
    "float64": (Float64, {}),
    "loss-scaled-up": (LossScaled, {"factor": 2.0**12}),
    "loss-scaled-down": (LossScaled, {"factor": 2.0**-8}),
    "masked-rows-opened": (MaskedRowsOpened, {}),
    "log-above-zero": (DomainsKept, {"functions": ["log", "log2", "log10", "log1p", "pow", "rsqrt", "reciprocal"]}),
    "sqrt-above-zero": (DomainsKept, {"functions": ["sqrt", "rsqrt", "norm", "pow"]}),
    "divisor-not-zero": (DomainsKept, {"functions": ["div", "true_divide", "reciprocal"]}),
    "domain-kept": (DomainsKept, {"functions": ["acos", "asin", "arccos", "arcsin", "atanh", "log", "sqrt"]}),
    "exp-bounded": (DomainsKept, {"functions": ["exp", "expm1"]}),
    "targets-in-range": (TargetsKept, {}),
    "targets-from-zero": (TargetsMoved, {}),
    "modes-set": (TrainMode, {}),
    "loss-turned": (LossTurned, {}),
    "first-term-turned": (TermTurned, {"term": 0}),
    "second-term-turned": (TermTurned, {"term": 1}),
    "third-term-turned": (TermTurned, {"term": 2}),
    "all-trained": (AllTrained, {}),
    "eager": (Eager, {}),
    "deterministic": (Deterministic, {}),
    "epoch-shortened": (EpochShortened, {}),
    "passes-shortened": (PassesShortened, {}),
    "batch-learnt": (BatchLearnt, {}),
    "rehearsed-checkpoints": (CheckpointsBack, {}),
    "one-rank": (OneRank, {}),
    "sums-made-anew": (SumsMadeAnew, {}),
}
"""Name of an intervention → its class and its values."""


def begin(name: str, step: int, values: dict[str, Any], now: Callable[[], int]) -> Patches:
    """Install an intervention by its name. Raises KeyError for one that does not exist."""
    kind, own = INTERVENTIONS[name]
    patches = Patches()
    kind(now, step, {**own, **values}).install(patches)
    return patches


@contextlib.contextmanager
def intervened(name: str, step: int = 0, now: Callable[[], int] = lambda: 0, **values: Any) -> Generator[None]:
    """The same around a block of one's own code."""
    patches = begin(name, step, values, now)
    try:
        yield
    finally:
        patches.undo()
