"""What the data hold: fields of a batch that nothing uses, inputs that tell nothing of their targets, targets moved too often."""

import torch
from torch import Tensor

from .dependence import Sequence, by_time
from .trial import Probe, Seen, Setting, Trial, result, untried

_ROWS = 4096
"""Samples that are enough to tell a weak connection from none."""
_FEWEST = 1000
"""Samples below which chance is as likely."""
_WIDEST = 512
"""Columns up to which rows of numbers are taken for a table, of which simple models can learn."""
_ROUNDING = 1e-4
"""Share of the outputs' spread that float32 loses over a deep model."""
_CLASSES = 20
_NEIGHBOURS = 10
_CERTAIN = 3.0
"""Standard errors above chance from which something was learnt."""


def fields(setting: Setting) -> Probe:
    """Give every sample the values of the first in one field of the batch that is like another field: the loss must change.

    Two views of a sample, or a pair, have the same shape; of a field that is like no other one cannot say that it should be used.
    """
    name = "dependence-fields"
    base = yield Trial()
    again = yield Trial()
    if base.loss is None or again.loss != base.loss:
        return untried(name, "not-repeatable")
    alike = [
        i
        for i, t in enumerate(setting.batch)
        if t.is_floating_point() and t.dim() >= 2 and t.shape[0] > 1
        and any(o is not t and o.shape == t.shape and o.dtype == t.dtype for o in setting.batch)
    ]  # fmt: skip
    if not alike:
        return untried(name, "no-fields-alike")
    unused: list[int] = []
    for field in alike:

        def edit(tensors: list[Tensor], field: int = field) -> None:
            # exchanging them would be no change to a loss that looks at all pairs
            tensors[field].copy_(tensors[field][:1].clone().expand_as(tensors[field]))

        seen = yield Trial(batch=edit)
        if seen.loss == base.loss and not bool((setting.batch[field] == setting.batch[field][:1]).all()):
            unused.append(field)
    if unused and len(unused) < len(alike):
        return result(name, "doubtful", "field-unused", field=unused[0], fields=len(setting.batch), loss=base.loss)
    if unused:
        return untried(name, "no-fields-alike")
    return result(name, "passed", "fields-used", fields=len(alike))


def signal(setting: Setting) -> Probe:
    """Predict the targets of a table from its rows by a linear model and by nearest neighbours, on samples held out.

    Where neither does better than chance on a thousand samples, rows and targets may not belong together.
    """
    name = "signal"
    rows: list[Tensor] = []
    goals: list[Tensor] = []
    count = 0
    while count < _ROWS:
        seen: Seen = yield Trial(stream=True)
        pair = _table(seen)
        if pair is None or (rows and pair[0].shape[1:] != rows[0].shape[1:]):
            return untried(name, "no-table")
        rows.append(pair[0])
        goals.append(pair[1])
        count += len(pair[0])
        if len(rows) >= setting.steps:
            break
    if count < _FEWEST:
        return untried(name, "too-few-samples", samples=count)
    x, y = torch.cat(rows).double(), torch.cat(goals)
    if y.is_floating_point():
        found = max(_explained(x, y.double()), key=lambda share: share)
        if found * (count - 1) ** 0.5 < _CERTAIN:
            return result(name, "doubtful", "no-signal", samples=count, columns=x.shape[1])
        return result(name, "passed", "signal-number", samples=count, share=found)
    classes, counts = torch.unique(y, return_counts=True)
    if len(classes) < 2 or len(classes) > _CLASSES:
        return untried(name, "no-table")
    base = float(counts.max()) / count
    right = max(_right(x, y))
    # beside the most frequent class a classifier may be right less often and still know something: kappa says what it knows
    if right < _CERTAIN / count**0.5:
        return result(name, "doubtful", "no-signal", samples=count, columns=x.shape[1])
    return result(name, "passed", "signal-class", samples=count, share=right, base=base)


def moved_targets(_: Setting) -> Probe:
    """Compare integer targets with the tokens that enter the model: they are to be the next ones, not the ones after."""
    name = "targets-moved"
    seen = yield Trial(evaluating=True, keep_outputs=True)
    moves: list[int] = []
    copied: list[Sequence] = []
    for i, tokens in enumerate(seen.inputs):
        if tokens.is_floating_point() or tokens.dim() != 2 or tokens.shape[1] < 8 or len(torch.unique(tokens)) < 8:
            continue
        for goal in seen.targets:
            if not goal.is_floating_point() and goal.numel() % tokens.shape[0] == 0:
                by = _moved_by(tokens, goal.reshape(tokens.shape[0], -1))
                moves += [] if by is None else [by]
                copied += [Sequence(i, 1, tokens.shape[1], goal)] if by == 0 else []
    if 1 in moves:  # of a decoder whose encoder reads the same tokens, they are to be copied
        return result(name, "passed", "targets-next", by=1)
    if not moves:
        return untried(name, "no-language-model")
    if moves[0] == 0:
        read = copied[0]
        cut = read.length // 2

        def edit(tensors: list[Tensor]) -> None:
            later = tensors[read.index].narrow(1, cut, read.length - cut)
            later.copy_(later.roll(1, 0))

        after = yield Trial(evaluating=True, keep_outputs=True, inputs=edit)
        place = next((k for k, o in enumerate(seen.outputs) if by_time(o, seen, read) is not None), None)
        if place is not None and len(after.outputs) > place and after.outputs[place].shape == seen.outputs[place].shape:
            same = by_time(seen.outputs[place] == after.outputs[place], seen, read)
            if same is not None and bool(same[: cut + 1].all()) and not bool(same[cut + 1 :].all()):
                return result(name, "passed", "targets-next", by=1)  # the model itself reads what came before
        return result(name, "doubtful", "targets-are-inputs")
    return result(name, "doubtful", "targets-moved-twice", by=moves[0])


