"""The language of pages and of the terminal, and which one it is: --lang, FIRSTFAULT_LANG, firstfault.toml, else English."""

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from ..analyzer.judging import settings_file
from ..analyzer.language import LANGUAGES, Language, Sentences, language, speak
from .errors import ReportError

VARIABLE = "FIRSTFAULT_LANG"
"""Environment variable that names the language where --lang does not."""

LangOption = Annotated[
    str | None,
    typer.Option("--lang", metavar="en|zh", show_default=False, help="Language of all texts; also FIRSTFAULT_LANG."),
]

say = Sentences("firstfault.reports")
"""A sentence of a report in the language in force; ``reports/words/zh.toml`` holds the Chinese of each."""


def page_language() -> str:
    """The language in force, as ``<html lang>`` has it."""
    return {"en": "en", "zh": "zh-CN"}[language()]


def script_words() -> dict[str, str]:
    """Sentences that the scripts of a page say, English -> the language in force; empty for English."""
    known = say.of(language())
    return {text: known[text] for text in script_texts() if text in known}


def script_texts() -> list[str]:
    """What the scripts give to ``say``, read from themselves."""
    files = sorted((Path(__file__).parent / "templates").glob("*.js"))
    found = [m for f in files for m in _SAID.findall(f.read_text(encoding="utf-8"))]
    return list(dict.fromkeys(found))


_SAID = re.compile(r'\bsay\("([^"]+)"')


def speak_as_asked(given: str | None, run: Path | None) -> Language:
    """Set and return the language of this process: of --lang, else of FIRSTFAULT_LANG, else of ``lang`` in the
    firstfault.toml of the run or the current folder. Raises ReportError for one that there is not."""
    chosen = chosen_language(given, run)
    speak(chosen)
    return chosen


def chosen_language(given: str | None, run: Path | None) -> Language:
    """As ``speak_as_asked``, without setting it."""
    for source, value in (("--lang", given), (VARIABLE, os.environ.get(VARIABLE) or None)):
        if value is not None:
            return _known(source, value)
    file = settings_file(run)
    if file is None:
        return "en"
    try:
        settings: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise ReportError(f"{file}: cannot be read ({e}); correct it or move it away") from e
    return _known(f"lang in {file}", settings["lang"]) if "lang" in settings else "en"


def _known(source: str, value: object) -> Language:
    if value not in LANGUAGES:
        raise ReportError(f"{source}: {value!r} is not known; choose {' or '.join(LANGUAGES)}")
    return value
