"""Samples of an evaluation that are trained on too: by their positions in one data set, or by what is read at them.

The data sets of an evaluation are those whose variable says so (``val_loader``, ``self.test_loader``, ``loaders["dev"]``,
``X_test``): a loader of a script may be for anything else, such as features of the training data or accuracies on them.
"""

import hashlib
import math
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from ...schemas.files.probe_report import ProbeResult
from ..script.frames import is_users
from .child_process import NoAnswerError, in_a_child
from .read_again import as_tensors, set_seeds
from .stage import tensors_of
from .trial import result, untried

NAME = "sets-apart"

_SECONDS = 3.0
_READING = 0.9
"""Share of these seconds after which nothing more is read."""
_TRAINING = 2000
_EVALUATION = 500
_AGAIN = 3
_READINGS = 6
"""Samples that are read so often: augmented ones differ then. A flip of half of the images stays hidden
once in 30 000. Arithmetic."""
_FEWEST = 10
"""Samples in both below which chance is as likely. Convention: of this project, of rows that a window shares at a border."""
_SHARE = 0.1
"""Share of an evaluation from which its score is another one. Arithmetic: less moves it by less than a tenth of what is learnt by
heart."""
_CHANCE = 3.0
"""Times what chance gives, and standard errors above it. Convention: three standard errors."""
_BITS = 10
"""Powers of two by which there must be more possible samples than samples: small spaces are covered. Arithmetic."""
_POSITIONS = 5_000_000
_COLUMNS = 512
_SETS = 8
_ARRAY_ROWS = 20_000
_ARRAY_SIZE = 1 << 26