def affine(setting: Setting) -> Probe:
    """Give the mean of two inputs: the output must not be the mean of their outputs, or several layers are no more than one."""
    name = "dependence-layers"
    base = yield Trial(evaluating=True, keep_outputs=True, keep_gradients=True)
    matrices = [p for p in setting.parameters if p.dim() >= 2]
    output = base.outputs[0] if base.outputs else None
    slopes = [g for g, p in zip(base.gradients, setting.parameters, strict=False) if p.dim() >= 2 and g is not None]
    if any(not slope.count_nonzero() for slope in slopes):
        return untried(
            name, "no-layers"
        )  # behind it a layer begins at zero: what is left is a shortcut, which is affine
    if output is None or len(matrices) < 2 or not base.inputs or not all(t.is_floating_point() for t in base.inputs):
        return untried(name, "no-layers")
    size = base.inputs[0].shape[0] if base.inputs[0].dim() else 0
    if size < 2 or any(not t.dim() or t.shape[0] != size for t in [*base.inputs, output]):
        return untried(name, "no-layers")

    def edit(tensors: list[Tensor]) -> None:
        for tensor in tensors:
            tensor.copy_((tensor + tensor.roll(1, 0)) / 2)

    seen = yield Trial(evaluating=True, keep_outputs=True, inputs=edit)
    again = yield Trial(evaluating=True, keep_outputs=True)
    if not seen.outputs or not again.outputs or not torch.equal(again.outputs[0], output):
        return untried(name, "not-repeatable")
    mean = (output + output.roll(1, 0)) / 2
    spread = float((output - output.mean(0)).abs().max())
    if spread > 0 and float((seen.outputs[0] - mean).abs().max()) <= _ROUNDING * spread:
        return result(name, "doubtful", "layers-affine", layers=len(matrices))
    return result(name, "passed", "layers-bend", layers=len(matrices))


def _moved_by(tokens: Tensor, goal: Tensor) -> int | None:
    """By how many places targets are ahead of the tokens, if it is the same number at nearly every place that counts."""
    for by in (1, 2, 3, 0):
        length = min(tokens.shape[1] - by, goal.shape[1])
        ahead, there = tokens[:, by : by + length], goal[:, :length]
        counted = there >= 0
        if int(counted.sum()) >= 16 and float((ahead == there)[counted].float().mean()) > 0.98:
            return by
    return None


def _table(seen: Seen) -> tuple[Tensor, Tensor] | None:
    """Rows of numbers and one target each."""
    tables = [t for t in seen.inputs if t.is_floating_point() and t.dim() == 2]
    if len(seen.inputs) != 1 or not tables or not 1 < tables[0].shape[1] <= _WIDEST or not seen.targets:
        return None
    goal = seen.targets[0]
    goal = goal.reshape(-1) if goal.numel() == len(tables[0]) else goal
    if goal.dim() != 1 or len(goal) != len(tables[0]) or not bool(tables[0].isfinite().all()):
        return None
    if (
        goal.is_floating_point()
        and torch.equal(goal, goal.round())
        and float(goal.min()) >= 0
        and float(goal.max()) <= 1
    ):
        goal = goal.long()  # the labels of a binary cross entropy
    return tables[0].cpu(), goal.cpu()


def _halves(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Standardised rows, and which of them are trained and tested on: every other one."""
    x = (x - x.mean(0)) / x.std(0).clamp_min(1e-9)
    even = torch.arange(len(x)) % 2 == 0
    return x, even, ~even


def _linear(x: Tensor, y: Tensor, train: Tensor) -> Tensor:
    """Ridge regression: what it predicts for all rows."""
    ones = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    a = ones[train]
    penalty = 1e-2 * train.sum() * torch.eye(a.shape[1], dtype=a.dtype)
    return ones @ torch.linalg.solve(a.T @ a + penalty, a.T @ y[train])


def _neighbours(x: Tensor, y: Tensor, train: Tensor) -> Tensor:
    """Mean of the nearest rows that were trained on, for all rows."""
    near = torch.cdist(x, x[train]).topk(min(_NEIGHBOURS, int(train.sum())), largest=False).indices
    return y[train][near].mean(1)


def _explained(x: Tensor, y: Tensor) -> list[float]:
    """Correlation of the held-out targets with what each model predicts."""
    x, train, test = _halves(x)
    made = [model(x, y[:, None], train)[test, 0] for model in (_linear, _neighbours)]
    return [float(torch.corrcoef(torch.stack([m, y[test]]))[0, 1].nan_to_num()) / 2**0.5 for m in made]


def _right(x: Tensor, y: Tensor) -> list[float]:
    """Largest correlation, over the classes, of the held-out labels with what each model predicts."""
    x, train, test = _halves(x)
    hot = torch.nn.functional.one_hot(torch.unique(y, return_inverse=True)[1]).double()
    shares: list[float] = []
    for model in (_linear, _neighbours):
        made = model(x, hot, train)[test]
        pairs = zip(made.T, hot[test].T, strict=True)
        shares.append(max(float(torch.corrcoef(torch.stack([m, h]))[0, 1].nan_to_num()) for m, h in pairs) / 2**0.5)
    return shares


ALL = {"dependence-fields": fields, "dependence-layers": affine, "signal": signal, "targets-moved": moved_targets}
