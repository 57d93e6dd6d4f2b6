"""Whether a tokenizer that ends short texts with a token cuts it off long ones, and whether that matters.

It does where no limit was asked for: a width that is counted without the special tokens cuts the longest text of each batch. It
does where a model takes its answer from the place of the end. A text that goes on in another row has no end on purpose, and a
cut text of which nobody reads the end may do without: neither is doubted.
"""

import contextlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor

from ...schemas.files.probe_report import ProbeResult
from ..script.frames import shown
from ..script.written_tokens import end_place_read
from .random_states import random_states, set_random_states
from .special_tokens import is_special, named_numbers
from .tokenizers import vocabulary_of
from .trial import result
from .vocabularies import words_held

NAME = "tokenizer-end"
_LARGEST = 2048
"""Tokens of a text: encoders of scripts may take the square of it."""
_MOST_ROWS = 4096
_ENCODES = re.compile(r"encode|tokeni[sz]e")
_OTHER = re.compile(r"^_|decode|train|fit|learn|save|load|build|from_|special")

Encode = Callable[[list[str]], list[list[int]]]


def ends_cut(tokenizer: Any, batch: Iterable[Tensor], files: Iterable[str]) -> list[ProbeResult]:
    """What cuts the end off texts of the batch, by the tokenizer's own encoders on texts of its own words."""
    words = vocabulary_of(tokenizer) or words_held(tokenizer)
    numbers = named_numbers(tokenizer, words)
    end, pad = numbers.get("eos"), numbers.get("pad")
    if end is None or pad is None or end == pad:
        return []
    fields = [t for t in batch if not t.is_floating_point() and t.dim() == 2 and 1 < t.shape[1] <= _LARGEST]
    lacking = [(t.shape[1], count, len(t)) for t in fields if (count := _without_end(t[:_MOST_ROWS], end, pad))]
    texts = _texts(words)
    if not lacking or texts is None:
        return []
    states = random_states()
    try:
        return next(_cuts(tokenizer, texts, end, pad, lacking, list(files)), [])
    finally:
        set_random_states(states)


def _without_end(tokens: Tensor, end: int, pad: int) -> int:
    """Rows that are full and hold no end, where others are padded or hold one."""
    full = (tokens[:, 0] != pad) & (tokens[:, -1] != pad)
    return int((full & ~(tokens == end).any(1)).sum())


def _cuts(
    tokenizer: Any,
    texts: Callable[[int, int], str],
    end: int,
    pad: int,
    lacking: list[tuple[int, int, int]],
    files: list[str],
) -> Iterator[list[ProbeResult]]:
    for name, encode, together in _encoders(tokenizer):

        def ended(*made: str, encode: Encode = encode) -> list[bool]:
            rows = encode(list(made))
            return [_last(row, pad) == end for row in rows]

        facts: dict[str, Any] = {"encoder": name, "number": end}
        with contextlib.suppress(Exception):  # of a stranger's class
            short, middle, long = texts(0, 4), texts(3, 8), texts(1, 16)
            if together and ended(short, middle) == [True, False] and ended(middle, long) == [True, False]:
                _, count, of = lacking[0]
                yield [result(NAME, "doubtful", "end-cut-off-longest", rows=count, samples=of, **facts)]
        for width, count, of in lacking:
            with contextlib.suppress(Exception):
                few, other, many = ([t] for t in (texts(0, 1), texts(3, 2), texts(1, 2 * width)))
                (cut,) = encode(many)
                if len(cut) != width or _last(cut, pad) in {end, pad} or end in cut:
                    continue
                if not all(ended(*t) == [True] for t in (few, other)):
                    continue
                for file in files:
                    if (line := end_place_read(file)) is not None:
                        where: dict[str, Any] = {"width": width, "place": f"{shown(file)}:{line}"}
                        yield [result(NAME, "doubtful", "end-cut-where-read", rows=count, samples=of, **where, **facts)]


def _last(row: list[int], pad: int) -> int | None:
    return next((number for number in reversed(row) if number != pad), None)


def _texts(words: dict[Any, int]) -> Callable[[int, int], str] | None:
    """Makes texts of a number of words, from a place on in those of the vocabulary that are spelt as words."""
    usual = [w for w in words if isinstance(w, str) and w.isalnum() and not is_special(w)]
    usual = [w for w in usual if w == w.lower()] or usual  # capitals may be taken away before words are looked up
    if len(usual) < 4:
        return None
    between = "" if all(len(w) == 1 for w in usual) else " "
    return lambda begin, count: between.join(usual[(begin + i) % len(usual)] for i in range(count))


def _encoders(tokenizer: Any) -> Iterator[tuple[str, Encode, bool]]:
    """What makes numbers of a text, or of several (True), and needs to be given nothing else: names, and how to call it."""
    names = [n for n in dir(type(tokenizer)) if _ENCODES.search(n) and not _OTHER.search(n)]
    for name in [*(["__call__"] if callable(tokenizer) else []), *names]:
        method = getattr(tokenizer, name, None)
        if not callable(method) or not _takes_one(method):
            continue
        shown_as = type(tokenizer).__name__ + ("" if name == "__call__" else f".{name}")
        with contextlib.suppress(Exception):
            yield shown_as, lambda texts, method=method: _rows(method(texts), len(texts)), True
        with contextlib.suppress(Exception):
            yield shown_as, lambda texts, method=method: [_rows(method(t), 1)[0] for t in texts], False


def _takes_one(method: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]
    return bool(plain) and needed in ([], plain[:1])


def _rows(value: Any, count: int) -> list[list[int]]:
    """The numbers of each of several texts. Two fields of numbers, as inputs and targets, are no texts: ValueError."""
    if hasattr(value, "keys"):
        value = value["input_ids"]
    value = getattr(value, "ids", value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list) and count == 1 and all(type(n) is int for n in value):
        value = [value]
    rows = [getattr(row, "ids", row) for row in value] if isinstance(value, list) else []
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
    if len(rows) != count or not all(isinstance(row, list) and all(type(n) is int for n in row) for row in rows):
        raise ValueError(type(value).__name__)
    return rows
