"""`firstfault rules`: what is checked, one rule explained, the cases of rules of one's own."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from ...analyzer.errors import RuleError
from ...analyzer.language import close_up, say
from ...analyzer.rule_cases.case_database import CaseDatabase
from ...analyzer.rule_cases.cases import cases_beside, judge
from ...analyzer.rules.rule import Rule, find_rule, load_own_rules, load_rules
from ...analyzer.rules.texts import fixes_of, text_of
from .asked_language import speak_as_asked
from .common import DebugOption, LangOption, add, command_errors, console, json_option, print_json


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    add(app, "rules", rules_command)


def rules_command(
    key: Annotated[str | None, typer.Argument(metavar="[NAME|CODE]", help="Explain this rule.")] = None,
    own: Annotated[
        Path | None,
        typer.Option("--rules", metavar="DIR", help="Folder with rules of your own, listed beside ours."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option("--test", metavar="DIR", help="Run the cases of the rules in this folder.")
    ] = None,
    as_json: Annotated[bool, json_option("Print the rules, or the one, as JSON.")] = False,
    lang: LangOption = None,
    debug: DebugOption = False,
) -> None:
    """List what is checked, explain one rule, or test rules of your own."""
    with command_errors(console(stderr=True), debug=debug):
        speak_as_asked(lang, None)
        mine = load_own_rules(own) if own is not None else ()
        if test is not None:
            raise typer.Exit(_test(test))
        found = (*load_rules(), *mine)
        if key is not None:
            chosen = find_rule(key) or next((r for r in mine if _is_called(r, key)), None)
            if chosen is None:
                raise RuleError(f"no rule is called {key!r}; `firstfault rules` lists them")
            if as_json:
                print_json(_plain(chosen))
            else:
                print(explain(chosen))  # noqa: T201 # command line
        elif as_json:
            print_json([_plain(rule) for rule in found])
        else:
            _list(found)


def _is_called(rule: Rule, key: str) -> bool:
    return key.lower() in {rule.header.code.lower(), rule.header.name}


def _plain(rule: Rule) -> dict[str, Any]:
    """A rule for machines: its header as it stands in its file, its layer and its SQL."""
    return {**msgspec.to_builtins(rule.header), "layer": rule.layer, "sql": rule.sql}


def _list(found: tuple[Rule, ...]) -> None:
    table = RichTable(say("code"), say("name"), say("severity"), say("what"), box=None, pad_edge=False)
    for rule in found:
        h = rule.header
        what = (text_of(h.code, h.name) or h.doc).what
        table.add_row(h.code, h.name, say(h.severity), escape(close_up(" ".join(what.split()))))
    Console().print(table)


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
    """One rule as plain text, in the current language: what, why, what it leaves alone, fix; then thresholds and the SQL,
    as they stand in its file."""
    h = rule.header
    text = text_of(h.code, h.name)
    doc, fixes = h.doc if text is None else text, fixes_of(h if text is None else text)
    title = "" if text is None else f" {text.title}"
    lines = [f"{h.code} {h.name}{title} ({say(h.severity)}, {h.phase})", ""]
    parts = ("What", doc.what), ("Why", doc.why), ("Not this", doc.not_this), ("Source", doc.source)
    for heading, words in (*parts, *(("Fix", fix) for fix in fixes)):
        lines += [close_up(f"{say(heading)}: {' '.join(words.split())}"), ""]
    for name, p in h.params.items():
        source = f" [{p.source}]" if p.source else ""
        lines.append(f"${name} = {p.value} {p.unit}".rstrip() + f": {' '.join(p.doc.split())}{source}")
    if h.params:
        lines.append("")
    if h.explains:
        lines += [f"{say('Explains')}: {', '.join(h.explains)}", ""]
    return "\n".join([*lines, rule.sql])
