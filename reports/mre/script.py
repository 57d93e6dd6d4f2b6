"""A minimal reproduction script from a capture: the module or function whose call lost a value or raised, on its own.

The script needs torch and the capture folder, not firstfault. Names and texts come from strangers: they enter it as Python
literals or in comments of one line, code only from the run's own script.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from ...analyzer.reading.liveness import recorded_here
from ...schemas import CaptureMeta, ExceptionRecord, RunManifest, captures_of, read_manifest
from ...schemas.files.call_recipe import PLAN_JSON, CallPlan, ModulePart, read_plan
from ...schemas.files.layout import exception_path
from ...schemas.files.safe_files import read_file
from ...schemas.files.secrets import HIDDEN
from ..sections.capture_view import find_capture
from ..text.errors import ReportError
from .script_code import ScriptCode, code_for
from .script_secrets import without_secrets

_MAIN = "__main__"
_MOST_PRINTED = 60  # lines of a module's own print


@dataclass(frozen=True, slots=True)
class Reproduction:
    """``text``: the script. ``notes``: what whoever runs it has to know or to do, one sentence each."""

    text: str
    notes: list[str]


def chosen_capture(path: Path, name: str | None) -> tuple[Path, Path, CaptureMeta]:
    """(run, folder, meta) of the capture called ``name``, or of the first one that can be made again.

    Raises ReportError where there is none, naming the next step.
    """
    run, folder, meta = find_capture(path)
    if name is None:
        able = next((f for f in captures_of(run) if PLAN_JSON in f[1].files), None)
        return (run, folder, meta) if able is None or folder == path else (run, *able)
    found = {m.capture: (f, m) for f, m in captures_of(run)}
    if name not in found:
        raise ReportError(f"{run}: no capture {name!r}; there are {', '.join(sorted(found))}")
    return run, *found[name]


def reproduction(run: Path, folder: Path, meta: CaptureMeta, file_name: str) -> Reproduction:
    """The script that makes the captured call once more; ``file_name`` is what it will be called.

    Raises ReportError where the capture does not hold a call.
    """
    plan = read_plan(folder)
    if plan is None or not (folder / plan.file).exists():
        raise ReportError(_why_not(folder, meta))
    manifest = read_manifest(run)
    exception = _exception(run, meta) if meta.reason == "exception" else None
    if meta.reason == "exception" and exception is None:
        raise ReportError(
            f"{run}: the exception of rank {meta.rank} was not recorded; `firstfault replay {folder}` shows the rest"
        )
    code, notes = _own_code(plan, manifest)
    notes += [f"{what} could not be kept; the call is made without it" for what in plan.lost]
    notes += [f"not in the capture: {what}" for what in meta.missing]
    if plan.root is not None and not plan.random and exception is None:
        notes.append("the random numbers of this call are not known; with dropout it may end differently")
    if plan.device.startswith("cuda"):
        notes.append(
            f"the run was on {plan.device}; without a GPU the call is made on the CPU, where it may end differently"
        )
    lost = meta.operator or {}
    text = _environment().get_template("mre.py.j2").render(
        title=_title(plan, meta, exception),
        run_id=manifest.run_id,
        file_name=file_name,
        plan=plan,
        notes=notes,
        capture=str(folder.absolute()),
        import_from=sorted(set(_import_folders(plan))),
        own_code=code.text if code is not None else "",
        future=code.future if code is not None else "",
        paste=_to_paste(plan, code),
        script=_script(plan, manifest),
        printed=plan.printed.splitlines()[:_MOST_PRINTED] if plan.root is not None else [],
        exception=exception,
        only_nan=bool(lost.get("nan_count")) and not lost.get("inf_count"),
        autocast=_autocast(plan),
    )  # fmt: skip
    return Reproduction(text, notes)


def write_script(path: Path, made: Reproduction, *, force: bool) -> None:
    """Write the script. Raises ReportError where a file is in the way or the place cannot be written."""
    if path.exists() and not force:
        raise ReportError(f"{path}: is there already; choose another file with --out, or --force to overwrite it")
    try:
        path.write_text(made.text, "utf-8", errors="backslashreplace")
    except OSError as e:
        raise ReportError(f"{path}: cannot be written ({e.strerror}); choose another file with --out") from e


def _title(plan: CallPlan, meta: CaptureMeta, exception: ExceptionRecord | None) -> str:
    if plan.function is not None:
        what = f"{plan.function[0]}.{plan.function[1]}"
    else:
        what = f"{meta.module_class} {meta.module!r}" if meta.module else f"{meta.module_class}"
    end = f"raises {exception.type.rpartition('.')[2]}" if exception is not None else "loses a value"
    operator = f" in {meta.operator.get('op')}" if meta.operator is not None else ""
    return f"{what} {end}{operator}, as in step {meta.step} of the run."


def _why_not(folder: Path, meta: CaptureMeta) -> str:
    """Why nothing can be made of a capture, and what to do then."""
    if meta.reason == "exception":
        why = "the exception did not come out of a call of a module or of a function of torch"
    elif meta.operator is not None:
        why = "the operator did not run in a module"
    else:
        why = meta.note or "the capture names no module"
    lost = next((m for m in meta.missing if m.startswith(("module:", "plan:"))), None)
    return f"{folder}: there is no call to make again ({lost or why}); `firstfault replay {folder}` shows what was captured"


def _exception(run: Path, meta: CaptureMeta) -> ExceptionRecord | None:
    try:
        return msgspec.json.decode(read_file(exception_path(run, meta.rank), run), type=ExceptionRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


# -- the script's own classes ---------------------------------------------------------------------------------------------------


def _own_code(plan: CallPlan, manifest: RunManifest) -> tuple[ScriptCode | None, list[str]]:
    """What the call needs of the run's script, and what is to be said about it."""
    roots = _names_in_main(plan)
    if not roots:
        return None, []
    path = Path(_script(plan, manifest))
    try:
        source = path.read_bytes()
        if not recorded_here(manifest) and manifest.script_sha256 != hashlib.sha256(source).hexdigest():
            # a path in a folder from elsewhere may name any file of this machine
            return None, [f"{path} is not the script of this run: paste {', '.join(roots)} where the comment says so"]
        text, secrets = without_secrets(source.decode())
        code = code_for(text, roots)
    except OSError as e:
        return None, [f"{path} cannot be read ({e.strerror}): paste {', '.join(roots)} where the comment says so"]
    except (SyntaxError, UnicodeDecodeError) as e:
        return None, [f"{path} is not what the run had ({e}): paste {', '.join(roots)} where the comment says so"]
    notes = [f"{value}; give it its value above the class if the call needs it" for value in code.values]
    if secrets and HIDDEN in code.text:
        notes.append(
            f"secrets of {path.name} are left out; give them their values where {HIDDEN} stands if the call needs them"
        )
    if code.missing:
        notes.append(f"{path} has no {', '.join(code.missing)}: paste it where the comment says so")
    if manifest.script_sha256 not in {None, hashlib.sha256(source).hexdigest()}:
        notes.append(f"{path} has changed since the run; the classes here are those of today")
    return code, notes


