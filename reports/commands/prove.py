"""The command that tries a diagnosis: prove."""

from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from ...schemas.files.proof import Proof
from ..text.language import say
from ..text.wording import show_name
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


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "prove", prove_command)


def prove_command(
    run: RunArgument = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", metavar="NAME", help="Try this cause alone, by its name or code.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", min=5, help="Seconds of training that one re-run may take.")
    ] = 600,
    as_json: Annotated[bool, json_option("Print what was tried as JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Run the script of a diagnosed run again with each possible fix, and say which cause is confirmed or refuted.

    This command executes the script's own code, as it was started, in its folder. Nothing of the run's captures is unpickled.
    Exit status: 0 a cause is confirmed, 1 none is, 2 wrong usage or unreadable, 3 neither. Status 3 means that the fault did
    not come back or could not be tried.
    """
    from ..panels.proof import proof_lines, proof_rows  # noqa: PLC0415 # charts: not for --help
    from ..reruns.prove import prove  # noqa: PLC0415 # as above

    out, err = console(), console(stderr=True)
    with command_errors(err, debug=debug):
        folder = chosen_run(err, run)
        speak_as_asked(lang, folder)

        def told(words: str) -> None:
            if err.is_terminal:
                err.print(words, markup=False, style="dim")

        proof, _ = prove(folder, candidate, seconds, told)
        if as_json:
            print_json(msgspec.to_builtins(proof))
        else:
            for name, how in proof.proven.items():
                out.print(f"{show_name(name)}: {say(how)}", markup=False, soft_wrap=True)
            for words in proof_lines(proof):
                out.print(words, markup=False, soft_wrap=True)
            grid = Table.grid(padding=(0, 2))
            for row in proof_rows(proof):
                grid.add_row(*(Text(cell) for cell in row))
            out.print(grid)
    raise typer.Exit(exit_code(proof))


def exit_code(proof: Proof) -> int:
    """0 confirmed, 1 none is, 3 nothing came back or was tried."""
    if "confirmed" in proof.proven.values():
        return 0
    return 1 if proof.proven else 3
