"""Which language was asked for: --lang, FIRSTFAULT_LANG, firstfault.toml, else English."""

import os
import tomllib
from pathlib import Path
from typing import Any

from ...analyzer.errors import AnalyzerError
from ...analyzer.language import LANGUAGES, Language, speak
from ...analyzer.rules.thresholds import settings_file

VARIABLE = "FIRSTFAULT_LANG"
"""Environment variable that names the language where --lang does not."""


def speak_as_asked(given: str | None, run: Path | None) -> Language:
    """Set and return the language of this process: of --lang, else of FIRSTFAULT_LANG, else of ``lang`` in the
    firstfault.toml of the run or the current folder. Raises AnalyzerError for one that there is not."""
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
        raise AnalyzerError(f"{file}: cannot be read ({e}); correct it or move it away") from e
    return _known(f"lang in {file}", settings["lang"]) if "lang" in settings else "en"


def _known(source: str, value: object) -> Language:
    if value not in LANGUAGES:
        raise AnalyzerError(f"{source}: {value!r} is not known; choose {' or '.join(LANGUAGES)}")
    return value