def _script(plan: CallPlan, manifest: RunManifest) -> str:
    return plan.files.get(_MAIN) or str(Path(manifest.cwd) / manifest.script)


def _to_paste(plan: CallPlan, code: ScriptCode | None) -> list[str]:
    """Names that the script needs and that nobody could take from the run's."""
    lost = _names_in_main(plan) if code is None else code.missing
    return [name.rpartition(".")[2] for name in lost]


def _names_in_main(plan: CallPlan) -> list[str]:
    """Qualified names of classes and functions that were defined in the script itself, in the order of their use."""
    found: dict[str, None] = {}
    for module, name in _names(plan):
        if module == _MAIN:
            found[name] = None
    return list(found)


def _names(plan: CallPlan) -> Iterator[tuple[str, str]]:
    parts = [plan.root] if plan.root is not None else []
    while parts:
        part: ModulePart = parts.pop()
        if part.same_as is None:
            yield part.class_module, part.class_name
            yield from _names_in([value for _, value in part.attributes])
        parts += [child for child in part.children.values() if child is not None]
    yield from _names_in([*plan.args, *(value for _, value in plan.kwargs)])


def _names_in(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, content in value.items():
            if key in {"name", "object", "enum", "fields"}:
                yield str(content[0]), str(content[1])
            else:
                yield from _names_in(content)
    elif isinstance(value, list):
        for item in value:
            yield from _names_in(item)


def _import_folders(plan: CallPlan) -> Iterator[str]:
    """Folders from which the script's own modules are imported."""
    for module, file in plan.files.items():
        if module != _MAIN:
            path = Path(file)
            up = module.count(".") + (path.name == "__init__.py")
            yield str(path.parents[up])


# -- text -----------------------------------------------------------------------------------------------------------------------


def _autocast(plan: CallPlan) -> str:
    """The beginning of a line, up to the statement that runs under autocast."""
    made = [f"torch.autocast({device!r}, dtype=getattr(torch, {dtype!r}))" for device, dtype in plan.autocast]
    return f"with {', '.join(made)}: " if made else ""


def _environment() -> jinja2.Environment:
    """Python, not HTML: what comes from strangers is a literal, or one line of a comment or docstring."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("firstfault.reports"), undefined=jinja2.StrictUndefined, autoescape=False  # noqa: S701
    )  # fmt: skip
    made.filters |= {"py": repr, "comment": _one_line, "doc": _in_docstring}
    return made


def _one_line(text: object) -> str:
    """Text that ends no comment: characters that cannot be printed become escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def _in_docstring(text: object) -> str:
    return _one_line(text).replace("\\", "\\\\").replace('"', "'")
