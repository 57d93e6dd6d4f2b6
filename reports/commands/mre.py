"""`firstfault mre`: a script that makes a captured call once more."""

from pathlib import Path
from typing import Annotated

import typer

from ...analyzer.word_patterns import in_words
from ..text.language import say
from ..text.wording import show_name
from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, add, command_errors, console, json_option, out_option, print_json


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "mre", mre_command)


def mre_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of one of its captures.")],
    capture: Annotated[
        str | None, typer.Option("--capture", metavar="NAME", help="Folder below captures/; by default the first one.")
    ] = None,
    out: Annotated[Path | None, out_option("FILE", "The script; by default RUN-mre.py, here.")] = None,
    as_json: Annotated[bool, json_option("Print the script's path and the notes on it as JSON.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """Write a script that makes a captured call once more, for a bug report: the module, its weights, its inputs.

    It needs torch and the capture, not firstfault, and ends as the run did.
    """
    from ..mre.script import chosen_capture, reproduction, write_script  # noqa: PLC0415 # jinja2: only where it is used

    err = console(stderr=True)
    with command_errors(err, debug=debug):
        where, folder, meta = chosen_capture(run, capture)
        speak_as_asked(lang, where)
        target = out or Path(f"{where.resolve().name}-mre.py")
        made = reproduction(where, folder, meta, target.name)
        write_script(target, made, force=force)
    if as_json:
        print_json({"script": str(target), "notes": list(made.notes)})
        return
    for note in made.notes:
        err.print(show_name(say("note: {note}", note=in_words("note_on_script", note))), markup=False, soft_wrap=True)
    console().print(show_name(str(target)), markup=False, highlight=False, soft_wrap=True)
