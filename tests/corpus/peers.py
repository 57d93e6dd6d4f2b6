"""Thresholds that other tools ship, held against the same recordings: what a user would be told elsewhere.

Each is one SELECT over our own recording that returns a row where the tool's rule, with its documented default, would fire.
Where the tool takes the mean of absolute values and we have recorded the root mean square, the latter stands in (it is the
larger of the two, so a "too small" rule fires a little less often here). The tools judge what they are given and no more:
which tensor is first, and what brought about what, is not theirs to say, so only the kind of fault is compared.
"""

from dataclasses import dataclass

from firstfault.analyzer import Trace

_AWS = "https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html"
_LIGHTNING = "https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.EarlyStopping.html"


@dataclass(frozen=True, slots=True)
class Peer:
    """A rule of another tool: the names of our catalogue that its alarm could stand for, and where its default is documented."""

    name: str
    default: str
    means: frozenset[str]
    source: str
    select: str


_NONFINITE = frozenset(
    {
        "nonfinite-input", "log-of-zero", "sqrt-at-zero", "masked-branch-nan-gradient", "fully-masked-attention-row",
        "division-by-zero", "fp16-overflow", "mask-fill-overflow", "optimizer-eps-underflow", "norm-overflow",
        "nonfinite-weights-loaded", "nonfinite-tensor", "exploding-gradients", "divergence", "lr-too-high",
        "all-targets-ignored", "infeasible-ctc-target",
    }
)  # fmt: skip

PEERS = (
    Peer(
        "SageMaker Debugger VanishingGradient",
        "mean absolute gradient of a tensor below 1e-7",
        frozenset({"vanishing-gradients", "frozen-by-zero-gradient", "dead-relu", "saturated-activation"}),
        _AWS,
        "SELECT 1 FROM stats WHERE kind = 'gradient' AND NOT coalesce(missing, false) AND rms < 1e-7",
    ),
    Peer(
        "SageMaker Debugger ExplodingTensor",
        "any NaN or infinite value",
        _NONFINITE,
        _AWS,
        "SELECT 1 FROM stats WHERE nonfinite_count > 0 AND kind <> 'input'",
    ),
    Peer(
        "SageMaker Debugger LossNotDecreasing",
        "less than 0.1 % down over 10 steps",
        frozenset(
            {"plateau", "underfit", "divergence", "lr-too-low", "no-optimizer-step", "zero-lr", "shuffled-labels"}
        ),
        _AWS,
        "SELECT 1 FROM (SELECT loss, lag(loss, 10) OVER (PARTITION BY rank ORDER BY step) AS before FROM step_series)"
        " WHERE isfinite(loss) AND isfinite(before) AND (before - loss) / nullif(abs(before), 0) * 100 < 0.1",
    ),
    Peer(
        "SageMaker Debugger WeightUpdateRatio",
        "update / weight above 10 or below 1e-8",
        frozenset(
            {
                "lr-too-high",
                "lr-spike",
                "lr-too-low",
                "zero-lr",
                "no-optimizer-step",
                "parameters-not-in-optimizer",
                "silent-backend-noop",
                "update-lost-to-rounding",
            }
        ),
        _AWS,
        "SELECT 1 FROM step_series WHERE update_ratio > 10 OR update_ratio < 1e-8",
    ),
    Peer(
        "SageMaker Debugger DeadRelu",
        "half of a layer's outputs zero in 99 % of cases",
        frozenset({"dead-relu"}),
        _AWS,
        "SELECT 1 FROM stats WHERE kind = 'activation' AND class_name = 'ReLU' AND zero_count > 0.995 * numel",
    ),
    Peer(
        "SageMaker Debugger AllZero",
        "every value of a tensor zero",
        frozenset(
            {"frozen-by-zero-gradient", "dead-relu", "symmetric-init", "constant-input", "zero-grad-before-step"}
        ),
        _AWS,
        "SELECT 1 FROM stats WHERE kind IN ('activation', 'gradient', 'parameter') AND sum_sq = 0 AND numel > 1"
        " AND nonfinite_count = 0 AND NOT coalesce(missing, false)",
    ),
    Peer(
        "Lightning EarlyStopping(check_finite) / a NaN check on the loss",
        "loss not finite",
        _NONFINITE,
        _LIGHTNING,
        "SELECT 1 FROM steps WHERE NOT isfinite(loss)",
    ),
)


def fired(trace: Trace) -> list[str]:
    """Names of the peers whose default would have raised an alarm at some step of this recording."""
    return [p.name for p in PEERS if trace.sql(f"{p.select} LIMIT 1").height]
