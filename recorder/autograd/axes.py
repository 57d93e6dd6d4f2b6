"""Which axes a tensor has, followed through the autograd graph: samples, places of a sequence, features.

Sizes alone do not tell a view that splits and joins axes from one that mixes them: (72, 4) → (4, 72) may be either. So each axis
is followed from the operator that makes it. It is a list of atoms, outermost first; a view splits atoms or joins them. What an
operator does that is not known here makes axes of which nothing is known, and of those nothing is said.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import prod
from typing import Any, NamedTuple

from torch import Tensor

from .graph import dimension, shape_of


@dataclass(eq=False, slots=True)
class Atom:
    """A part of an axis that is never seen apart. ``kind``: place (a sample, a token, a pixel), feature, or unknown."""

    size: int
    kind: str
    samples: bool = False
    """Whether it counts the samples of the batch."""
    part: bool = False
    """Whether it was split off a larger one."""


_MANY = 3
"""Axes of a tensor in which two that have exchanged their sizes are no other way of counting: the third is as it was."""

Axis = tuple[Atom, ...]
Axes = list[Axis]


class Mixed(NamedTuple):
    """A view that brings an axis to another place, where only a transpose keeps what belongs together."""

    node: Any
    given: list[int]
    made: list[int]
    moved: int
    """Size of that axis."""


class OverSamples(NamedTuple):
    """Attention, a recurrence or a softmax that goes along the samples of the batch, with another axis in the batch's place."""

    node: Any
    samples: int
    other: int
    axis: int | None = None
    """The axis of a softmax that was told to go along the samples."""


def follow(nodes: list[Any], samples: int | None) -> Iterator[Mixed | OverSamples]:
    """Go through the nodes of a graph in forward order. ``samples``: the size of the batch, where it is known."""
    known: dict[Any, Axes] = {}
    for node in nodes:
        shape = shape_of(node, 0)
        if shape is None:
            continue
        name = type(node).__name__.rstrip("0123456789").removesuffix("Backward")
        givens = [_given(known, behind, place) for behind, place in node.next_functions]
        axes: Axes | None = None
        if name in _VIEWS:
            axes, mixed = _viewed(node, givens[0], shape, samples)
            if mixed is not None:
                yield mixed
        elif (rule := _RULES.get(name)) is not None:
            axes = rule(node, givens, shape, samples)
        if axes is None or [_size(axis) for axis in axes] != shape:
            axes = _alike(givens, shape)
        known[node] = axes
        over = _along_samples(node, name, givens, axes, samples)
        if over is not None:
            yield over


def _given(known: dict[Any, Axes], behind: Any, place: int) -> Axes | None:
    axes = known.get(behind)
    if axes is None or place == 0:
        return axes
    shape = shape_of(behind, place)  # another output of the same operator, such as a chunk
    return _alike([axes], shape) if shape is not None else None


def _size(axis: Axis) -> int:
    return prod(atom.size for atom in axis)


def _alike(givens: list[Axes | None], shape: list[int]) -> Axes:
    """Axes of an operator that keeps the order of axes: those of the same size are taken over."""
    given = next((g for g in givens if g is not None and [_size(a) for a in g] == shape), None)
    given = given or next((g for g in givens if g is not None and len(g) == len(shape)), None)
    if given is None:
        return [(Atom(n, "unknown"),) for n in shape]
    return [axis if _size(axis) == n else (Atom(n, "unknown"),) for axis, n in zip(given, shape, strict=True)]


def _places(shape: list[int], samples: int | None) -> Axes:
    """Axes of places: the first counts the samples, where no other one may."""
    first = samples is not None and shape[:1] == [samples] and samples not in shape[1:]
    return [(Atom(n, "place", samples=first and i == 0),) for i, n in enumerate(shape)]


def _viewed(node: Any, given: Axes | None, shape: list[int], samples: int | None) -> tuple[Axes | None, Mixed | None]:
    """Axes of a view, and what it mixes."""
    if given is None or prod(_size(axis) for axis in given) != prod(shape):
        return None, _exchanged(node, shape, samples)
    made: Axes = []
    mixed = _exchanged(node, shape, samples)
    for before, after in _blocks(given, shape):
        cut = _cut([atom for axis in before for atom in axis], after, samples)
        moved = _moved([axis for axis in before if _size(axis) > 1], [n for n in after if n > 1], cut)
        if moved is not None:
            mixed = Mixed(node, [_size(axis) for axis in given], shape, moved)
        if cut is None or moved is not None:
            cut = [(Atom(n, "unknown"),) for n in after]
        made += cut
    return made, mixed


