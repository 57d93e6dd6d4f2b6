"""Text logs of trainings: one reader a kind, found by what the lines look like; ranks that Slurm interleaves are told apart."""

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from ...errors import ImportFileError
from ..byte_streams import ByteStream, encoding_of
from ..records import Record, put_records
from ..target import RunTarget
from . import (
    detectron2,
    fairseq,
    keras,
    key_values,
    llm_c,
    megatron,
    mllog,
    mmengine,
    modded_nanogpt,
    nanogpt,
    nemo,
    olmo,
    tables,
    torchtitan,
    trainer_lines,
    ultralytics,
)
from .log_format import EachLine, LineParser, LogFormat

__all__ = ["FORMATS", "import_text_log", "known_format"]

FORMATS: tuple[LogFormat, ...] = (
    *(mllog.FORMAT, trainer_lines.FORMAT, megatron.FORMAT, mmengine.FORMAT, detectron2.FORMAT, fairseq.FORMAT),
    *(modded_nanogpt.FORMAT, llm_c.FORMAT, nanogpt.FORMAT, torchtitan.FORMAT, olmo.FORMAT, nemo.FORMAT, keras.FORMAT),
    *(ultralytics.FORMAT, tables.FORMAT),
)
"""Kinds of logs whose lines are those of one program. ``key_values`` takes what is left."""

_PIECE = 1 << 20
_LONGEST = 1 << 16
"""Characters of a line; what is longer is no line of numbers."""

_SNIFFED = 200_000
"""Lines that are looked at to find out what kind of log it is; a log may begin with the source of its script."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[[0-9;]{1,5}m(?=\S)")
_RANK = re.compile(r"^(?:\[(?:rank|default)(\d{1,6})\]:\s?|\[1,(\d{1,6})\]<std\w{3}>:\s?)")
_SLURM = re.compile(r"^ *(\d{1,6}): ")


def known_format(lines: Iterable[str], *, any_script: bool = False) -> LogFormat | None:
    """The kind of log that most of these lines belong to. ``any_script``: also lines of no known program."""
    counted: Counter[str] = Counter()
    formats = (*FORMATS, key_values.FORMAT) if any_script else FORMATS
    for line in islice(lines, _SNIFFED):
        plain = _RANK.sub("", line)
        for form in formats:
            if form.line.search(plain):
                counted[form.name] += 1
                break
    return max(formats, key=lambda form: counted[form.name]) if counted else None


def import_text_log(path: Path, target: RunTarget, label: str) -> str:
    """Read a text log into the target. Returns what was found, in a few words."""
    form = known_format(log_lines(path)) or known_format(log_lines(path), any_script=True)
    if form is None:
        raise ImportFileError(
            f"{path}: no line of it tells a step and a loss; known are logs of {', '.join(f.name for f in FORMATS)}"
        )
    slurm = _is_labelled(log_lines(path))
    parsers: dict[int, LineParser] = {}
    found: dict[int, list[Record]] = {}
    torn = 0
    for line in log_lines(path):
        rank, plain = _rank_of(line, slurm=slurm)
        parser = parsers.get(rank)
        if parser is None:
            parser = parsers[rank] = form.parser()
        records = list(parser.take(plain))
        found.setdefault(rank, []).extend(records)
        torn += isinstance(parser, EachLine) and not records and bool(form.line.search(plain))
    for rank, parser in parsers.items():
        found[rank] += parser.end()
    told = {rank: records for rank, records in found.items() if records}
    several = len(told) > 1
    records = [r | ({"rank": rank} if several else {}) for rank, mine in sorted(told.items()) for r in mine]
    if not records:
        raise ImportFileError(f"{path}: looks like {form.name}, but no line of it holds whole numbers")
    words = put_records(path, records, target, label, "log")
    message = f"{path.name} was read as {form.name}; not taken: {form.left_out}"
    message += f", and {torn} lines that are torn." if torn else "."
    target.event("log-read", message)
    return f"{form.name}: {words}"


def log_lines(path: Path) -> Iterator[str]:
    """Lines without colours; what a progress bar has overwritten with a carriage return is a line of its own."""
    with ByteStream(path) as stream:
        rest, decode = "", None
        while raw := stream.read(_PIECE):
            if not raw.strip(b"\0"):
                continue  # a hole in the file, or its end after a loss of power
            if decode is None:
                decode = getincrementaldecoder(encoding_of(raw))("replace").decode
            text = rest + decode(raw)
            *whole, rest = re.split(r"\r\n|\n|\r|\^M", text)
            for line in whole:
                if line and len(line) <= _LONGEST:
                    yield _COLOUR.sub("", line) if "[" in line else line
            if len(rest) > _LONGEST:
                rest = rest[-_LONGEST:]
        if rest:
            yield _COLOUR.sub("", rest)


def _is_labelled(lines: Iterable[str]) -> bool:
    """Whether `srun --label` has put the number of the task before almost all lines."""
    looked = [bool(_SLURM.match(line)) for line in islice(lines, 2000)]
    return bool(looked) and sum(looked) > 0.9 * len(looked)


def _rank_of(line: str, *, slurm: bool) -> tuple[int, str]:
    found = (_SLURM.match(line) if slurm else None) or _RANK.match(line)
    if found is None:
        return 0, line
    rank = next(int(group) for group in found.groups() if group is not None)
    return rank, line[found.end() :]
