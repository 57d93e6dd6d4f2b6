"""The vocabularies of a script's own: mappings from words to numbers, found in its variables, and whether their numbers hold.

A mapping counts as used where integers of the first batch lie within its numbers and a parameter has a row for each of them.
For a process of our own alone: reading the variables of a frame keeps them alive.
"""

import contextlib
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.data import DataLoader

from ...schemas.files.probe_report import ProbeResult
from ..script.frames import FIRSTFAULT, is_users, shown
from ..script.written_tokens import saved_without
from .special_tokens import is_special
from .trial import result

_FEWEST = 10
"""Words of a vocabulary."""
_DEPTH = 4
_MOST_OBJECTS = 4000
_MOST_INSIDE = 64
"""Entries of a container that are looked into."""
_SPARE_ROWS = 128
"""Rows that a table may have beyond its vocabulary. Convention: Megatron-LM rounds up to a multiple of 128."""
_FEWEST_NUMBERS = 8
"""Different numbers of a field that tell that a vocabulary gave them."""
_FEWEST_SHARED = 16
"""Words that share numbers in runs. Convention of this project, names of digits or months are twelve at most."""
_RUN = 3
"""Words with numbers that follow each other: two may do so by chance."""
_DESCENTS = 0.2
"""Share of neighbours that may stand otherwise than their hashes: words that met in a slot of the set. In any other order it is
a half."""
_CHANCE = 1e-9
"""Chance that words in any other order stand so. Arithmetic: sixty orders are compared."""


class Vocabulary(NamedTuple):
    """Words with their numbers, by the name that the script has for them."""

    name: str
    words: dict[str, int]


def find_vocabularies(variables: Iterable[dict[str, Any]]) -> list[Vocabulary]:
    """Those among the script's variables, and in its own objects there."""
    seen, found = set[int](), list[Vocabulary]()
    for scope in variables:
        for name, value in scope.items():
            found += _in(name, value, seen, 0)
    return found


def find_encoder(variables: Iterable[dict[str, Any]]) -> Any:
    """The first object of the script's own classes that encodes by a vocabulary of its own, ``decode`` or not."""
    for scope in variables:
        for name, value in scope.items():
            if isinstance(value, DataLoader) or (of_the_script(value) and not isinstance(value, nn.Module)):
                for _, inner in [(name, value), *_parts(name, value)]:
                    if _encodes(inner):
                        return inner
    return None


def _encodes(value: Any) -> bool:
    if isinstance(value, nn.Module | type) or not of_the_script(value):
        return False
    with contextlib.suppress(Exception):  # of a stranger's class
        encodes = callable(value) or any("encode" in n or "tokeni" in n for n in vars(type(value)))
        return encodes and bool(words_held(value))
    return False


def words_held(value: Any) -> dict[str, int]:
    """The first mapping from words to numbers among the attributes of an object; empty where it has none."""
    held = getattr(value, "__dict__", {}).values()
    return next((words for words in held if isinstance(words, dict) and _numbers_words(words)), {})


