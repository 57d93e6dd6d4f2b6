"""Whether two tokenizers are the same: vocabulary, special tokens, sides, and the ids of real texts.

Anything that has ``encode`` will do; ``decode``, ``get_vocab`` and the attributes of transformers are used where they are.
"""

import contextlib
import inspect
import re
import string
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...schemas.files.probe_report import ProbeResult
from .trial import result, untried

_SPECIAL = ("pad_token", "bos_token", "eos_token", "unk_token", "mask_token", "sep_token", "cls_token")
_SIDES = ("padding_side", "truncation_side", "model_max_length", "chat_template")

_LENGTH = re.compile(r"len|width|size|max|\bn\b|pad")

_PIECE = 8
"""Letters of a word that is made of a text without blanks."""

_UNKNOWN = "\N{SNOWMAN}"
"""A letter that the texts of a training do not have."""

Ids = Callable[[Any, str], list[int]]


def consistent(used: Any, saved: Any, texts: Iterable[str] = ()) -> ProbeResult:
    """Compare the tokenizer that is used with the one that was saved; name the first difference."""
    name = "tokenizer"
    if used is None or saved is None:
        return untried(name, "no-tokenizer")
    for attribute in _known(_SPECIAL, used, saved):
        one, two = _text(getattr(used, attribute, None)), _text(getattr(saved, attribute, None))
        if one != two:
            return result(name, "failed", "tokenizer-special", what=attribute, used=one, saved=two)
        ids = [getattr(t, f"{attribute}_id", None) for t in (used, saved)]
        if ids[0] != ids[1]:
            return result(
                name, "failed", "tokenizer-special", what=f"{attribute}_id", used=_text(ids[0]), saved=_text(ids[1])
            )
    own, other = vocabulary_of(used), vocabulary_of(saved)
    if own is not None and other is not None and own != other:
        one, two = own, other
        token = min((t for t in {*one, *two} if one.get(t) != two.get(t)), key=lambda t: (one.get(t, 1 << 60), str(t)))
        facts: dict[str, Any] = {"token": str(token)[:60], "used": one.get(token), "saved": two.get(token)}
        return result(name, "failed", "tokenizer-vocabulary", sizes=[len(one), len(two)], **facts)
    checked = 0
    for text in texts:
        one, two = ids_of(used, text), ids_of(saved, text)
        checked += 1
        if one != two:
            place = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
            at: dict[str, Any] = {
                "place": place,
                "text": text[:80],
                "used": one[place : place + 1],
                "saved": two[place : place + 1],
            }
            return result(name, "failed", "tokenizer-ids", **at)
    for attribute in _known(_SIDES, used, saved):
        one, two = _text(getattr(used, attribute, None)), _text(getattr(saved, attribute, None))
        if one != two:
            return result(name, "doubtful", "tokenizer-setting", what=attribute, used=one[:80], saved=two[:80])
    size = None if own is None else len(own)
    return result(name, "passed", "tokenizer-same", texts=checked, size=size)


def _known(attributes: tuple[str, ...], used: Any, saved: Any) -> list[str]:
    """Those that both have: a plain vocabulary knows nothing of special tokens and sides."""
    return [a for a in attributes if hasattr(used, a) and hasattr(saved, a)]


def round_trip(tokenizer: Any, texts: Iterable[str]) -> ProbeResult:
    """Encode and decode texts: what comes back must be the text, but for blanks at its ends and special tokens."""
    name = "tokenizer-round-trip"
    checked = 0
    for text in texts:
        try:
            back = tokenizer.decode(ids_of(tokenizer, text))
        except Exception as e:  # noqa: BLE001 — of a stranger's class
            return untried(name, "tokenizer-raised", error=f"{type(e).__name__}: {e}"[:160])
        checked += 1
        if "".join(str(back).split()) != "".join(text.split()):
            return result(name, "doubtful", "tokenizer-loses", text=text[:80], back=str(back)[:80])
        if (lost := _blank_lost(tokenizer, text)) is not None:
            return result(name, "doubtful", "tokenizer-loses", text=lost[0], back=lost[1])
    return result(name, "passed", "tokenizer-returns", texts=checked) if checked else untried(name, "no-texts")


