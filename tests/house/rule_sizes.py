"""How large the rules are: detectors that are too long or too wide, bare numbers, sentences in SQL, thresholds of one training.

    python tests/house/rule_sizes.py            prints what is left; `make lint` does
    python tests/house/rule_sizes.py --write    writes tests/house/rule_sizes.toml again, where something has become less

A detector is a SELECT of at most 80 lines and 110 columns. A number other than 0, 1 and 2 has a name, a sentence and a source in
the rule's header. Words stand in the header's `say`, by the reason that the SELECT gives. What exceeds that stands in
rule_sizes.toml, and a test holds it from growing.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from firstfault.analyzer import Rule, load_rules
from firstfault.analyzer.rules.detectors import sections_of

LEDGER = Path(__file__).with_suffix(".toml")
RULES = Path(__file__).parents[2] / "analyzer" / "rules"
MOST_LINES, MOST_COLUMNS = 80, 110
PLAIN = {0.0, 1.0, 2.0}

_COMMENT = re.compile(r"--[^\n]*")
_STRING = re.compile(r"'(?:[^']|'')*'")
_WORDS = re.compile(r"[a-z]{2,}[,:]? [a-z]{2,}")
_REGULAR = re.compile(r"[|]|\.[*]|\\d")
_PATTERN = re.compile(r"(regexp_\w+\([^']*|SIMILAR TO |LIKE |contains\([^']*|starts_with\([^']*|<> |(?<!<)= )$")
_NAME = re.compile(r"\s+AS signal\b")
_NUMBER = re.compile(r"(?<![\w.$])(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.])")


class Excess(NamedTuple):
    """What a rule has too much of: detectors of too many lines, lines of too many columns, bare numbers, sentences in SQL."""

    long: int = 0
    wide: int = 0
    bare: int = 0
    said: int = 0


def excess_of(rule: Rule) -> Excess:
    text = (RULES / rule.layer / rule.file).read_text(encoding="utf-8").partition("*/")[2]
    sections = sections_of(text)
    lines = [line for section in sections for line in section.sql.splitlines()]
    return Excess(
        sum(len(section.sql.splitlines()) > MOST_LINES for section in sections),
        sum(len(line) > MOST_COLUMNS for line in lines),
        len(bare_numbers(text)),
        len(sentences(text)),
    )


def bare_numbers(sql: str) -> list[str]:
    """Numbers that no parameter names; those in strings and comments are none."""
    code = _STRING.sub("''", _COMMENT.sub("", sql))
    return [n for n in _NUMBER.findall(code) if float(n) not in PLAIN]


def sentences(sql: str) -> list[str]:
    """Literals that are words to be read; patterns that others' words are held against are none, nor is the name of a signal or
    the word of a view that a value is compared with."""
    code = _COMMENT.sub("", sql)
    return [
        m[0]
        for m in _STRING.finditer(code)
        if _WORDS.search(m[0])
        and not _REGULAR.search(m[0])
        and not _PATTERN.search(code[: m.start()])
        and not _NAME.match(code[m.end() :])
    ]


def measured() -> dict[str, Excess]:
    """Every rule that has too much of anything, by code."""
    found = {rule.header.code: excess_of(rule) for rule in load_rules()}
    return {code: excess for code, excess in found.items() if any(excess)}


def known() -> dict[str, Excess]:
    """What the ledger allows."""
    said = tomllib.loads(LEDGER.read_text(encoding="utf-8"))
    return {code: Excess(*counts) for code, counts in said.items()}


def ledger(counts: dict[str, Excess]) -> str:
    """The ledger's text."""
    lines = [f"{code} = [{', '.join(map(str, counts[code]))}]" for code in sorted(counts)]
    head = (
        "# Written by `python tests/house/rule_sizes.py --write`:"
        " code = [detectors too long, lines too wide, bare numbers, sentences]."
    )
    return "\n".join([head, *lines]) + "\n"


def cases() -> list[str]:
    """Thresholds that exist because of one training, each as a line."""
    return [
        f"{rule.header.code}.{name} = {p.value} ({p.source})"
        for rule in load_rules()
        for name, p in rule.header.params.items()
        if p.source.startswith("case")
    ]


def summary() -> str:
    counts = measured()
    sections = sum(
        len(sections_of((RULES / r.layer / r.file).read_text("utf-8").partition("*/")[2])) for r in load_rules()
    )
    unsaid = sum(not p.source for r in load_rules() for p in r.header.params.values())
    named = sum(len(r.header.params) for r in load_rules())
    total = [sum(excess[i] for excess in counts.values()) for i in range(4)]
    ones = cases()
    lines = [
        f"rules: {len(load_rules())}, in {sections} parts",
        f"  {total[0]} parts of more than {MOST_LINES} lines, {total[1]} lines of more than {MOST_COLUMNS} columns",
        f"  {total[2]} bare numbers; {named} with a name, {unsaid} of them without a source",
        f"  {total[3]} sentences in SQL, in {sum(excess.said > 0 for excess in counts.values())} rules",
        f"thresholds of kind case: {len(ones)}",
        *(f"  {line}" for line in ones),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    if "--write" in sys.argv:
        LEDGER.write_text(ledger(measured()), encoding="utf-8")
    print(summary())
