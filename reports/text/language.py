"""The language of pages and of the terminal."""

import re
from pathlib import Path

from ...analyzer.language import Sentences, language

say = Sentences("firstfault.reports")
"""A sentence of a report in the current language; ``reports/words/zh.toml`` holds the Chinese of each."""


def page_language() -> str:
    """The current language, as ``<html lang>`` has it."""
    return {"en": "en", "zh": "zh-CN"}[language()]


def script_words() -> dict[str, str]:
    """Sentences that the scripts of a page say, English -> the current language; empty for English."""
    known = say.of(language())
    return {text: known[text] for text in script_texts() if text in known}


def script_texts() -> list[str]:
    """What the scripts give to ``say``, read from themselves."""
    files = sorted((Path(__file__).parents[1] / "templates").glob("*.js"))
    found = [m for f in files for m in _SAID.findall(f.read_text(encoding="utf-8"))]
    return list(dict.fromkeys(found))


_SAID = re.compile(r'\bsay\("([^"]+)"')