def _exchanged(node: Any, after: list[int], samples: int | None) -> Mixed | None:
    """The samples and another axis with each other's size, the rest as it was: a view exchanges no axes. The last one may
    have been split by heads: as many of a head's features as samples are chance."""
    before = [int(n) for n in getattr(node, "_saved_self_sym_sizes", ())]
    differ = [i for i, sizes in enumerate(zip(before, after, strict=False)) if sizes[0] != sizes[1]]
    if (
        samples is None
        or len(before) != len(after)
        or len(after) < _MANY
        or len(differ) != 2
        or differ[1] == len(after) - 1
    ):
        return None
    i, j = differ
    sizes = {before[i], before[j]}
    if (
        before[i] != after[j]
        or before[j] != after[i]
        or samples not in sizes
        or 1 in sizes
        or before.count(samples) > 1
    ):
        return None
    return Mixed(node, before, after, samples)


def _blocks(given: Axes, shape: list[int]) -> Iterator[tuple[Axes, list[int]]]:
    """Shortest runs of axes before and after a view that have the same number of elements."""
    before: Axes = []
    after: list[int] = []
    axes, sizes = list(given), list(shape)
    while axes or sizes:
        if axes and (not sizes or _product(before) <= prod(after)):
            before.append(axes.pop(0))
        else:
            after.append(sizes.pop(0))
        if before and after and _product(before) == prod(after):
            yield before, after
            before, after = [], []
    if after:  # ones at the end
        yield before, after


def _product(axes: Axes) -> int:
    return prod(_size(axis) for axis in axes)


def _cut(atoms: list[Atom], sizes: list[int], samples: int | None) -> Axes | None:
    """Atoms shared out among axes of these sizes, split where they must be; None where that leaves a remainder."""
    made: Axes = []
    rest = [atom for atom in atoms if atom.size != 1]
    for size in sizes:
        axis: list[Atom] = []
        missing = size
        while missing > 1:
            if not rest:
                return None
            atom = rest.pop(0)
            if missing % atom.size == 0:
                axis.append(atom)
                missing //= atom.size
            elif atom.size % missing == 0:
                outer, inner = _split(atom, missing, samples)
                axis.append(outer)
                rest.insert(0, inner)
                missing = 1
            else:
                return None
        made.append(tuple(axis) or (Atom(1, "unknown"),))
    return made


