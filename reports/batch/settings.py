"""Which settings of a sweep go with failure: for each value or threshold the share of runs that failed with and without it.

Fisher's exact test on the two-by-two table (one-sided; R. A. Fisher, 1922). A sweep has many settings, and some split always
looks good: verdicts are dealt out again many times, and a split is shown where few of these deals have any split as good (min-P
of P. Westfall and S. Young, 1993).
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, isfinite, lgamma

import numpy as np
import numpy.typing as npt

from ..text.wording import number, show_name
from .run import BatchRow

CHANCE = 0.05
"""Largest share of deals with any split as good as the one shown."""

DEALS = 200

THRESHOLDS = 15
"""Thresholds tried of one number, at equal shares of its values."""

FEWEST = 6
"""Judged runs below which nothing is said."""

MOST_VALUES = 12
"""Different texts of a setting above which it is a name of the run rather than a setting."""

MOST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Split:
    """Runs with a setting and those without: how many there are, how many of them failed, and what chance could do."""

    setting: str
    words: str
    runs: int
    failed: int
    other_runs: int
    other_failed: int
    chance: float


def failing_settings(rows: Sequence[BatchRow]) -> list[Split]:
    """The splits that go with failure, the least likely by chance first; of each setting the best one."""
    judged = [r for r in rows if r.summary.verdict in ("anomalous", "healthy")]
    failed = {r.slug for r in judged if r.summary.verdict == "anomalous"}
    if len(judged) < FEWEST or not failed or len(failed) == len(judged):
        return []
    failures = sum(1 << i for i, r in enumerate(judged) if r.slug in failed)
    found = _distinct(judged)
    chances = Chances(len(judged), len(failed))
    least = _least_chances(found, chances)
    best: dict[str, tuple[float, Split]] = {}
    for setting, words, inside in found:
        hit, runs = (inside & failures).bit_count(), inside.bit_count()
        chance = chances.log(hit, runs)
        known = (1 + sum(c <= chance + 1e-9 for c in least)) / (1 + DEALS)
        split = Split(setting, words, runs, hit, len(judged) - runs, len(failed) - hit, known)
        if known <= CHANCE and (setting not in best or chance < best[setting][0]):
            best[setting] = chance, split
    return [split for _, split in sorted(best.values(), key=lambda b: b[0])][:MOST_SHOWN]


class Chances:
    """How likely it is that failures fall among certain runs by chance, as logarithms: of thousands of runs these are numbers
    too small to be written, and sums of whole numbers of thousands of digits."""

    def __init__(self, everyone: int, failures: int) -> None:
        self.everyone = everyone
        self.failures = failures
        self._factorials = np.array([lgamma(n + 1) for n in range(everyone + 1)])
        self._tails = cache(self._tails_of)

    def log(self, failed: int, runs: int) -> float:
        """Of all failures at least ``failed`` fall among ``runs`` of all runs, if they fall anywhere alike."""
        return float(self._tails(runs)[failed])

    def _tails_of(self, runs: int) -> npt.NDArray[np.float64]:
        """For each number of failures among ``runs``, from none to all of them, the chance of so many or more."""
        hits = np.arange(min(runs, self.failures) + 1)
        others = self.everyone - runs
        possible = hits >= self.failures - others
        held = hits[possible]
        ways = self._chosen(runs, held) + self._chosen(others, self.failures - held)
        tails = np.zeros(len(hits))
        least = ways - self._chosen(self.everyone, np.array([self.failures]))
        tails[possible] = np.minimum(np.logaddexp.accumulate(least[::-1])[::-1], 0.0)
        tails[: max(0, self.failures - others) + 1] = 0.0  # so many there must be: certain
        return tails

    def _chosen(self, of: int, some: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Logarithms of the ways to choose ``some`` of ``of``."""
        return self._factorials[of] - self._factorials[some] - self._factorials[of - some]


def chance_of(failed: int, runs: int, other_failed: int, other_runs: int) -> float:
    """Probability that of all failures at least ``failed`` fall among ``runs`` of all runs, if they fall anywhere alike."""
    return exp(Chances(runs + other_runs, failed + other_failed).log(failed, runs))


def _distinct(judged: Sequence[BatchRow]) -> list[tuple[str, str, int]]:
    """Every way to part the runs as (setting, words, runs as bits): of settings that part them alike (an argument and what
    came of it) the first is enough."""
    found: dict[int, tuple[str, str, int]] = {}
    for name in dict.fromkeys(n for r in judged for n in r.summary.settings):
        for words, inside in _splits([r.summary.settings.get(name) for r in judged]):
            found.setdefault(inside, (show_name(name), words, inside))
    return list(found.values())


def _splits(values: Sequence[str | float | None]) -> list[tuple[str, int]]:
    """Ways to part runs by one setting: each threshold between numbers, each text against all others."""
    numbers = sorted({v for v in values if isinstance(v, float) and isfinite(v)})
    edges = [numbers[i * len(numbers) // (THRESHOLDS + 1)] for i in range(1, THRESHOLDS + 1)] if numbers else []
    found: list[tuple[str, int]] = []
    for high in numbers[1:] if len(numbers) <= THRESHOLDS + 1 else dict.fromkeys(edges):
        low = max(v for v in numbers if v < high)
        found.append((f"≥ {number(high)}", _bits(isinstance(v, float) and v >= high for v in values)))
        found.append((f"≤ {number(low)}", _bits(isinstance(v, float) and v <= low for v in values)))
    kinds = sorted({v for v in values if isinstance(v, str)})
    if len(kinds) <= MOST_VALUES:
        found += [(f"= {show_name(kind)}", _bits(v == kind for v in values)) for kind in kinds]
    return [(words, inside) for words, inside in found if 0 < inside < (1 << len(values)) - 1]


def _least_chances(found: Sequence[tuple[str, str, int]], chances: Chances) -> list[float]:
    """The best split's chance, as a logarithm, in each deal of as many failures to the runs."""
    rng = random.Random(0)  # noqa: S311 # deals, no secrets; the same for the same runs
    masks = [(inside, inside.bit_count()) for _, _, inside in found]
    least: list[float] = []
    for _ in range(DEALS):
        dealt = sum(1 << i for i in rng.sample(range(chances.everyone), chances.failures))
        least.append(min((chances.log((m & dealt).bit_count(), size) for m, size in masks), default=0.0))
    return least


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)
