"""What may be behind a cause that nothing has evidence for: up to three names, each with what speaks for and against it.

Each question is asked of the recording: how large the batch was against all before it, how far the last update moved the
weights, how near to the end of its dtype the largest number was. What the recording cannot answer is said to be unknown. A
candidate is no finding: it says what would tell it from the others.
"""

from typing import Any

from ..language import say
from ..reading.trace import Trace
from ..verdict import Candidate, Finding

_MOST = 3

_ASKED = {"unexplained-jump", "unexplained-nonfinite", "divergence", "loss-spike", "plateau"}
"""Names that say what is wrong and not why."""

_LARGER = 3.0
"""Times the largest earlier batch, or the median update, from which on it speaks for a candidate and not against it."""


def candidates_for(trace: Trace, finding: Finding) -> list[Candidate]:
    """The candidates of a cause, likeliest first; none where the cause is explained by its own rule."""
    if finding.name not in _ASKED or finding.step is None:
        return []
    if finding.name == "plateau":
        return _of_a_plateau(trace, finding)
    where = {"rank": finding.rank, "step": finding.step}
    weighed = [_update(trace, where), _batch(trace, where)]
    if finding.name == "unexplained-nonfinite":
        weighed += [_overflow(trace, finding), _domain(finding)]
    elif finding.name == "unexplained-jump":
        weighed.append(_divisor(finding))
    weighed.append(_hardware(finding))
    weighed.sort(key=lambda w: w[0], reverse=True)
    return [candidate for _, candidate in weighed[:_MOST]]


def _batch(trace: Trace, where: dict[str, Any]) -> tuple[float, Candidate]:
    row = _one(
        trace,
        "SELECT arg_max(field, size) AS field, max(size) AS times FROM (SELECT coalesce(f.field, 'of the input') AS field,"
        " max(f.abs_max) FILTER (f.step = $step) / nullif(max(f.abs_max) FILTER (f.step < $step), 0) AS size"
        " FROM batch_fields f WHERE f.rank = $rank AND f.phase = 'data' AND f.step <= $step GROUP BY ALL)",
        where,
    )
    times = row.get("times")
    if times is None:
        for_, against, weight = "", say("the sizes of the batches before it are not known"), 0.4
    elif times >= _LARGER:
        for_ = say(
            "field {field} is {times} times as large as in any batch before", field=row["field"], times=_g(times)
        )
        against, weight = "", 2.0
    else:
        against = say("no field of this batch is larger than {times} times the largest before", times=_g(times))
        for_, weight = "", 0.2
    tell = say("train step {step} on another batch: if it passes, look at the samples of this one", step=where["step"])
    return weight, Candidate(name="outlier-batch", for_=for_, against=against, tell_apart=tell)


def _update(trace: Trace, where: dict[str, Any]) -> tuple[float, Candidate]:
    row = _one(
        trace,
        "SELECT max(update_ratio) FILTER (step BETWEEN $step - 3 AND $step - 1) AS last,"
        " median(update_ratio) FILTER (step < $step) AS usual, max(lr) FILTER (step = $step) AS lr"
        " FROM optimizer_series WHERE rank = $rank AND step <= $step",
        where,
    )
    last, usual = row.get("last"), row.get("usual")
    if last is None or usual is None:
        for_, against, weight = "", say("updates were not measured before it"), 0.5
    elif last >= 0.1 or last >= _LARGER * usual:
        for_ = say(
            "updates just before moved the weights by {last} of their size, {usual} as a rule",
            last=_g(last),
            usual=_g(usual),
        )
        against, weight = "", 1.8
    else:
        against = say("updates just before were as small as ever ({last} of the weights)", last=_g(last))
        for_, weight = "", 0.3
    tell = say(
        "run once with a tenth of the learning rate ({lr}): if it comes at the same step, it is not the rate",
        lr=_g(row.get("lr")),
    )
    return weight, Candidate(name="lr-too-high", for_=for_, against=against, tell_apart=tell)


