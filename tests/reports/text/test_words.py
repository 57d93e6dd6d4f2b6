"""Every text of a page and of the terminal can be read in Chinese, and what is no text stays as it is."""

import ast
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import firstfault
import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.analyzer.language import language, speaking
from firstfault.analyzer.language import say as say_of_analyzer
from firstfault.analyzer.word_patterns import in_words
from firstfault.application import build_app
from firstfault.reports.commands.asked_language import chosen_language
from firstfault.reports.live import look_at, view_of_live
from firstfault.reports.page.data import reduce_page
from firstfault.reports.page.render import render_page
from firstfault.reports.page.terminal import verdict_lines
from firstfault.reports.text.language import say
from firstfault.reports.text.wording import number, plural, spoken
from rich.console import Console
from typer.testing import CliRunner

ROOT = Path(firstfault.__file__).parent
NO_TEXT = {"demo_training.py", "train_gpt.py"}
"""The demo tells its own story while it trains, in English."""

ENGLISH = re.compile(r"(?<![\w.`/(:])[A-Za-z]?[a-z]+ [a-z]{2,}|(?<![\w.`/])(?:the|of|and|were|was|not|is|in) [a-z]{2,}")
QUOTED = re.compile("“[^”]*”|`[^`]*`")


def said_in_python(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            first = node.args[0]
            if node.func.id == "say" and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value
            if node.func.id == "plural" and isinstance(node.args[1], ast.Constant):
                yield f"{{count}} {node.args[1].value}"


def said_in_template(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    for double, single in re.findall(r"""\bsay\((?:"([^"]+)"|'([^']+)')""", text):
        yield double or single
    for noun in re.findall(r'\bplural\([^"]*?, "([^"]+)"', text):
        yield f"{{count}} {noun}"


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+(?::[^}]*)?)\}", text))


def speaks_for_the_analyzer(file: Path) -> bool:
    """Whether its sentences stand among those of the analyzer: the command that explains rules says them in their words."""
    return bool(re.search(r"analyzer\.language import .*\bsay\b", file.read_text(encoding="utf-8")))


REPORTS = ROOT / "reports"


@cache
def texts_of(package: str) -> dict[str, str]:
    """Texts of the code of a package that somebody reads, with the file of each. Some reports speak for the analyzer."""
    reports = sorted(REPORTS.rglob("*.py"))
    if package == "analyzer":
        own = [*sorted((ROOT / "analyzer").rglob("*.py")), *(f for f in reports if speaks_for_the_analyzer(f))]
        return {text: f.name for f in own for text in said_in_python(f)}
    files = [f for f in reports if f.name not in NO_TEXT and not speaks_for_the_analyzer(f)]
    texts = {text: f.name for f in files for text in said_in_python(f)}
    return texts | {text: f.name for f in sorted((REPORTS / "templates").iterdir()) for text in said_in_template(f)}


@pytest.mark.parametrize(("package", "sentences"), [("reports", say), ("analyzer", say_of_analyzer)])
def test_every_text_has_its_chinese_with_the_same_placeholders(package: str, sentences: Any) -> None:
    texts = texts_of(package)
    assert len(texts) > 25
    known = sentences.of("zh")
    missing = {text: file for text, file in texts.items() if text not in known and re.search("[A-Za-z]{2}", text)}
    assert missing == {}, f"no Chinese in {sentences.package}/words/zh.toml"
    for english, chinese in known.items():
        assert placeholders(english) == placeholders(chinese), english


@pytest.mark.parametrize("package", ["analyzer", "reports"])
def test_a_text_is_translated_once(package: str) -> None:
    text = (ROOT / package / "words" / "zh.toml").read_text(encoding="utf-8")
    assert len(tomllib.loads(text)) == len(re.findall(r'^"', text, re.MULTILINE))


def variants(node: ast.expr, names: dict[str, ast.expr]) -> list[str]:
    """What a string in the recorder's code may come out as, with 7 for whatever is not known before. ``names``: what variables of
    the file are set to."""
    match node:
        case ast.Name(id=name) if isinstance(names.get(name), ast.IfExp):
            return variants(names[name], {})
        case ast.Constant(value=str(value)):
            return [value]
        case ast.JoinedStr(values=values):
            return ["".join(parts) for parts in product(*(variants(v, names) for v in values))]
        case ast.FormattedValue(value=value):
            return variants(value, names)
        case ast.IfExp(body=body, orelse=orelse):
            return variants(body, names) + variants(orelse, names)
        case ast.BinOp(left=left, right=right):
            return ["".join(parts) for parts in product(variants(left, names), variants(right, names))]
        case ast.BoolOp(values=values):
            return [v for value in values for v in variants(value, names)]
        case _:
            return ["7"]


