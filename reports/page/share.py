"""A page that can be sent to strangers: host, user, paths above the project, arguments and output stay at home.

Works on the finished data of a page, so that nothing can come in by another way; what was left out is listed on the page.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ...analyzer import Trace
from ...schemas.files.secrets import Redactor
from ..text.language import say
from .data import PageData

_LINES_OF_OUTPUT = 10
"""Kept where the run failed and left no exception: nothing else says why then."""

_HOME = re.compile(r"^/(?:home|Users)/(?P<user>[^/]+)|^/root")
_PATH = re.compile(r"(?<![\w.:/~…>-])/(?:[\w.@+%-]+/)+(?=[\w.@+%-])")
"""Folders of an absolute path, up to its last name; addresses do not begin so."""

_PRIVATE_FACTS = ("Arguments", "Working directory", "Host", "Folder")
_PRIVATE_VERSIONS = ("executable",)


def shared(page: PageData, trace: Trace) -> PageData:
    """The page without what tells of the machine and the person, and with a list of what was left out."""
    hide = _hider(trace)
    hidden = {*map(say, _PRIVATE_FACTS), *_PRIVATE_VERSIONS}
    failed_mutely = not page.ending.ok and page.ending.exception is None
    output = page.ending.output
    kept = "\n".join(output.split("\n")[-_LINES_OF_OUTPUT:]) if output and failed_mutely else None
    made = replace(
        page,
        run_facts=[(name, value) for name, value in page.run_facts if name not in hidden],
        ending=replace(page.ending, output=kept),
    )
    left_out = [say("arguments"), say("host and user"), say("folders above the project")]
    if output and kept != output:
        left_out.append(say("output of the script") if kept is None else say("output but its last lines"))
    return replace(_walked(made, hide), left_out=left_out)


def _hider(trace: Trace) -> Callable[[str], str]:
    manifest = trace.manifest
    cwd, opened = manifest.cwd.rstrip("/"), str(trace.path.absolute())
    folders = {
        f"{cwd}/": "",
        cwd: ".",
        opened: trace.path.resolve().name,
        str(trace.path.resolve()): trace.path.resolve().name,
    }
    homes = [_HOME.match(place) for place in (cwd, opened, str(Path.home()))]
    names = {m["user"]: "user" for m in homes if m is not None and m["user"]}
    hosts = {manifest.hostname, *trace.sql("SELECT DISTINCT hostname FROM ranks")["hostname"].to_list()}
    names |= {host: "host" for host in hosts if host and host != "localhost"}
    folders.pop("/", None)
    folders.pop("", None)
    longest = sorted(folders, key=len, reverse=True)
    secrets = Redactor()  # a run recorded with --keep-secrets has them
    words = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])") if names else None

    def hide(text: str) -> str:
        for folder in longest:
            text = text.replace(folder, folders[folder])
        text = secrets.text(_PATH.sub("…/", text))
        return words.sub(lambda m: names[m[0]], text) if words is not None else text

    return hide


def _walked(value: Any, hide: Callable[[str], str]) -> Any:
    """The same data with every text in it hidden."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, dict):
        return {_walked(k, hide): _walked(v, hide) for k, v in value.items()}
    if isinstance(value, list):
        return [_walked(v, hide) for v in value]
    if isinstance(value, tuple):
        walked = [_walked(v, hide) for v in value]
        return type(value)(*walked) if hasattr(value, "_fields") else tuple(walked)
    if isinstance(value, msgspec.Struct):
        changed = {name: _walked(getattr(value, name), hide) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **changed)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _walked(getattr(value, f.name), hide) for f in fields(value) if f.init})
    return value
