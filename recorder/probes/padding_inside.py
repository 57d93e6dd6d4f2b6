"""Tokens with the number of padding that stand inside a text: a token that means something has this number too."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn

from ...schemas.files.probe_report import ProbeResult
from .trial import result

_NAME = "tokenizer-padding"
_MOST = 8
_LARGEST = 1 << 20
_FEWEST = 3
"""Rows, and places in them, that hold such a token: fields of fixed widths behind one another are padded at one place each.
Convention of this project."""
_KINDS = 8
"""Different numbers that tell tokens from flags. Convention of this project."""


class LookedUp(NamedTuple):
    """What an embedding was asked for first."""

    name: str
    padding: int | None
    tokens: Tensor


class Lookups:
    """Keeps a copy of the first tokens that each embedding looks up."""

    def __init__(self) -> None:
        self.found: list[LookedUp] = []
        self._known = set[int]()

    def note(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Called before each forward of a module."""
        if not isinstance(module, nn.Embedding) or id(module) in self._known or len(self.found) >= _MOST:
            return
        self._known.add(id(module))
        tokens = args[0] if args else None
        if isinstance(tokens, Tensor) and tokens.dim() == 2 and tokens.shape[1] > 2 and tokens.numel() <= _LARGEST:
            self.found.append(
                LookedUp(f"Embedding {tuple(module.weight.shape)}", module.padding_idx, tokens.detach().cpu())
            )


def padding_inside(looked_up: Iterable[LookedUp], named: Iterable[int]) -> ProbeResult | None:
    """The first embedding that is asked for padding alone between two tokens, in several rows and at several places.

    ``named``: numbers that the script calls padding. They count where rows end or begin with two of them, and ``padding_idx``
    always does: its row is kept at zero. None where nothing is padding.
    """
    names, checked = list(dict.fromkeys(named)), False
    for name, index, tokens in looked_up:
        if len(tokens.unique()) < _KINDS:
            continue
        numbers = [index] if index is not None else []
        numbers += [number for number in names if number != index and _pads(tokens == number)]
        for number in numbers:
            checked = True
            here = tokens == number
            alone = here[:, 1:-1] & ~here[:, :-2] & ~here[:, 2:]
            rows, places = alone.any(1), alone.any(0)
            if int(rows.sum()) >= _FEWEST and int(places.sum()) >= _FEWEST:
                row, place = (int(i) for i in alone.nonzero()[0])
                code = "padding-inside" if number == index else "named-padding-inside"
                facts: dict[str, Any] = {"number": number, "embedding": name, "row": row, "place": place + 1}
                return result(_NAME, "doubtful", code, rows=int(rows.sum()), samples=len(tokens), **facts)
    return result(_NAME, "passed", "padding-outside") if checked else None


def filled_otherwise(looked_up: Iterable[LookedUp], named: Iterable[int]) -> ProbeResult | None:
    """The first embedding whose rows are filled up with another number than padding's, which stands nowhere among its tokens.

    ``named``: numbers that the script calls padding. Rows are filled up where at least half of them end with two or more of one
    number, by different lengths, as texts differ: a blank stands at the end of some rows too. None where no padding is known or
    rows hold it.
    """
    for name, index, tokens in looked_up:
        known = {index} if index is not None else {*named}
        if len(known) != 1 or len(tokens.unique()) < _KINDS or bool((tokens == (number := known.pop())).any()):
            continue
        for rows, code in ((tokens, "filled-otherwise-end"), (tokens.flip(1), "filled-otherwise-begin")):
            last = rows[:, -1:]
            lengths = (rows == last).flip(1).cummin(1).values.sum(1)
            filler = int(last[:, 0][lengths > 1].mode().values) if bool((lengths > 1).any()) else -1
            filled = lengths[(last[:, 0] == filler) & (lengths > 1)]
            if 2 * len(filled) >= len(rows) and len(filled.unique()) >= _FEWEST and int(filled.max()) < rows.shape[1]:
                facts: dict[str, Any] = {"number": number, "filler": filler, "rows": len(filled), "samples": len(rows)}
                return result(_NAME, "doubtful", code, embedding=name, **facts)
    return None


def _pads(here: Tensor) -> bool:
    """Whether a row ends or begins with two of them."""
    return bool((here[:, -2:].all(1) | here[:, :2].all(1)).any())