def written_by_the_recorder() -> Iterator[tuple[str, str]]:
    """Sentences of events, and notes: column and sentence."""
    for file in sorted((ROOT / "recorder").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        plain = [n for n in nodes if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
        names = {n.targets[0].id: n.value for n in plain if isinstance(n.targets[0], ast.Name)}
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "event":
                for message in variants(node.args[1], names) if len(node.args) > 1 else []:
                    yield "event", message
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Replay":
                for keyword in node.keywords:
                    if keyword.arg == "note":
                        yield from (("note", v) for v in variants(keyword.value, names))
            match node:
                case ast.Assign(targets=[ast.Attribute(attr="note")]):
                    yield from (("note", v) for v in variants(node.value, names))
                case _:
                    pass


def test_what_the_recorder_writes_into_a_run_is_read_in_chinese() -> None:
    found = list(written_by_the_recorder())
    assert len(found) > 30
    with speaking("zh"):
        english = [sentence for column, sentence in found if ENGLISH.search(QUOTED.sub("", in_words(column, sentence)))]
    assert english == [], "no pattern in analyzer/words/zh/shared/sentences.toml"


def said_by_import_and_mre() -> Iterator[tuple[str, str]]:
    """What an import found in a file, and what whoever runs the script of `mre` has to know: column and sentence."""
    for file in sorted((ROOT / "analyzer" / "importers").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith(("import_", "_say_what_was_found")):
                found = [n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None]
                plain = [n for n in ast.walk(node) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
                names = {n.targets[0].id: n.value for n in plain if isinstance(n.targets[0], ast.Name)}
                yield from (("found_in_file", v) for value in found for v in variants(value, names) if v != "7")
    notes = ast.parse((REPORTS / "mre" / "script.py").read_text(encoding="utf-8"))
    for node in ast.walk(notes):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="notes"), attr="append"), args=[note]):
                yield from (("note_on_script", v) for v in variants(note, {}))
            case ast.ListComp(elt=ast.JoinedStr() as note):
                yield from (("note_on_script", v) for v in variants(note, {}))
            case ast.Return(value=ast.Tuple(elts=[_, ast.List(elts=[note])])):
                yield from (("note_on_script", v) for v in variants(note, {}))
            case _:
                pass


def test_what_import_and_mre_say_is_said_in_chinese() -> None:
    found = list(said_by_import_and_mre())
    counts = Counter(column for column, _ in found)
    assert counts["found_in_file"] > 5, found
    assert counts["note_on_script"] > 10, found
    with speaking("zh"):
        english = [sentence for column, sentence in found if ENGLISH.search(QUOTED.sub("", in_words(column, sentence)))]
    assert english == [], "no pattern in analyzer/words/zh/shared/sentences.toml"


class Texts(HTMLParser):
    """The texts of a page that a person reads: no code, no scripts, no style; and the attributes that are read out."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.texts: list[str] = []
        self.language = ""
        self.charts: Any = None
        self.id = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "html":
            self.language = given.get("lang") or ""
        self.id = given.get("id") or ""
        if tag not in {"meta", "link", "input", "br", "path"}:
            self.inside.append(tag)
        self.texts += [v for k, v in given.items() if k in {"aria-label", "title", "placeholder"} and v]

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.inside and self.inside[-1] == "script" and self.id == "charts":
            self.charts = json.loads(data)
        elif not {"code", "pre", "script", "style"} & set(self.inside) and data.strip():
            self.texts.append(" ".join(data.split()))


def words_of_charts(value: Any, key: str = "") -> Iterator[str]:
    """Titles and labels of charts."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from words_of_charts(v, k)
    elif isinstance(value, list):
        for v in value:
            yield from words_of_charts(v, key)
    elif isinstance(value, str) and key in {"title", "words", "label", "said", "text", "part"}:
        yield value


def english_of(html: str) -> list[str]:
    page = Texts()
    page.feed(html)
    page.close()
    assert page.language == "zh-CN"
    texts = [*page.texts, *words_of_charts(page.charts)]
    return [text for text in dict.fromkeys(texts) if ENGLISH.search(QUOTED.sub("", text))]


def page_in_chinese(folder: Path) -> str:
    with speaking("zh"), Trace(folder) as trace:
        return render_page(reduce_page(trace, diagnose(trace)))


def test_a_chinese_page_of_a_broken_run_holds_no_english_sentence(broken_run) -> None:
    html = page_in_chinese(broken_run.write())
    assert english_of(html) == []
    assert "训练如何结束" in html


def test_a_chinese_page_of_an_empty_run_holds_no_english_sentence(run_folder) -> None:
    assert english_of(page_in_chinese(run_folder("empty").write())) == []


def test_the_terminal_speaks_chinese(broken_run) -> None:
    with speaking("zh"), Trace(broken_run.write()) as trace:
        lines = verdict_lines(trace, diagnose(trace))
        labels = [label for label, _ in lines if label]
        assert [label for label in labels if not re.search("[\u4e00-\u9fff]", say(label))] == []
    said = " ".join(words for label, words in lines if label != "evidence" and "firstfault " not in words)
    assert not ENGLISH.search(QUOTED.sub("", said)), said


def test_the_live_view_speaks_chinese(broken_run) -> None:
    with speaking("zh"), Trace(broken_run.write()) as trace:
        console = Console(file=StringIO(), width=200)
        console.print(view_of_live(look_at(trace), diagnose(trace)))
        shown = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue] # the StringIO above
    assert not ENGLISH.search(QUOTED.sub("", shown)), shown
    assert not re.search(r"^[a-z]+  ", shown.partition("\n")[2], re.MULTILINE), shown