def script_variables() -> list[dict[str, Any]]:
    """Variables of the script's functions in progress, the innermost first, and of its main module."""
    found: list[dict[str, Any]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            found.append(dict(frame.f_locals))
        frame = frame.f_back
    return [*found, {name: v for name, v in vars(sys.modules["__main__"]).items() if not name.startswith("__")}]


def script_files() -> list[str]:
    """Files of the script's own modules."""
    files = {getattr(m, "__file__", None) for n, m in list(sys.modules.items()) if n.partition(".")[0] != FIRSTFAULT}
    return sorted(file for file in files if isinstance(file, str) and Path(file).is_file() and is_users(file))


def _in(name: str, value: Any, seen: set[int], depth: int) -> Iterator[Vocabulary]:
    if depth > _DEPTH or id(value) in seen or len(seen) > _MOST_OBJECTS:
        return
    if isinstance(value, str | bytes | int | float | Tensor | nn.Module | type) or value is None:
        return
    seen.add(id(value))
    if isinstance(value, dict) and _numbers_words(value):
        yield Vocabulary(name, dict(value))
        return
    for inside, inner in _parts(name, value):
        yield from _in(inside, inner, seen, depth + 1)


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """What a small container, a DataLoader, a function of the script's own or an object of its classes holds, by name."""
    if isinstance(value, dict):
        return [(f"{name}[{key!r}]", inner) for key, inner in list(value.items())] if len(value) <= _MOST_INSIDE else []
    if isinstance(value, list | tuple):
        return [(f"{name}[{i}]", inner) for i, inner in enumerate(value)] if len(value) <= _MOST_INSIDE else []
    if isinstance(value, DataLoader):
        return [(f"{name}.dataset", value.dataset), (f"{name}.collate_fn", value.collate_fn)]
    if isinstance(value, FunctionType):
        code, cells = value.__code__, value.__closure__ or ()
        found: list[tuple[str, Any]] = []
        for variable, cell in zip(code.co_freevars, cells if is_users(code.co_filename) else (), strict=False):
            with contextlib.suppress(ValueError):  # not bound yet
                found.append((variable, cell.cell_contents))
        return found
    return (
        [(f"{name}.{attribute}", inner) for attribute, inner in list(vars(value).items())]
        if of_the_script(value)
        else []
    )


def of_the_script(value: Any) -> bool:
    """Whether a value is of a class of the script's own."""
    file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    return isinstance(file, str) and is_users(file) and hasattr(value, "__dict__")


def _numbers_words(value: dict[Any, Any]) -> bool:
    """Whether it numbers words: no counts, which leave most numbers out."""
    if len(value) < _FEWEST or isinstance(value, Counter) or type(value).__module__ not in {"builtins", "collections"}:
        return False
    items = list(value.items())
    if not all(type(word) is str and type(number) is int and number >= 0 for word, number in items):
        return False
    different = {number for _, number in items}
    return len(different) >= _FEWEST and max(different) < 2 * len(different)


def judge_vocabularies(
    found: list[Vocabulary], files: list[str], batch: Iterable[Tensor], models: Iterable[nn.Module]
) -> list[ProbeResult]:
    """What is wrong with the first vocabulary in use of which something is; one result that says that nothing is. Nothing where
    none is in use."""
    fields = [column for tensor in batch for column in _columns(tensor)]
    rows = {p.shape[0] for model in models for p in model.parameters() if p.dim()}
    used = [v for v in found if _in_use(v, fields, rows)]
    for vocabulary in used:
        faults = [*_shared(vocabulary, fields), *_set_order(vocabulary, files)]
        if faults:
            return faults[:1]
    if not used:
        return []
    return [result("vocabulary", "passed", "vocabulary-holds", name=used[0].name, words=len(used[0].words))]


def _columns(tensor: Tensor) -> list[set[int]]:
    """The numbers of a field of integers, and of each of its last columns where these are few."""
    if tensor.is_floating_point() or tensor.is_complex() or not 0 < tensor.numel() <= 1 << 20 or not tensor.dim():
        return []
    columns = [set(tensor.flatten().tolist())]
    if tensor.dim() > 1 and tensor.shape[-1] <= _MOST_INSIDE:
        columns += [set(column.flatten().tolist()) for column in tensor.unbind(-1)]
    return [numbers for column in columns if len(numbers := {n for n in column if n >= 0}) >= _FEWEST_NUMBERS]


def _in_use(vocabulary: Vocabulary, fields: list[set[int]], rows: set[int]) -> bool:
    numbers = set(vocabulary.words.values())
    needed = max(numbers) + 1
    return any(needed <= n <= needed + _SPARE_ROWS for n in rows) and any(field <= numbers for field in fields)


def _shared(vocabulary: Vocabulary, fields: list[set[int]]) -> Iterator[ProbeResult]:
    """Words that came later and were given numbers in a row that earlier words have, from the middle of the numbering on.

    On purpose words share numbers in a table of classes, which has no special tokens, and of hashes, which has no such rows.
    So do those of ``i % n`` and second names of all things, whose rows begin at the first number, and words but for their case.
    """
    words = list(vocabulary.words.items())
    first: dict[int, str] = {}
    runs: list[list[tuple[str, int]]] = []
    for word, number in words:
        if runs and runs[-1][-1][1] + 1 == number:
            runs[-1].append((word, number))
        else:
            runs.append([(word, number)])
    specials = sum(_is_no_word(word) for word, _ in words)
    if not specials:
        return  # a table of the classes of files or names
    begin = next((run[0][1] for run in runs if len(run) >= _RUN), 0)
    pairs: list[tuple[str, str, int]] = []
    for run in runs:
        again = [(first[number], word, number) for word, number in run if number in first]
        others = [pair for pair in again if _letters(pair[0]) != _letters(pair[1])]
        if len(run) >= _RUN and len(others) >= _RUN and run[0][1] > begin + specials:
            pairs += others
        for word, number in run:
            first.setdefault(number, word)
    numbers = {number for _, _, number in pairs}
    here = [field & numbers for field in fields if field <= set(vocabulary.words.values())]
    if len(pairs) < _FEWEST_SHARED or not any(here):
        return
    one, other, number = next(pair for pair in pairs if any(pair[2] in field for field in here))
    facts: dict[str, Any] = {"one": one[:40], "other": other[:40], "number": number, "count": len(pairs)}
    yield result("vocabulary", "doubtful", "words-share-numbers", name=vocabulary.name, words=len(words), **facts)


def _is_no_word(word: str) -> bool:
    return is_special(word) or word.lower() in {"pad", "padding", "unk", "unknown", "oov"}


def _letters(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum())


def _set_order(vocabulary: Vocabulary, files: list[str]) -> Iterator[ProbeResult]:
    """Words numbered as a set of them is gone through, in a script that saves its model and not these numbers."""
    if os.environ.get("PYTHONHASHSEED", "random") not in {"", "random"}:
        return  # every process has the same order then
    ordered = [word for word, _ in sorted(vocabulary.words.items(), key=lambda item: item[1])]
    if not follows_a_set(ordered):
        return
    saved = {file: saved_without(file, vocabulary.name) for file in files}
    places = [f"{shown(file)}:{line}" for file, line in saved.items() if line]
    if places and None not in saved.values():
        facts: dict[str, Any] = {"name": vocabulary.name, "words": len(ordered), "place": places[0]}
        yield result("vocabulary", "doubtful", "words-in-order-of-a-set", **facts)


def follows_a_set(words: list[str]) -> bool:
    """Whether words stand as in a set of strings, but for a few before and behind them that were put there."""
    trimmed = [words[front:] for front in range(min(6, len(words)))]
    trimmed += [words[:-back] for back in range(1, min(6, len(words)))]
    return any(len(part) >= _FEWEST and _stands_as_hashed(part) for part in trimmed)


def _stands_as_hashed(words: list[str]) -> bool:
    place = {word: i for i, word in enumerate(set(words))}
    if _descents([place[word] for word in words]):
        return True
    size = 8
    while 3 * size < 5 * len(words):  # a set is at most three fifths full
        size *= 2
    return any(_descents([hash(word) & (size << more) - 1 for word in words]) for more in range(5))


def _descents(places: list[int]) -> bool:
    """Whether places ascend, but for fewer than chance gives: of the orders of n places, at most ``(d + 1) ** n`` have d descents
    or fewer (Worpitzky's identity)."""
    n = len(places)
    fewer = sum(b < a for a, b in pairwise(places))
    return fewer <= _DESCENTS * (n - 1) and n * math.log(fewer + 1) - math.lgamma(n + 1) < math.log(_CHANCE)