def _split(atom: Atom, size: int, samples: int | None) -> tuple[Atom, Atom]:
    # of what was not known the two parts are: they have been joined before, as by a linear layer
    kind = "place" if atom.kind == "unknown" else atom.kind
    first = kind == "place" and (atom.samples or atom.kind == "unknown") and size == samples != atom.size // size
    return (
        Atom(size, kind, samples=first, part=kind == "feature" or atom.kind == "place"),
        Atom(atom.size // size, kind, part=kind == "feature" or atom.kind == "place"),
    )


def _moved(before: Axes, after: list[int], cut: Axes | None) -> int | None:
    """Size of an axis of places that a view brings to another place by tearing it, or that it cannot keep whole at all.

    Frames that are stacked, (T, D) → (T / 2, 2 D), tear an axis as well; so besides it there must be parts of features alone, as
    the heads of attention are, or more axes than before. Where sizes leave a remainder there is no such reading.
    """
    if len(before) < 2 or len(after) < 2 or any(atom.kind == "unknown" for axis in before for atom in axis):
        return None
    sizes = [_size(axis) for axis in before]
    for i, axis in enumerate(before):
        size = sizes[i]
        if sizes.count(size) > 1 or after.count(size) != 1 or prod(sizes[:i]) == prod(after[: after.index(size)]):
            continue
        if cut is None:
            if len(axis) == 1:
                return size
            continue
        whole = len(axis) == 1 and axis[0].kind == "place" and not any(axis[0] in made for made in cut)
        others = [atom for j, other in enumerate(before) if j != i for atom in other]
        if not whole or any(atom.kind != "feature" for atom in others):
            continue
        if len(after) > len(before) or all(atom.part for atom in others):
            return size
    return _out_of_order(before, after, cut)


def _out_of_order(before: Axes, after: list[int], cut: Axes | None) -> int | None:
    """Size of an axis of features that a view tears, to join what is left of it with places, where the same axes in another
    order give the sizes it makes, each whole: there a transpose is missing. Heads are joined with nothing behind them."""
    if cut is None or len(before) > _MANY:
        return None
    sizes = [_size(axis) for axis in before]
    for axis, size in zip(before, sizes, strict=True):
        torn = len(axis) == 1 and axis[0].kind == "feature" and not any(axis[0] in made for made in cut)
        joined = any(
            first.part and first.kind == "feature" and second.kind == "place"
            for made in cut
            for first, second in pairwise(made)
        )
        if torn and joined and any(_groups(list(order), after) for order in permutations(sizes)):
            return size
    return None


def _groups(sizes: list[int], wanted: list[int]) -> bool:
    """Whether sizes, joined as they stand, give these."""
    rest = list(sizes)
    for size in wanted:
        joined = 1
        while joined < size and rest:
            joined *= rest.pop(0)
        if joined != size:
            return False
    return not rest


def _transpose(node: Any, givens: list[Axes | None], _shape: list[int], _samples: int | None) -> Axes | None:
    if givens[0] is None:
        return None
    axes = list(givens[0])
    i, j = (dimension(n, len(axes)) for n in (node._saved_dim0, node._saved_dim1))
    axes[i], axes[j] = axes[j], axes[i]
    return axes


def _permute(node: Any, givens: list[Axes | None], _shape: list[int], _samples: int | None) -> Axes | None:
    given = givens[0]
    return None if given is None else [given[dimension(n, len(given))] for n in node._saved_dims]


def _t(_node: Any, givens: list[Axes | None], _shape: list[int], _samples: int | None) -> Axes | None:
    return None if givens[0] is None else givens[0][::-1]


def _unsqueeze(node: Any, givens: list[Axes | None], shape: list[int], _samples: int | None) -> Axes | None:
    if givens[0] is None:
        return None
    axes = list(givens[0])
    axes.insert(dimension(node._saved_dim, len(shape)), (Atom(1, "unknown"),))
    return axes


def _without(node: Any, givens: list[Axes | None], shape: list[int], _samples: int | None) -> Axes | None:
    """A select, or a squeeze: one axis is gone, or all of size 1."""
    given = givens[0]
    if given is None:
        return None
    gone = getattr(node, "_saved_dim", None)
    if isinstance(gone, int) and len(shape) == len(given) - 1:
        place = dimension(gone, len(given))
        return [axis for i, axis in enumerate(given) if i != place]
    return [axis for axis in given if _size(axis) != 1]


def _reduced(node: Any, givens: list[Axes | None], shape: list[int], _samples: int | None) -> Axes | None:
    given, gone = givens[0], getattr(node, "_saved_dim", None)
    if given is None or gone is None or len(shape) == len(given):
        return None
    places = {dimension(n, len(given)) for n in (gone if isinstance(gone, (tuple, list)) else [gone])}
    return [axis for i, axis in enumerate(given) if i not in places]


def _embedding(_node: Any, _givens: list[Axes | None], shape: list[int], samples: int | None) -> Axes | None:
    return [*_places(shape[:-1], samples), (Atom(shape[-1], "feature"),)]


def _convolution(_node: Any, givens: list[Axes | None], shape: list[int], samples: int | None) -> Axes | None:
    """New features, and places that may be fewer."""
    if len(shape) < 3:
        return None
    axes = _resampled(_node, givens, shape, samples) or _places(shape, samples)
    axes[1] = (Atom(shape[1], "feature"),)
    return axes


def _resampled(_node: Any, givens: list[Axes | None], shape: list[int], _samples: int | None) -> Axes | None:
    given = givens[0]
    if given is None or len(given) != len(shape):
        return None
    return [
        axis if _size(axis) == n else (Atom(n, "place"),) if i > 1 else (Atom(n, "unknown"),)
        for i, (axis, n) in enumerate(zip(given, shape, strict=True))
    ]


def _product_of_two(_node: Any, givens: list[Axes | None], shape: list[int], _samples: int | None) -> Axes | None:
    """Matrix products: addmm has what is added first. The rows are those of the left side."""
    left, right = givens[-2:]
    if len(shape) == 3:
        axis = left[0] if left is not None else right[0] if right is not None else None
        if axis is None:
            return None
        rows = left[1] if left is not None else (Atom(shape[1], "unknown"),)
        columns = right[2] if right is not None else (Atom(shape[2], "unknown"),)
        return [axis, rows, columns]
    rows = left[0] if left is not None and len(left) == 2 else (Atom(shape[0], "unknown"),)
    return [rows, (Atom(shape[1], "feature"),)]


def _attention(_node: Any, givens: list[Axes | None], shape: list[int], _samples: int | None) -> Axes | None:
    query, value = givens[0], givens[2]
    if query is None:
        return None
    return [*query[:-1], value[-1] if value is not None else (Atom(shape[-1], "unknown"),)]


def _stack(node: Any, givens: list[Axes | None], shape: list[int], _samples: int | None) -> Axes | None:
    given = next((g for g in givens if g is not None), None)
    if given is None:
        return None
    axes, place = list(given), dimension(node._saved_dim, len(shape))
    axes.insert(place, (Atom(shape[place], "feature", part=True),))
    return axes


def _recurrence(node: Any, givens: list[Axes | None], shape: list[int], samples: int | None) -> Axes | None:
    given = givens[0]
    if given is None:
        entered = getattr(node, "_saved_input", None)
        if not isinstance(entered, Tensor) or entered.dim() != 3:
            return None
        given = givens[0] = _places(list(entered.shape), samples)
    return [*given[:2], (Atom(shape[-1], "feature"),)] if len(given) == 3 else None


def _along_samples(
    node: Any, name: str, givens: list[Axes | None], axes: Axes, samples: int | None
) -> OverSamples | None:
    """Whether attention or a recurrence goes along the samples, while places of one sample stand where the batch belongs."""
    axis = None
    if samples is None:
        return None
    if name.startswith("ScaledDotProduct") and givens[1] is not None and len(givens[1]) > 2:
        along, beside = givens[1][-2], givens[1][:-2]
    elif name in _SOFTMAXES and len(axes) > 1:
        axis = dimension(node._saved_dim, len(axes))
        scores = axis == len(axes) - 1 and len(axes) > 2  # of attention: the rows before are its queries
        along, beside = axes[axis], axes[:-2] if scores else axes[:axis] + axes[axis + 1 :]
    elif name in _RECURRENCES and givens[0] is not None and len(givens[0]) == 3:
        first = name == "CudnnRnn" and bool(node._saved_batch_first)  # on the CPU it has been transposed before
        along, beside = givens[0][first], [givens[0][not first]]
    else:
        return None
    others = [atom for axis in beside for atom in axis]
    if not any(atom.samples for atom in along) or any(atom.kind == "unknown" and atom.size > 1 for atom in others):
        return None
    places = [atom for atom in others if atom.kind == "place" and atom.size > 1]
    if not places or any(atom.samples for atom in others):
        return None
    return OverSamples(node, samples, places[0].size, axis)


_VIEWS = {"View", "UnsafeView", "ReshapeAlias"}

_SOFTMAXES = {"Softmax", "SafeSoftmax"}

_RECURRENCES = {"MkldnnRnnLayer", "CudnnRnn", "MiopenRnn"}

_RULES: dict[str, Callable[[Any, list[Axes | None], list[int], int | None], Axes | None]] = {
    "Transpose": _transpose,
    "Permute": _permute,
    "T": _t,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _without,
    "Select": _without,
    "Sum": _reduced,
    "Mean": _reduced,
    "Amax": _reduced,
    "Max": _reduced,
    "Embedding": _embedding,
    "Convolution": _convolution,
    **dict.fromkeys(("MaxPool2DWithIndices", "MaxPool3DWithIndices", "AvgPool2D", "AvgPool3D"), _resampled),
    **dict.fromkeys(("AdaptiveAvgPool2D", "AdaptiveMaxPool2D", "UpsampleNearest2D", "UpsampleNearest1D"), _resampled),
    "Addmm": _product_of_two,
    "Mm": _product_of_two,
    "Bmm": _product_of_two,
    "Baddbmm": _product_of_two,
    "ScaledDotProductFlashAttentionForCpu": _attention,
    "ScaledDotProductFlashAttention": _attention,
    "ScaledDotProductEfficientAttention": _attention,
    "ScaledDotProductCudnnAttention": _attention,
    "Stack": _stack,
    **dict.fromkeys(_RECURRENCES, _recurrence),
}
