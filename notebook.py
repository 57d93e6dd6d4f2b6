"""Recording in IPython and Jupyter: ``%load_ext firstfault``, then ``%%record`` at the head of a cell that trains.

``%%record [DIR]`` records what the cell does and shows the verdict below it. ``%report [DIR]`` shows the whole page, by default
of the run recorded last. Lies beside ``__main__`` because both join the rooms: a cell is recorded, judged and shown.
"""

import html
import io
import shlex
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import HTML, display
from rich.console import Console

from .analyzer import AnalyzerError, Trace, diagnose, rules_for
from .recorder import Recorder, RecorderError
from .reports.page.data import reduce_page
from .reports.page.render import render_page
from .reports.page.terminal import print_verdict

_HEIGHT = 720
"""Height of a page in the notebook, in pixels; it scrolls inside."""


@magics_class
class FirstfaultMagics(Magics):
    """The magics that ``%load_ext firstfault`` adds."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.last: Path | None = None
        """The run recorded last."""

    @cell_magic
    def record(self, line: str, cell: str) -> None:
        """Record what a cell does, and show the verdict: ``%%record [DIR]``. The variables of the cell stay."""
        words = shlex.split(line)
        if len(words) > 1:
            raise UsageError(f"%%record takes one folder, not {len(words)}: {line}")
        shell: Any = self.shell
        code = compile(
            shell.compile.ast_parse(shell.transform_cell(cell)),
            shell.compile.cache(cell, shell.execution_count),
            "exec",
        )
        try:
            recorder = Recorder(words[0] if words else None)
            with recorder:
                self.last = recorder.path
                exec(code, shell.user_ns)  # noqa: S102 — the cell's own code, as the user asked
        except RecorderError as e:
            raise UsageError(f"firstfault: {e}") from e
        finally:
            if self.last is not None:
                _show_verdict(self.last)

    @line_magic
    def report(self, line: str) -> None:
        """Show the page about a run: ``%report [DIR]``, by default about the one recorded last."""
        words = shlex.split(line)
        folder = Path(words[0]) if words else self.last
        if folder is None:
            raise UsageError("no run was recorded in this notebook yet; name a folder: %report DIR")
        try:
            with Trace(folder) as trace:
                written = render_page(reduce_page(trace, diagnose(trace, rules_for(folder, None))))
        except AnalyzerError as e:
            raise UsageError(f"firstfault: {e}") from e
        frame = f'<iframe srcdoc="{html.escape(written)}" width="100%" height="{_HEIGHT}" style="border:0"></iframe>'
        display(HTML(frame))


def _show_verdict(folder: Path) -> None:
    """The verdict in words below the cell; what keeps it from being made is said there too."""
    written = io.StringIO()
    console = Console(file=written, width=100, force_terminal=False, color_system=None)
    try:
        with Trace(folder) as trace:
            print_verdict(console, trace, diagnose(trace, rules_for(folder, None)))
    except AnalyzerError as e:
        written.write(f"firstfault: {e}\n")
    display(HTML(f"<pre>{html.escape(written.getvalue())}</pre>"))