def _blank_lost(tokenizer: Any, text: str) -> tuple[str, str] | None:
    """(text with a blank, what comes back) where a blank between two words leaves no token behind: the texts of the batch then
    have none. None too where any unknown letter is left out so, or none can be given."""
    if len(text) < 2 * _PIECE or any(c.isspace() for c in text):
        return None
    one, two = text[:_PIECE], text[_PIECE : 2 * _PIECE]
    try:
        parts = ids_of(tokenizer, one) + ids_of(tokenizer, two)
        if ids_of(tokenizer, f"{one} {two}") != parts:
            return None
        back = str(tokenizer.decode(parts))
        with contextlib.suppress(Exception):
            if ids_of(tokenizer, f"{one}{_UNKNOWN}{two}") == parts:
                return None
    except Exception:  # noqa: BLE001 — of a stranger's class
        return None
    return None if " " in back.strip() else (f"{one} {two}", back[:80])


def padding_in_text(tokenizer: Any, texts: Iterable[str], paddings: Iterable[tuple[str, int]]) -> ProbeResult | None:
    """Whether texts hold the number that an embedding keeps at zero for padding: among their tokens, not only at their ends.
    ``paddings``: names of embeddings with their padding_idx. None where nothing was to be tried."""
    known = {index: name for name, index in reversed(list(paddings))}
    checked = 0
    for text in texts:
        try:
            tokens = ids_of(tokenizer, text)
        except Exception:  # noqa: BLE001 — of a stranger's class; the round trip says so
            return None
        checked += 1
        for index, embedding in known.items():
            inner = _without_ends(tokens, index)
            if count := inner.count(index):
                facts: dict[str, Any] = {"embedding": embedding, "index": index, "count": count, "tokens": len(inner)}
                return result("tokenizer-padding", "doubtful", "padding-is-a-token", text=text[:80], **facts)
    for index, embedding in known.items():
        for letter in _letters_with(tokenizer, index):
            return result(
                "tokenizer-padding",
                "doubtful",
                "padding-is-a-token",
                text=letter,
                embedding=embedding,
                index=index,
                count=1,
                tokens=1,
            )
    return result("tokenizer-padding", "passed", "padding-apart", texts=checked) if checked and known else None


def _letters_with(tokenizer: Any, index: int) -> Iterator[str]:
    """Letters whose token has this number, though an unknown letter has another one or is refused: those of a text of the batch
    would be gone, where decoding leaves padding out."""
    with contextlib.suppress(Exception):
        if index in ids_of(tokenizer, _UNKNOWN):
            return
    for letter in string.digits + string.ascii_letters + string.punctuation + " ":
        with contextlib.suppress(Exception):
            if index in ids_of(tokenizer, letter):
                yield letter


def _without_ends(tokens: list[int], padding: int) -> list[int]:
    """Tokens without the padding before and behind them."""
    places = [i for i, token in enumerate(tokens) if token != padding]
    return tokens[places[0] : places[-1] + 1] if places else []


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text. An ``encode`` of the user's own may want the length of its answer too; without one it is called."""
    encode = getattr(tokenizer, "encode", tokenizer)
    try:
        found: Any = encode(text, add_special_tokens=False)
    except TypeError:
        found = encode(text, *_lengths(encode, text))
    return [int(i) for i in getattr(found, "ids", found)]


def _lengths(encode: Any, text: str) -> list[int]:
    """For each argument that ``encode`` must be given besides the text, and that is named as a length is: room for the text."""
    with contextlib.suppress(TypeError, ValueError):  # of a builtin nothing is known
        _, *others = inspect.signature(encode).parameters.values()
        wanted = [p for p in others if p.default is p.empty and p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
        if all(_LENGTH.search(p.name) for p in wanted):
            return [len(text) + 8 for _ in wanted]
    return []


def vocabulary_of(tokenizer: Any) -> dict[Any, int] | None:
    """Token → number, by ``get_vocab`` or by an attribute of a usual name; a list of tokens will do. None: there is none."""
    get = getattr(tokenizer, "get_vocab", None)
    if callable(get):
        return dict(get())  # type: ignore[call-overload]
    for attribute in ("stoi", "vocab", "token_to_id", "token2id", "word2idx", "itos"):
        value = getattr(tokenizer, attribute, None)
        if isinstance(value, dict):
            return dict(value)
        if isinstance(value, list) and all(isinstance(token, str) for token in value):
            return {token: number for number, token in enumerate(value)}
    return None


def _text(value: Any) -> str:
    return "" if value is None else str(value)