def _overflow(trace: Trace, finding: Finding) -> tuple[float, Candidate]:
    row = _one(
        trace,
        "SELECT max(greatest(abs(s.min), abs(s.max))) AS top, bool_or(t.dtype = 'float16') AS half FROM tensor_stats s"
        " JOIN tensors t ON t.rank = s.rank AND t.tensor_id = s.tensor_id WHERE s.rank = $rank"
        " AND s.step BETWEEN $step - 2 AND $step AND t.kind IN"
        " ('activation', 'activation_gradient', 'gradient', 'parameter', 'output')",
        {"rank": finding.rank, "step": finding.step},
    )
    top, half = row.get("top"), bool(row.get("half"))
    tell = say(
        "run step {step} in float32 throughout: an overflow of a narrower dtype does not come again", step=finding.step
    )
    if top is None:
        return 0.4, Candidate(name="fp16-overflow", for_="", against=say("no sizes were measured"), tell_apart=tell)
    limit = 65504.0 if half else 3.4e38
    near = top > 1e-3 * limit
    words = say(
        "the largest finite number near it was {top}, where the dtype ends at {limit}", top=_g(top), limit=_g(limit)
    )
    return (1.6 if near else 0.1), Candidate(
        name="fp16-overflow" if half else "exploding-activations",
        for_=words if near else "",
        against="" if near else words,
        tell_apart=tell,
    )


def _domain(finding: Finding) -> tuple[float, Candidate]:
    backward = finding.phase == "backward"
    name = "infinite-slope" if backward else "domain-error"
    for_ = (
        say("the forward pass is finite and a gradient is not: a derivative was infinite or 0 times infinity")
        if backward
        else say("everything before it in the forward pass was finite: an operation left its domain")
    )
    against = say("no operator that autograd shows was seen at the edge of its domain")
    tell = say(
        "firstfault replay, or torch.autograd.set_detect_anomaly(True) for step {step}, names the operator",
        step=finding.step,
    )
    return 1.0, Candidate(name=name, for_=for_, against=against, tell_apart=tell)


def _divisor(finding: Finding) -> tuple[float, Candidate]:
    return 1.2, Candidate(
        name="tiny-denominator",
        for_=say("it is made by code between modules, where a quotient can be of any size"),
        against=say("no division that autograd shows had a divisor smaller than before"),
        tell_apart=say("print the smallest divisor in that code at step {step}", step=finding.step),
    )


def _hardware(finding: Finding) -> tuple[float, Candidate]:
    return 0.25, Candidate(
        name="silent-data-corruption",
        for_="",
        against=say("nothing was seen that arithmetic could not have made"),
        tell_apart=say(
            "train step {step} again from the same state: what comes again is no fault of the hardware",
            step=finding.step,
        ),
    )


def _of_a_plateau(trace: Trace, finding: Finding) -> list[Candidate]:
    row = _one(
        trace,
        "SELECT median(update_ratio) AS ratio, max(lr) AS lr FROM optimizer_series WHERE rank = $rank AND step >= $step",
        {"rank": finding.rank, "step": finding.step},
    )
    ratio = row.get("ratio")
    rate = _g(row.get("lr"))
    moved = say("an update moves the weights by {ratio} of their size", ratio=_g(ratio)) if ratio is not None else ""
    high, low = ratio is not None and ratio > 1e-2, ratio is not None and ratio < 1e-5
    labels = Candidate(
        name="shuffled-labels",
        for_=say("the loss does not fall while weights move"),
        against="" if not low else moved,
        tell_apart=say(
            "train on one batch alone: if its loss falls to zero, the model can learn and the labels are to be looked at"
        ),
    )
    fast = Candidate(
        name="lr-too-high",
        for_=moved if high else "",
        against="" if high else moved,
        tell_apart=say(
            "run once with a tenth of the learning rate ({lr}): if the loss falls further, it was the rate",
            lr=_g(row.get("lr")),
        ),
    )
    slow = Candidate(
        name="lr-too-low",
        for_=moved if low else "",
        against="" if low else moved,
        tell_apart=say("run once with ten times the learning rate ({lr})", lr=rate),
    )
    return [fast, labels, slow] if high else [slow, labels, fast] if low else [labels, fast, slow]


def _one(trace: Trace, query: str, where: dict[str, Any]) -> dict[str, Any]:
    rows = trace.sql(query, where).to_dicts()
    return rows[0] if rows else {}


def _g(value: Any) -> str:
    return format(value, ".3g") if isinstance(value, (int, float)) else say("not recorded")
