"""The commands over several runs: compare and batch."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ..analyzer import Trace, diagnose, judging
from ..analyzer.compare import compare
from .cli import DebugOption, RulesOption, command_errors, console, named
from .find_run import find_run
from .progress import sign_of_life


def register(app: typer.Typer) -> None:
    """Add this room's commands over several runs."""
    app.command("compare")(compare_command)


def compare_command(
    a: Annotated[Path, typer.Argument(metavar="A", help="Folder of the first run.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Folder of the second run.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Also write one self-contained HTML page.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that firstfault did not write.")] = False,
    rules: RulesOption = None,
    debug: DebugOption = False,
) -> None:
    """Name the first step and tensor in which two runs differ, and what else differs between them.

    Exit status: 0 equal, or within rounding and scatter; 1 diverged; 2 wrong usage or unreadable.
    """
    from .compare_data import comparison_json, reduce_comparison  # noqa: PLC0415 # charts: not for --help
    from .compare_page import print_comparison, write_comparison  # noqa: PLC0415 # as above
    from .page import check_target  # noqa: PLC0415 # as above

    out, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        folders = [find_run(path)[0] for path in (a, b)]
        if output is not None:
            check_target(output, force=force)
        with (
            sign_of_life(err, "Reading and comparing the runs …"),
            Trace(folders[0]) as one,
            Trace(folders[1]) as two,
        ):
            verdicts = diagnose(one, judging(folders[0], rules)), diagnose(two, judging(folders[1], rules))
            comparison = compare(one, two, *verdicts)
            page = reduce_comparison(one, two, comparison)
            said = comparison_json(one, two, verdicts, comparison) if as_json else None
        if output is not None:
            write_comparison(page, output, force=force)
        if said is not None:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(named(said)), indent=2).decode() + "\n")
        else:
            print_comparison(out, page)
            if output is not None:
                out.print(str(output), markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if comparison.beyond is None else 1)
