"""Whether the special tokens of a tokenizer are what the script takes them for: their numbers, and their places in a batch.

Anything that has ``encode`` and a vocabulary will do. A number is known by an attribute such as ``eos_id``, a token by its
spelling, such as ``<eos>`` or ``[SEP]``.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from ...schemas.files.probe_report import ProbeResult
from .tokenizers import ids_of, vocabulary_of
from .trial import result

_NAME = "tokenizer-special"
_FEWEST = 64
"""Tokens of which a share can be told."""
_MOST_UNKNOWN = 0.5
"""Share of unknown words from which nothing is left of a text."""
_STEMS = {
    "pad": "pad", "bos": "bos", "sos": "bos", "start": "bos", "s": "bos", "go": "bos", "eos": "eos", "end": "eos", "stop": "eos",
    "startoftext": "bos", "begin_of_text": "bos", "sot": "bos", "/s": "eos", "endoftext": "eos", "end_of_text": "eos",
    "eot": "eos", "unk": "unk", "cls": "cls", "sep": "sep", "mask": "mask",
}  # fmt: skip
"""Spelling → what the token is for."""

_ATTRIBUTE = re.compile(
    r"^(?:(pad|bos|sos|eos|unk|cls|sep)(?:_token)?(?:_id|_idx|_index)?|(start|end|stop|mask)(?:_token)?(?:_id|_idx|_index))$"
)
_SPELLING = re.compile(rf"^[<\[{{(|_]+({'|'.join(sorted(map(re.escape, _STEMS), key=len, reverse=True))})[>\]}})|_]+$")


def special_tokens(tokenizer: Any, batch: Iterable[Tensor], ignored: Iterable[int]) -> list[ProbeResult]:
    """What is wrong with the special tokens; one result that says that nothing is, where some are known.

    ``batch``: tensors of the first batch. ``ignored``: numbers that a loss was told to ignore.
    """
    words = vocabulary_of(tokenizer) or {}
    spelt = _spelt(words)
    known = {
        **{stem: number for stem, (_, number) in spelt.items()},
        **{k: v for k, (_, v) in _named(tokenizer).items()},
    }
    if not known:
        return []
    batch = list(batch)
    whole = [t for t in batch if not t.is_floating_point() and t.dim() in {1, 2}]
    rows = [row for t in whole if t.dim() == 2 for row in t.tolist()]
    if not rows:  # targets of a CTC loss stand one behind the other, and are as many as nothing else is
        alone = [t for t in whole if all(o is t or not o.dim() or len(o) != len(t) for o in batch)]
        rows = [t.tolist() for t in alone]
    found = [
        *_other_word(tokenizer, words, spelt),
        *_split(tokenizer, spelt, rows),
        *_never_ends(known, rows, set(ignored)),
        *_unknown(known, rows),
    ]
    return found[:1] or [result(_NAME, "passed", "special-tokens", count=len(known))]


def _spelt(words: dict[Any, int]) -> dict[str, tuple[str, int]]:
    """What for → (token, number), by the spelling of the tokens."""
    found: dict[str, tuple[str, int]] = {}
    for word, number in words.items():
        match = _SPELLING.match(word.lower()) if isinstance(word, str) else None
        if match is not None:
            found.setdefault(_STEMS[match[1]], (word, number))
    return found


def is_special(word: str) -> bool:
    """Whether a token is spelt as one that is no word."""
    return _SPELLING.match(word.lower()) is not None


def named_numbers(holder: Any, words: dict[Any, int]) -> dict[str, int]:
    """Numbers for padding and the end, by names of a tokenizer's attributes or of variables, else by spellings in ``words``."""
    found = {stem: number for stem, (_, number) in _spelt(words).items() if stem in {"pad", "eos"}}
    with contextlib.suppress(Exception):  # of a stranger's class
        for name in dict.fromkeys([*vars(type(holder)), *vars(holder)]):
            match = _ATTRIBUTE.match(name.lower())
            stem = _STEMS[match[1] or match[2]] if match is not None else ""
            if stem not in {"pad", "eos"}:
                continue
            value = getattr(holder, name, None)
            value = words.get(value) if isinstance(value, str) else value
            if isinstance(value, int) and not isinstance(value, bool):
                found[stem] = value
    return found


