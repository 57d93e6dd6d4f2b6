"""`firstfault check`: whether a run folder is what was written."""

from typing import Annotated

import msgspec
import typer

from ...analyzer.reading.check import Checked, Way, check
from ...analyzer.word_patterns import in_words
from ..text.language import say
from ..text.wording import plural, show_name, size
from .asked_language import speak_as_asked
from .common import (
    DebugOption,
    LangOption,
    RunArgument,
    add,
    chosen_run,
    command_errors,
    console,
    json_option,
    print_json,
)

DAMAGED = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "check", check_command)


def check_command(
    run: RunArgument = None,
    as_json: Annotated[bool, json_option("Print what was found as JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Verify the checksums of a run folder and say which files are damaged.

    Exit status: 0 whole, 1 damaged, 2 wrong usage or no run.
    """
    out, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        folder = chosen_run(err, run)
        speak_as_asked(lang, folder)
        found = check(folder)
    if as_json:
        print_json(msgspec.to_builtins(found))
    else:
        for line in lines_of(found):
            out.print(line, markup=False, soft_wrap=True)
    raise typer.Exit(DAMAGED if found.problems else 0)


def lines_of(found: Checked) -> list[str]:
    """What was found, a line each."""
    lines = [f"{show_name(p.path)}: {show_name(in_words('problem', p.what))}" for p in found.problems]
    what = say(
        "{parts} ({size}) and {segments}",
        parts=plural(found.parts, "part"),
        size=size(found.part_bytes),
        segments=plural(found.segments, "journal segment"),
    )
    if found.unsealed:
        lines.append(say("{parts} were written without a checksum", parts=plural(found.unsealed, "part")))
    if not found.listed:
        lines.append(say("there is no checksums.json: output, stacks and captured tensors were not checked"))
    lines += [_said(way, len(found.ways)) for way in found.ways]
    lines.append(
        say("damaged; checked: {what}", what=what) if found.problems else say("whole; checked: {what}", what=what)
    )
    return lines


def _said(way: Way, ways: int) -> str:
    """How tensors were measured, and by how many ranks where they differ."""
    if way.instructions is not None:
        how = show_name(way.instructions)
        line = say("tensors in the host's memory were measured by the C library ({how})", how=how)
    else:
        why = show_name(in_words("without_library", way.without_library or ""))
        line = say("tensors in the host's memory were measured by torch's operators: {why}", why=why)
    return line if ways == 1 else say("{what}, on {ranks}", what=line, ranks=plural(way.ranks, "rank"))
