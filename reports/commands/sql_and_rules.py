"""`firstfault sql` and `firstfault rules`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import polars as pl
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ...analyzer.diagnosis.diagnose import plain
from ...analyzer.errors import AnalyzerError, QueryError, RuleError
from ...analyzer.language import close_up, say
from ...analyzer.reading.trace import HARMLESS, Trace, statements_of
from ...analyzer.reading.views import SHARED
from ...analyzer.rule_cases.case_database import CaseDatabase
from ...analyzer.rule_cases.cases import cases_beside, judge
from ...analyzer.rules.rule import Rule, find_rule, load_own_rules, load_rules
from ...analyzer.rules.texts import text_of
from ...analyzer.visible import visible
from .asked_language import LangOption, speak_as_asked

MAX_ROWS = 200
"""Rows that a terminal table shows; --csv and --json give all."""


def register(app: typer.Typer) -> None:
    """Add the sub-commands of this room."""
    app.command("sql")(sql)
    app.command("rules")(rules)


def sql(
    run: Annotated[Path, typer.Argument(help="Folder that `firstfault run` wrote.")],
    query: Annotated[str | None, typer.Argument(help="One SQL statement; a prompt without it.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Let SQL read and write files, and reach the network.")
    ] = False,
) -> None:
    """Query the recorded tables and shared views of a run with DuckDB."""
    if csv and json:
        raise typer.Exit(_complain("give --csv or --json, not both"))
    try:
        with Trace(run, described=True, unsafe=unsafe) as trace:
            for problem in trace.problems:
                said = visible(f"firstfault: left out {problem.path}: {problem.what}")
                print(said, file=sys.stderr)  # noqa: T201 # command line
            show = _show_csv if csv else _show_json if json else _show_table
            if query is None:
                _prompt(trace, show, unsafe=unsafe)
            else:
                show(asked(trace, query, unsafe=unsafe))
    except AnalyzerError as e:
        raise typer.Exit(_complain(str(e))) from None


def rules(
    key: Annotated[str | None, typer.Argument(metavar="[NAME|CODE]", help="Explain this rule.")] = None,
    own: Annotated[
        Path | None, typer.Option("--rules", help="Folder with rules of your own, listed beside ours.")
    ] = None,
    test: Annotated[Path | None, typer.Option("--test", help="Run the cases of the rules in this folder.")] = None,
    lang: LangOption = None,
) -> None:
    """List what is checked, explain one rule, or test rules of your own."""
    try:
        speak_as_asked(lang, None)
        mine = load_own_rules(own) if own is not None else ()
        if test is not None:
            raise typer.Exit(_test(test))
    except AnalyzerError as e:
        raise typer.Exit(_complain(str(e))) from None
    if key is None:
        table = RichTable(say("code"), say("name"), say("severity"), say("what"), box=None, pad_edge=False)
        for rule in (*load_rules(), *mine):
            h = rule.header
            what = (text_of(h.code, h.name) or h.doc).what
            table.add_row(h.code, h.name, say(h.severity), escape(close_up(" ".join(what.split()))))
        Console().print(table)
        return
    rule = find_rule(key) or next((r for r in mine if key.lower() in {r.header.code.lower(), r.header.name}), None)
    if rule is None:
        raise typer.Exit(_complain(f"no rule is called {key!r}; `firstfault rules` lists them"))
    print(explain(rule))  # noqa: T201 # command line


def _test(folder: Path) -> int:
    """Every case of every rule of a folder, a line each; 0 where all hold, 1 otherwise."""
    failed = count = 0
    files = {p.name: p for p in folder.rglob("*.sql")}
    own_rules = load_own_rules(folder)
    database = CaseDatabase()
    for rule in own_rules:
        file = files[rule.file]
        cases = cases_beside(file)
        if not any(c.get("expect") for c in cases) or not any(c.get("expect") == [] for c in cases):
            print(f"{rule.file}: needs a case that fires and one that stays silent in {file.stem}.cases.toml")  # noqa: T201 # command line
            failed += 1
        for case in cases:
            try:
                wrong = judge(rule, case, database).problems
            except RuleError as e:
                wrong = [str(e)]
            count += 1
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok':6} {rule.header.code} {case['name']}")  # noqa: T201 # command line
            for line in wrong:
                print(f"       {line}")  # noqa: T201 # command line
    database.close()
    print(f"{count} cases, {failed} problems" if failed else f"{count} cases hold")  # noqa: T201 # command line
    return 1 if failed else 0


def explain(rule: Rule) -> str:
    """One rule as plain text, in the language in force: what, why, what it leaves alone, fix; then thresholds and the SQL,
    as they stand in its file."""
    h = rule.header
    text = text_of(h.code, h.name)
    doc, fix = (h.doc, h.fix) if text is None else (text, text.fix)
    title = "" if text is None else f" {text.title}"
    lines = [f"{h.code} {h.name}{title} ({say(h.severity)}, {h.phase})", ""]
    parts = ("What", doc.what), ("Why", doc.why), ("Not this", doc.not_this), ("Source", doc.source), ("Fix", fix)
    for heading, words in parts:
        lines += [close_up(f"{say(heading)}: {' '.join(words.split())}"), ""]
    for name, p in h.params.items():
        lines.append(f"${name} = {p.value} {p.unit}".rstrip() + f": {' '.join(p.doc.split())}")
    if h.params:
        lines.append("")
    if h.explains:
        lines += [f"{say('Explains')}: {', '.join(h.explains)}", ""]
    return "\n".join([*lines, rule.sql])


def asked(trace: Trace, query: str, *, unsafe: bool) -> pl.DataFrame:
    """The answer. Raises QueryError for a statement that would touch more than what is in memory."""
    if not unsafe:
        refused = {s.type for s in statements_of(query)} - HARMLESS
        if refused:
            names = ", ".join(sorted(kind.name for kind in refused))
            raise QueryError(f"{names} may write files or load code; use --unsafe if you mean it")
    return trace.sql(query)


def _prompt(trace: Trace, show: Callable[[pl.DataFrame], None], *, unsafe: bool) -> None:
    interactive = sys.stdin.isatty()
    if interactive:
        names = f"tables: {', '.join(trace.tables)}\nshared views among them: {', '.join(SHARED)}"
        print(f"{names}\nend a statement with ; leave with Ctrl-D")  # noqa: T201 # command line
    pending = ""
    while True:
        try:
            line = input("firstfault> " if interactive and not pending else "        ... " if interactive else "")
        except (EOFError, KeyboardInterrupt):
            break
        pending += line + "\n"
        if pending.rstrip().endswith(";"):
            _answer(trace, pending, show, unsafe=unsafe)
            pending = ""
    if pending.strip():
        _answer(trace, pending, show, unsafe=unsafe)


def _answer(trace: Trace, query: str, show: Callable[[pl.DataFrame], None], *, unsafe: bool) -> None:
    try:
        show(asked(trace, query, unsafe=unsafe))
    except QueryError as e:
        _complain(str(e))


def _show_csv(frame: pl.DataFrame) -> None:
    nested = [c for c, t in frame.schema.items() if isinstance(t, pl.List | pl.Struct | pl.Array)]
    flat = frame.with_columns(pl.col(c).map_elements(lambda v: str(list(v)), return_dtype=pl.String) for c in nested)
    sys.stdout.write(flat.write_csv())


def _show_json(frame: pl.DataFrame) -> None:

    for row in frame.iter_rows(named=True):
        sys.stdout.write(msgspec.json.encode({k: plain(v) for k, v in row.items()}).decode() + "\n")


def _show_table(frame: pl.DataFrame) -> None:
    table = RichTable(*(escape(c) for c in frame.columns), box=None, pad_edge=False)
    for row in frame.head(MAX_ROWS).iter_rows():
        table.add_row(*(escape(_cell(v)) for v in row))
    console = Console()
    console.print(table)
    if frame.height > MAX_ROWS:
        console.print(f"… {frame.height - MAX_ROWS} more rows; --csv prints all")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return format(value, ".6g") if isinstance(value, float) else visible(str(value))


def _complain(message: str) -> int:
    lines = message.splitlines()
    print("firstfault: " + "\n".join(map(visible, lines[:2])), file=sys.stderr)  # noqa: T201 # command line
    return 2
