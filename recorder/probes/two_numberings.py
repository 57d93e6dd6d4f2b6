"""A training and an evaluation set that number the same words differently: what is learnt of one is another thing in the other.

By the names that the script gives them: two languages may have a vocabulary each.
"""

import re
from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader

from ...schemas.files.probe_report import ProbeResult
from .trial import result
from .vocabularies import find_vocabularies, of_the_script

_FEWEST = 10
"""Words that both number."""
_SHARED = 0.5
"""Share of the smaller vocabulary that the other has too. Convention of this probe: two languages share fewer words."""
_OTHERWISE = 0.5
"""Share of these words with another number. Convention of this probe: words that were added behind have the old ones."""
_TRAINING = re.compile("train", re.IGNORECASE)
_EVALUATION = re.compile("test|val|dev|eval", re.IGNORECASE)
_MOST = 8
"""Data sets that are compared."""


def numbered_apart(variables: Iterable[dict[str, Any]]) -> list[ProbeResult]:
    """The first training and evaluation set of one class among the script's variables whose vocabularies, at one place in both,
    disagree."""
    found: list[tuple[str, Any]] = []
    for scope in variables:
        for name, value in scope.items():
            dataset = value.dataset if isinstance(value, DataLoader) else value
            if of_the_script(dataset) and hasattr(dataset, "__getitem__") and all(d is not dataset for _, d in found):
                found.append((name, dataset))
    for i, (one, first) in enumerate(found[:_MOST]):
        for other, second in found[i + 1 : _MOST]:
            if type(first) is not type(second) or not _are_a_pair(one, other):
                continue
            theirs = {v.name: v.words for v in find_vocabularies([{"": second}])}
            for vocabulary in find_vocabularies([{"": first}]):
                if differing := _otherwise(vocabulary.words, theirs.get(vocabulary.name, {})):
                    word, place = differing[0], vocabulary.name
                    facts: dict[str, Any] = {"one": one, "other": other, "place": place, "word": word[:40]}
                    facts |= {"here": vocabulary.words[word], "there": theirs[place][word], "count": len(differing)}
                    return [result("vocabulary", "doubtful", "words-numbered-apart", **facts)]
    return []


def _are_a_pair(one: str, other: str) -> bool:
    return any(_TRAINING.search(a) and _EVALUATION.search(b) for a, b in ((one, other), (other, one)))


def _otherwise(one: dict[str, int], other: dict[str, int]) -> list[str]:
    """Words that both number, and differently; none where that may be meant."""
    shared = [word for word in one if word in other]
    differing = [word for word in shared if one[word] != other[word]]
    enough = len(shared) >= max(_FEWEST, _SHARED * min(len(one), len(other)))
    return differing if enough and len(differing) >= _OTHERWISE * len(shared) else []