_EVALUATES = re.compile(
    r"(val|valid|validation|test|testing|eval|evaluation|dev|holdout|heldout)(loader|set|data|dataset|dl|ds|x)?s?"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TRAINS = re.compile(r"train|^tr$")


@dataclass(frozen=True, slots=True)
class Samples:
    """A data set at the positions that a loader reads of it."""

    name: str
    dataset: Any
    indices: Sequence[int]


def judge(iterator: Any, entered: list[Tensor], frame: FrameType | None) -> ProbeResult | None:
    """Compare the samples that feed the training with those of each evaluation among the variables of the script's frames.

    None where there is none.
    """
    variables = list(_variables(frame))
    training = _samples("", getattr(iterator, "_dataset", None), getattr(iterator, "_index_sampler", None))
    found: list[ProbeResult] = []
    if training is not None:
        sets = _evaluations(variables, training)
        found = [_by_position(training, s) or _by_reading(training, s) for s in sets]
    else:
        found = _arrays_compared(variables, entered)
    order = {"doubtful": 2, "passed": 1, "untried": 0}
    return max(found, key=lambda f: order[f.outcome], default=None)


# -- what is compared -----------------------------------------------------------------------------------------------------


def _variables(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """Variables of the script's functions in progress, the innermost first, with one level of attributes and keys."""
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for name, value in list(frame.f_locals.items()):
                yield name, value
                if isinstance(value, dict) and len(value) <= _SETS and not name.startswith("__"):
                    yield from ((f"{name}[{k!r}]", v) for k, v in list(value.items()) if isinstance(k, str))
                elif name == "self" or not isinstance(value, torch.nn.Module | DataLoader | type):
                    held = getattr(value, "__dict__", None)
                    file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
                    if isinstance(held, dict) and file is not None and is_users(file):
                        yield from ((f"{name}.{k}", v) for k, v in list(held.items()))
        frame = frame.f_back


def says_evaluation(name: str) -> bool:
    """Whether a variable is named after an evaluation: ``valid_x``, ``self.testLoader``, ``loaders['dev']``."""
    words = [w.lower() for w in _WORDS.findall(re.split(r"[.\[]", name)[-1])]
    return any(_EVALUATES.fullmatch(w) for w in words) and not any(_TRAINS.search(w) for w in words)


def _evaluations(variables: list[tuple[str, Any]], training: Samples) -> list[Samples]:
    found: list[Samples] = []
    parts = {id(d) for d in _parts(training.dataset)}
    if _unread(variables, training.dataset):
        parts.discard(id(training.dataset))
    for name, value in variables:
        if not isinstance(value, DataLoader) or not says_evaluation(name) or len(found) == _SETS:
            continue
        samples = _samples(name, value.dataset, value.batch_sampler)
        if samples is None or any(samples.dataset is f.dataset and samples.indices == f.indices for f in found):
            continue
        # a data set that is part of the training by what the script says is a training on all there is
        if not (id(value.dataset) in parts and len(samples.indices) == _length(value.dataset)):
            found.append(samples)
    return found


def _unread(variables: list[tuple[str, Any]], training: Any) -> bool:
    """Whether the script has a data set for an evaluation that none of its loaders reads: they read another by mistake."""
    loaders = [value.dataset for _, value in variables if isinstance(value, DataLoader)]
    read = {id(part) for dataset in [*loaders, training] for part in _parts(dataset)}
    return any(isinstance(v, Dataset) and says_evaluation(name) and id(v) not in read for name, v in variables)


def _length(dataset: Any) -> int:
    return len(dataset)


def _parts(dataset: Any) -> Iterator[Any]:
    yield dataset
    for part in dataset.datasets if type(dataset) is ConcatDataset else ():
        yield from _parts(part)


def _samples(name: str, dataset: Any, batches: Any) -> Samples | None:
    """Positions that a loader draws; None where its sampler is not known."""
    if dataset is None or isinstance(dataset, IterableDataset) or type(batches) is not BatchSampler:
        return None
    try:
        size, sampler = len(dataset), batches.sampler
        if isinstance(sampler, SubsetRandomSampler):
            return Samples(name, dataset, [int(i) for i in sampler.indices])
        if type(sampler) in {SequentialSampler, RandomSampler} and len(sampler.data_source) != size:  # pyright: ignore[reportAttributeAccessIssue]
            return None
    except (TypeError, AttributeError, NotImplementedError):
        return None
    if type(sampler) not in {SequentialSampler, RandomSampler, WeightedRandomSampler}:
        return None
    return Samples(name, dataset, range(size)) if size else None


# -- comparing ------------------------------------------------------------------------------------------------------------


def _by_position(training: Samples, samples: Samples) -> ProbeResult | None:
    """Compare positions exactly; None where the samples are of two data sets, or mixed ones."""
    if max(len(training.indices), len(samples.indices)) > _POSITIONS:
        return None
    one, trained = _base(training)
    other, evaluated = _base(samples)
    if one is not other:
        return None
    both = len(set(trained) & set(evaluated))
    size = len(set(evaluated))
    values: dict[str, Any] = {"name": samples.name, "shared": both, "looked": size}
    if both >= _FEWEST and both >= _SHARE * size:
        return result(NAME, "doubtful", "positions-in-both", **values)
    return result(NAME, "passed", "positions-apart", **values)


def _base(samples: Samples) -> tuple[Any, list[int]]:
    dataset, indices = samples.dataset, list(samples.indices)
    while isinstance(dataset, Subset) and type(dataset).__getitem__ is Subset.__getitem__:
        inner = dataset.indices
        indices = [int(inner[i]) for i in indices]
        dataset = dataset.dataset
    return dataset, indices


def _by_reading(training: Samples, samples: Samples) -> ProbeResult:
    def look() -> dict[str, Any]:
        return _read_and_compare(training, samples)

    try:
        found = in_a_child(look, _SECONDS, training.dataset, samples.dataset)
    except NoAnswerError as e:
        return untried(NAME, "reading-failed", error=str(e))
    return _judged(samples.name, found)


def _judged(name: str, found: dict[str, Any]) -> ProbeResult:
    code = found.pop("code")
    outcome = {"samples-in-both": "doubtful", "samples-apart": "passed"}.get(code, "untried")
    return result(NAME, outcome, code, name=name, **found)


def _read_and_compare(training: Samples, samples: Samples) -> dict[str, Any]:
    """In a child: reading may change the data sets."""
    began = time.monotonic()
    for i in training.indices[:_AGAIN]:
        read: set[bytes] = set()
        for seed in range(_READINGS):
            set_seeds(seed)
            read.add(_print(training.dataset[i]))
        if len(read) > 1:
            return {"code": "samples-vary"}
    evaluated = _prints(samples, _EVALUATION, began + _SECONDS * _READING / 3)
    trained = _prints(training, _TRAINING, began + _SECONDS * _READING)
    some = [as_tensors(training.dataset[i]) for i in _spread(training.indices, 256)]
    if not _many_possible([_numbers(s) for s in some], len(training.indices)):
        return {"code": "samples-few-values"}
    return compared(trained, evaluated, len(training.indices))


def compared(trained: list[bytes], evaluated: list[bytes], of: int) -> dict[str, Any]:
    """Which share of an evaluation is among the training samples that were read, beside what these share among themselves."""
    counts: dict[bytes, int] = {}
    for p in trained:
        counts[p] = counts.get(p, 0) + 1
    shared = sum(p in counts for p in evaluated)
    share = shared / max(len(evaluated), 1)
    chance = sum(n for n in counts.values() if n > 1) / max(len(trained), 1)
    scatter = math.sqrt(chance * (1 - chance) / max(len(evaluated), 1))
    values = {"shared": shared, "looked": len(evaluated), "read": len(trained), "all": of}
    many = shared >= _FEWEST and share >= _SHARE * len(trained) / max(of, 1)
    if many and share > _CHANCE * chance + _CHANCE * scatter:
        return {"code": "samples-in-both", **values}
    return {"code": "samples-apart", **values}


def _spread(indices: Sequence[int], most: int) -> list[int]:
    """At most so many of them, in even steps."""
    step = max(1.0, len(indices) / most)
    return [indices[int(i * step)] for i in range(min(most, len(indices)))]


def _prints(samples: Samples, most: int, until: float) -> list[bytes]:
    """Fingerprints of samples, as many as time allows."""
    found: list[bytes] = []
    chosen = _spread(samples.indices, most)
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(0)).tolist()
    for k in order:
        if time.monotonic() > until:
            break
        found.append(_print(samples.dataset[chosen[k]]))
    return found


def _print(sample: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=12)
    _add(digest, sample, 0)
    return digest.digest()


def _add(digest: Any, value: Any, depth: int) -> None:
    if depth > 4:
        raise NoAnswerError("samples are nested too deeply")
    if isinstance(value, Tensor):
        plain = value.detach().cpu().contiguous()
        digest.update(f"{plain.dtype}{tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(value, dict):
        for key, inner in value.items():
            digest.update(str(key).encode())
            _add(digest, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _add(digest, inner, depth + 1)
    elif isinstance(value, bool | int | float | str | bytes | None):
        digest.update(repr(value).encode())
    elif hasattr(value, "tobytes"):  # arrays of NumPy, images of Pillow
        digest.update(value.tobytes())
    else:
        raise NoAnswerError(f"a sample holds a {type(value).__name__}")


def _numbers(sample: Any) -> Tensor:
    """The first numbers of the largest field of a sample."""
    fields = [t for t in tensors_of(sample) if t.numel()]
    return max(fields, key=Tensor.numel).reshape(-1)[:_COLUMNS].double() if fields else torch.zeros(0)


def _many_possible(rows: list[Tensor], samples: int) -> bool:
    """Whether there are far more possible samples than samples: all sums of two digits are in any large set of them.

    Texts of several lengths are many.
    """
    if len({r.numel() for r in rows}) != 1:
        return True
    table = torch.stack(rows)
    bits = sum(math.log2(len(torch.unique(column))) for column in table.T)
    return bits >= math.log2(samples) + _BITS


# -- arrays that a script draws its batches from itself -------------------------------------------------------------------


def _arrays_compared(variables: list[tuple[str, Any]], entered: list[Tensor]) -> list[ProbeResult]:
    """Rows of arrays: of the one that holds the first batch and is named after the training, and those of evaluations.

    An evaluation that lies wholly within it says nothing: the script may leave those rows out as it draws its batches.
    """
    batch = next((t for t in entered if t.dim() >= 2 and t.shape[0] > 1), None)
    if batch is None:
        return []
    first = set(_rows(batch))
    training: tuple[int, str, list[bytes], Tensor] | None = None
    others: list[tuple[str, list[bytes]]] = []
    seen: set[int] = set()
    for name, value in variables:
        array = _as_array(value, batch)
        if array is None or id(value) in seen or len(seen) == 2 * _SETS:
            continue
        words = [w.lower() for w in _WORDS.findall(re.split(r"[.\[]", name)[-1])]
        trains = any(_TRAINS.search(w) for w in words)
        if not trains and not says_evaluation(name):
            continue
        seen.add(id(value))
        rows = _rows(array)
        if not trains:
            others.append((name, rows))
        elif first <= set(rows) and (training is None or len(rows) < training[0]):
            training = len(rows), name, rows, array
    if training is None or not _many_possible(
        list(training[3][:256].reshape(min(256, training[0]), -1)[:, :_COLUMNS].double()), training[0]
    ):
        return []
    found: list[ProbeResult] = []
    for name, rows in others:
        if not set(rows) <= set(training[2]):
            found.append(_judged(name, compared(training[2], rows, training[0])))
    return found


def _as_array(value: Any, batch: Tensor) -> Tensor | None:
    """An array whose rows have the shape of those of the batch, in its type; None for anything else."""
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and value.dtype.kind in "biuf":
        if value.shape[1:] != tuple(batch.shape[1:]) or value.size > _ARRAY_SIZE:
            return None
        value = torch.as_tensor(value.copy())
    if not isinstance(value, Tensor) or isinstance(value, torch.nn.Parameter) or value.layout is not torch.strided:
        return None
    fits = value.shape[1:] == batch.shape[1:] and value.is_floating_point() == batch.is_floating_point()
    usable = fits and _FEWEST <= value.shape[0] <= _ARRAY_ROWS and value.numel() <= _ARRAY_SIZE
    return value.detach().cpu().to(batch.dtype) if usable else None


def _rows(array: Tensor) -> list[bytes]:
    plain = array.detach().cpu().contiguous()
    table = plain.reshape(plain.shape[0], -1).view(torch.uint8).numpy()
    return [hashlib.blake2b(row.tobytes(), digest_size=12).digest() for row in table]
