"""Say what a curve is by the words of its name: the loss of the training, one of its terms, a rate, a gradient norm, a score.

Names differ by logger: `lm loss`, `reduced_train_loss`, `train/CrossEntropyLoss`, `loss_metrics/global_avg_loss`. What they
share are words. A name is taken apart at capitals and separators; words that add nothing, such as `train` or `mean`, are
dropped. What is left says which loss it is: `actor`, `box`, `G`, or nothing for the loss itself.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_GLUED = re.compile(
    r"^(train(?:ing)?|val(?:id(?:ation)?)?|eval|test|dev|total|avg|mean|batch|step|epoch)(loss|acc|accuracy|ppl|lr)$"
    r"|^(loss)(step|epoch|train|val|test|total)$"
)
_SEPARATORS = re.compile(r"[/|:.]| - ")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


EVALUATION = _set_of("val valid validation eval evaluation evaluate test testing dev holdout heldout")
_LOSS = frozenset(("loss", "losses", "nll", "xent"))
_PLAIN = _set_of(
    "train training trainer loss losses nll xent step steps epoch batch mean avg average global total samples"
    " metrics running run iter iteration inner lm reduced ce cross entropy log value micro sum objective"
    " overall all minibatch current interval optimization model per token raw local node rank process scalars"
    " scalar logs stats history opt optimizer main whole full"
)
_NO_LOSS = _set_of(
    "scale scaler scaling weight weights coef coefficient factor best min minimum max maximum std stddev var"
    " variance lr time rate count num number ratio fraction stop delta diff change target threshold lambda grad"
    " gradient gradients norm skipped nan tokens percentile median quantile slope improvement patience ppl"
    " perplexity mask"
)
_SMOOTHED = _set_of("ema smooth smoothed running history moving")

PLAYERS = _set_of(
    "actor critic policy pi value vf v q qf qf1 qf2 alpha g d gen generator disc discriminator dis adv"
    " adversarial encoder world reward temperature ent ga gb da db"
)
"""Words that name one of several losses, each with an optimizer or a will of its own."""

TERMS = _set_of(
    "box bbox cls class classifier classification dfl obj objectness giou ciou diou iou seg mask pose kobj rpn"
    " reg l1 l2 centerness dice angle sem bce loc localization keypoint heatmap mlm nsp"
)
"""Words that name a term of one loss, which are added up."""

_RATE_PLAIN = _set_of(
    "train training trainer learning rate lr group pg param default opt optim optimizer optimization adam"
    " adamw sgd adafactor rmsprop lion muon w base current scheduler schedule step steps hyperparams log info"
    " time model value lrs"
)
_NORM_PLAIN = _set_of(
    "train training trainer grad grads gradient gradients norm gnorm gn global total l2 optim optimizer raw"
    " unclipped before clip clipping all model overall log iteration time mean avg value inner whole stats"
)
_SCALE_PLAIN = _set_of("train training loss grad scale scaler amp fp16 current log inner optimizer precision")

_SHOWN = 12
"""Columns that a message names."""

Family = Literal["loss", "player", "term", "lr", "grad_norm", "loss_scale", "other"]


class NameParts(NamedTuple):
    """What a name says. ``which`` holds the words that tell a loss apart from the loss as a whole."""

    family: Family
    which: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in small letters: `train/CrossEntropyLoss` is train, cross, entropy, loss."""
    words: list[str] = []
    for found in _WORD.findall(name):
        word = found.lower()
        glued = _GLUED.match(word)
        words += [part for part in glued.groups() if part] if glued else [word]
    return tuple(words)


def is_evaluation(name: str) -> bool:
    """Whether a curve was measured on other data than those trained on."""
    return not EVALUATION.isdisjoint(words_of(name))


def parts_of(name: str) -> NameParts:
    """The family of a name and the words that set it apart within the family."""
    words = words_of(name)
    there = frozenset(words)
    if not words or not EVALUATION.isdisjoint(there):
        return NameParts("other", words=words)
    families: tuple[tuple[Family, frozenset[str], tuple[str | tuple[str, ...], ...]], ...] = (
        ("lr", _RATE_PLAIN, ("lr", "lrs", ("learning", "rate"))),
        ("grad_norm", _NORM_PLAIN, ("gnorm", ("grad", "norm"), ("gradient", "norm"), ("gradients", "norm"))),
        ("loss_scale", _SCALE_PLAIN, (("loss", "scale"), ("grad", "scale"), ("grad", "scaler"), ("amp", "scale"))),
    )
    for family, plain, at_least in families:
        left = tuple(w for w in words if w not in plain and not w.isdigit())
        wanted = any(there.issuperset((one,) if isinstance(one, str) else one) for one in at_least)
        if wanted and not left:
            return NameParts(family, tuple(w for w in words if w.isdigit()), words)
        if wanted and family == "lr" and len(left) == 1 and left[0] in PLAYERS:
            return NameParts("lr", left, words)
    return _loss_parts(name, words, there)


def _loss_parts(name: str, words: tuple[str, ...], there: frozenset[str]) -> NameParts:
    last = words_of(_SEPARATORS.split(name.strip(" /|:."))[-1])
    in_last = bool(_LOSS & set(last)) or {"cross", "entropy"} <= set(last)
    # `loss/actor` is a loss by its folder; `losses/approx_kl` is not
    in_folder = bool(_LOSS & there) and (all(w in _PLAIN for w in last) or set(last) <= PLAYERS | TERMS)
    if not (in_last or in_folder) or not _NO_LOSS.isdisjoint(there):
        return NameParts("other", words=words)
    if last in {("entropy",), ("entropy", "loss")}:
        return NameParts("other", words=words)  # a bonus for exploring: no training is judged by it
    which = tuple(w for w in words if w not in _PLAIN and w not in _SMOOTHED and not w.isdigit())
    if not which and "value" in last and in_last:
        which = ("value",)
    if not which:
        return NameParts("loss", (), words)
    if PLAYERS.intersection(which):
        return NameParts("player", which, words)
    return NameParts("term", which, words)


def best_loss(names: Sequence[str], points: Sequence[int]) -> str | None:
    """The name of the loss as a whole: the one with most points, then the plainest."""
    ranked = [
        (-count, bool(_SMOOTHED.intersection(parts.words)), len(parts.words), n, name)
        for n, (name, count) in enumerate(zip(names, points, strict=True))
        if (parts := parts_of(name)).family == "loss"
    ]
    return min(ranked)[-1] if ranked else None


def plainest(names: Iterable[str], family: Family) -> list[str]:
    """Names of a family, those with fewest words first."""
    found = [(len(parts.words), n, name) for n, name in enumerate(names) if (parts := parts_of(name)).family == family]
    return [name for *_, name in sorted(found)]


def no_loss(names: Iterable[str]) -> str:
    """What to type where no column is the loss."""
    shown = sorted(names)
    listed = ", ".join(shown[:_SHOWN]) + (" …" if len(shown) > _SHOWN else "")
    likely = next((n for n in shown if "loss" in n.lower()), None)
    typed = f"--loss '{likely}'" if likely else "--loss NAME, if one of them is"
    return f"none of its columns is known as the training loss ({listed}); say which, as with {typed}"