def test_a_strangers_name_that_is_one_of_our_words_is_not_translated(run_folder) -> None:
    folder = run_folder("loss")
    folder.config = {"loss": "squared", "learning rate": 3}
    for step in range(4):
        folder.step(step)
    html = page_in_chinese(folder.write())
    assert "<dt>config.loss</dt>" in html or "<dt>loss</dt>" in html
    assert "squared" in html


def test_braces_in_a_strangers_name_are_left_alone() -> None:
    with speaking("zh"):
        assert say("{name} (step {step})", name="{step}{x}", step=3) == "{step}{x}（第 3 步）"


def test_english_is_the_language_unless_another_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIRSTFAULT_LANG", raising=False)
    assert chosen_language(None, None) == "en"
    (tmp_path / "firstfault.toml").write_text('lang = "zh"\n', encoding="utf-8")
    assert chosen_language(None, None) == "zh"
    monkeypatch.setenv("FIRSTFAULT_LANG", "en")
    assert chosen_language(None, None) == "en"
    assert chosen_language("zh", None) == "zh"


def test_numbers_and_nouns_are_put_together_as_each_language_does_it() -> None:
    assert (plural(1, "step"), plural(12000, "step")) == ("1 step", "12\u202f000 steps")
    with speaking("zh"):
        assert (plural(1, "step"), plural(12000, "step")) == ("1 步", "12\u202f000 步")
        assert spoken("zero-lr") == "学习率为零"
        assert spoken("a-rule-of-mine") == "a rule of mine"


def run_command(command: str, *args: str) -> Any:
    with speaking(language()):  # what a command speaks is over with it
        return CliRunner().invoke(build_app(command), [command, *args])


def test_the_verdict_has_the_same_names_and_keys_in_both_languages(broken_run) -> None:
    folder = str(broken_run.write())
    found: dict[str, dict[str, Any]] = {}
    for lang in ("en", "zh"):
        found[lang] = json.loads(run_command("diagnose", folder, "--json", "--lang", lang).stdout)
    for english, chinese in zip(found["en"]["causes"], found["zh"]["causes"], strict=True):
        assert set(english) == set(chinese)
        apart = {key for key in english if english[key] != chinese[key]}
        assert apart <= {"message", "fix", "candidates"}
        assert re.search("[\u4e00-\u9fff]", chinese["message"])


def test_compare_and_batch_speak_chinese_too(judged_here: None, run_folder, tmp_path: Path) -> None:
    folders: list[str] = []
    for name, rate in (("one", 1e-3), ("two", 1e-2)):
        run = run_folder(f"runs/{name}")
        for step in range(12):
            run.step(step, loss=2 - rate * step, lr=rate)
        folders.append(str(run.write()))
    page = tmp_path / "page.html"
    result = run_command("compare", *folders, "--lang", "zh", "-o", str(page))
    assert "下一步" in result.stdout
    assert english_of(page.read_text(encoding="utf-8")) == []
    result = run_command("batch", str(tmp_path / "runs"), "-o", str(tmp_path / "out"), "--lang", "zh", "-j", "1")
    assert result.exit_code in {0, 1, 3}
    assert english_of((tmp_path / "out" / "index.html").read_text(encoding="utf-8")) == []
    pages = list((tmp_path / "out" / "runs").glob("*.html"))
    assert len(pages) == 2
    assert english_of(pages[0].read_text(encoding="utf-8")) == []


def test_a_language_that_is_not_there_is_wrong_usage(broken_run) -> None:
    result = run_command("diagnose", str(broken_run.write()), "--lang", "fr")
    assert result.exit_code == 2
    assert "choose en or zh" in result.output


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3550.4, "3550"), (48_123.7, "48\u202f124"), (-3550.4, "−3550"), (2.5e7, "2.5e+07"), (0.0000123456, "1.235e−05")],
)
def test_numbers_that_people_know_have_no_power_of_ten(value: float, shown: str) -> None:
    assert number(value, digits=4) == shown