def _named(tokenizer: Any) -> dict[str, tuple[str, int]]:
    """What for → (attribute, number), by the names of the tokenizer's own attributes."""
    found: dict[str, tuple[str, int]] = {}
    with contextlib.suppress(Exception):  # of a stranger's class
        own = {**vars(type(tokenizer)), **vars(tokenizer)}
        for name, value in own.items():
            match = _ATTRIBUTE.match(name.lower())
            if match is not None and isinstance(value, int) and not isinstance(value, bool):
                found.setdefault(_STEMS[match[1] or match[2]], (name, value))
    return found


def _other_word(tokenizer: Any, words: dict[Any, int], spelt: dict[str, tuple[str, int]]) -> Iterator[ProbeResult]:
    """An attribute whose number is that of an ordinary word, while the vocabulary has the token elsewhere."""
    by_number = {number: word for word, number in words.items()}
    for stem, (attribute, number) in _named(tokenizer).items():
        token = spelt.get(stem)
        word = by_number.get(number)
        if token is None or token[1] == number or not isinstance(word, str) or _SPELLING.match(word.lower()):
            continue
        facts: dict[str, Any] = {"attribute": attribute, "number": number, "word": word[:40], "right": token[1]}
        yield result(_NAME, "failed", "special-number-of-a-word", token=token[0], **facts)


def _split(tokenizer: Any, spelt: dict[str, tuple[str, int]], rows: list[list[int]]) -> Iterator[ProbeResult]:
    """A special token whose text is in the batch, taken apart, and whose number is not."""
    there = {number for row in rows for number in row}
    for stem in ("bos", "eos", "cls", "sep", "mask"):
        token, number = spelt.get(stem, ("", -1))
        if not token or number in there:
            continue
        with contextlib.suppress(Exception):  # of a stranger's class
            parts = ids_of(tokenizer, token)
            holding = sum(_holds(row, parts) for row in rows)
            if len(parts) > 1 and number not in parts and holding:
                yield result(
                    _NAME, "failed", "special-token-split", token=token, number=number, parts=parts, rows=holding
                )


def _holds(row: list[int], parts: list[int]) -> bool:
    return any(row[i : i + len(parts)] == parts for i in range(len(row) - len(parts) + 1))


def _never_ends(known: dict[str, int], rows: list[list[int]], ignored: set[int]) -> Iterator[ProbeResult]:
    """A token for the end that no loss counts, or that no padded sequence holds though each begins with one for the start."""
    end, start, pad = known.get("eos"), known.get("bos"), known.get("pad")
    if end is None:
        return
    if end in ignored and any(end in row for row in rows):
        yield result(_NAME, "doubtful", "end-ignored", number=end, same=end == pad)
        return
    padded = [row for row in rows if pad is not None and pad != end and row and row[-1] == pad and row[0] == start]
    labelled = [row for row in rows if row and row[-1] in ignored and not ignored.issuperset(row)]
    uncounted = pad in ignored or len(labelled) >= len(padded)  # padding by its own number, or by that of its labels
    if len(padded) > 1 and uncounted and not any(end in row for row in rows):
        yield result(_NAME, "doubtful", "end-missing", number=end, rows=len(padded))


def _unknown(known: dict[str, int], rows: list[list[int]]) -> Iterator[ProbeResult]:
    """Most of what is no padding has the number of unknown words."""
    unknown, other = known.get("unk"), {known.get(k) for k in ("pad", "bos", "eos", "cls", "sep")}
    words = [number for row in rows for number in row if number >= 0 and number not in other - {unknown}]
    count = sum(number == unknown for number in words)
    if unknown is not None and len(words) >= _FEWEST and count > _MOST_UNKNOWN * len(words):
        yield result(_NAME, "doubtful", "mostly-unknown", number=unknown, count=count, tokens=len(words))
