"""`firstfault compare`: where two runs part."""

from pathlib import Path
from typing import Annotated

import typer

from ...analyzer import Trace, diagnose, rules_for
from ...analyzer.compare.comparison import compare
from .asked_language import speak_as_asked
from .common import (
    DebugOption,
    ForceOption,
    LangOption,
    RulesOption,
    add,
    command_errors,
    console,
    json_option,
    out_option,
    print_json,
)
from .find_run import find_run
from .progress import sign_of_life


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "compare", compare_command)


def compare_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="Folder of the first run.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Folder of the second run.")],
    out: Annotated[Path | None, out_option("FILE", "Also write one self-contained HTML page.")] = None,
    as_json: Annotated[bool, json_option("Print the comparison as JSON.")] = False,
    force: ForceOption = False,
    rules: RulesOption = None,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Name the first step and tensor in which two runs differ, and what else differs between them.

    Exit status: 0 equal, or within rounding and scatter; 1 diverged; 2 wrong usage or unreadable.
    """
    from ..compare.data import comparison_json, reduce_comparison  # noqa: PLC0415 # charts: not for --help
    from ..compare.page import print_comparison, write_comparison  # noqa: PLC0415 # as above
    from ..page.render import check_target  # noqa: PLC0415 # as above

    screen, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        speak_as_asked(lang, None)
        folders = [find_run(path)[0] for path in (a, b)]
        if out is not None:
            check_target(out, force=force)
        with (
            sign_of_life(err, "Reading and comparing the runs …"),
            Trace(folders[0]) as one,
            Trace(folders[1]) as two,
        ):
            verdicts = diagnose(one, rules_for(folders[0], rules)), diagnose(two, rules_for(folders[1], rules))
            comparison = compare(one, two, *verdicts)
            page = reduce_comparison(one, two, comparison)
            said = comparison_json(one, two, verdicts, comparison) if as_json else None
        if out is not None:
            write_comparison(page, out, force=force)
        if said is not None:
            print_json(said)
        else:
            print_comparison(screen, page)
            if out is not None:
                screen.print(str(out), markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if comparison.beyond is None else 1)
