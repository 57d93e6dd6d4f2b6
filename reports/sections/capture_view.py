"""Reduce what was captured of a lost step: the folder, the operators that were run once more, the first bad one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analyzer import Trace
from ...analyzer.word_patterns import in_words
from ...schemas import CaptureMeta, captures_of, read_meta
from ...schemas.files.layout import CAPTURES, META_JSON, RUN_JSON
from ..text.errors import ReportError
from ..text.grid import Grid
from ..text.language import say
from ..text.wording import number, shape, show_name, show_text, size

_OPERATORS = (
    "SELECT r.ordinal, r.phase, r.op, r.node, m.module, r.source, r.code, r.inputs, r.operand, r.dtype, r.shape, r.numel,"
    " r.nan_count, r.inf_count, r.min, r.max, r.first_bad FROM replays r"
    " LEFT JOIN modules m ON m.rank = r.rank AND m.module_id = r.module_id"
    " WHERE r.rank = $rank AND r.capture = $capture ORDER BY r.ordinal"
)


@dataclass(frozen=True, slots=True)
class CaptureView:
    """One capture in words. ``operators`` is None where the replay showed none, and ``why`` says the reason."""

    folder: str
    title: str
    why: str
    facts: list[tuple[str, str]]
    operators: Grid | None


def reduce_captures(trace: Trace) -> list[CaptureView]:
    """Every capture of a run, in time order."""
    return [view_of(meta, folder, operators_of(trace, meta)) for folder, meta in captures_of(trace.path)]


def operators_of(trace: Trace, meta: CaptureMeta) -> list[dict[str, Any]]:
    """The operators of a capture's replay, as rows of table `replays` with the name of the module."""
    return trace.sql(_OPERATORS, {"rank": meta.rank, "capture": meta.capture}).to_dicts()


def view_of(meta: CaptureMeta, folder: Path, operators: list[dict[str, Any]]) -> CaptureView:
    """One capture in words, from its meta and its operators."""
    first = next((o for o in operators if o["first_bad"]), None)
    facts: list[tuple[str, str]] = []
    if first is not None:
        facts.append((say("First bad operator"), operator_words(first)))
        if first["source"]:
            facts.append((say("Line"), show_name(in_words("source", first["source"]))))
        if first["code"]:
            facts.append((say("Code"), show_text(first["code"])))
        facts += [(say("Given"), show_name(in_words("inputs", first["inputs"] or ""))), (say("Made"), _made(first))]
        if first["module"] is not None:
            facts.append((say("Module"), show_name(first["module"])))
    facts.append((say("Folder"), show_name(str(folder))))
    facts += [(say("Files"), say(", ").join(sorted(meta.files)) or say("none")), (say("Size"), size(meta.bytes))]
    if meta.missing:
        facts.append((say("Not in it"), show_text(say("; ").join(meta.missing))))
    reason = say("an exception") if meta.reason == "exception" else say(f"a {_REASONS.get(meta.reason, meta.reason)}")
    why = (
        show_text(in_words("note", meta.note))
        if meta.note
        else ""
        if first is not None
        else say("The model was not run once more.")
    )
    rank = say(", rank {rank}", rank=meta.rank) if meta.rank else ""
    return CaptureView(
        str(folder),
        say("Step {step}{rank}, for {reason}", step=meta.step, rank=rank, reason=reason),
        why,
        facts,
        operator_grid(operators),
    )


_REASONS = {"loss": "lost loss", "gradient": "lost gradient", "scaler": "collapsed loss scale"}


def operator_words(row: dict[str, Any]) -> str:
    """The operator with the forward operator to whose backward it belongs."""
    if not row["node"]:
        return show_name(row["op"])
    node = row["node"].rstrip("0123456789").removesuffix("Backward").lower()
    return say("{op} in the backward of {node}", op=show_name(row["op"]), node=show_name(node))


def operator_grid(operators: list[dict[str, Any]]) -> Grid | None:
    """The operators one by one; the first bad one is marked."""
    if not operators:
        return None
    rows = [
        [
            str(o["ordinal"]),
            operator_words(o),
            show_name(o["module"], empty="(root)" if o["module"] == "" else "-"),
            show_name(in_words("source", o["source"] or ""), empty=""),
            _made(o),
        ]
        for o in operators
    ]
    marked = next((i for i, o in enumerate(operators) if o["first_bad"]), None)
    return Grid(["#", "operator", "module", "line", "made"], rows, [True, False, False, False, False], marked)


def _made(row: dict[str, Any]) -> str:
    """Shape and range of an operator's output, and what of it is lost."""
    text = f"{row['dtype'] or '?'} {shape(row['shape'])}"
    if row["min"] is not None and row["max"] is not None:
        text += say(", {min} to {max}", min=number(row["min"]), max=number(row["max"]))
    for column, word in (("nan_count", "NaN"), ("inf_count", "Inf")):
        if row[column]:
            text += f", {number(row[column])} {word}"
    return text


def find_capture(path: Path) -> tuple[Path, Path, CaptureMeta]:
    """(run, capture folder, meta) of a capture folder, or of the first capture of a run.

    Raises ReportError for what is neither, SchemaError for a damaged meta.json.
    """
    if not path.exists():
        raise ReportError(f"{path}: no such folder; give a folder below captures/ of a run, or the run")
    if (path / META_JSON).exists():
        run = path.absolute().parents[1]
        if not (run / RUN_JSON).exists():
            raise ReportError(f"{path}: its run is not around it (no {run / RUN_JSON}); the operators are kept there")
        return run, path, read_meta(path)
    if (path / RUN_JSON).exists():
        found = captures_of(path)
        if not found:
            raise ReportError(
                f"{path}: nothing was captured in this run; no loss or gradient was lost while it was recorded"
            )
        return path, *found[0]
    raise ReportError(
        f"{path}: neither a capture (no {META_JSON}) nor a run (no {RUN_JSON}); captures lie in RUN/{CAPTURES}/"
    )


def capture_json(meta: CaptureMeta, folder: Path, operators: list[dict[str, Any]]) -> dict[str, Any]:
    """What `firstfault replay --json` prints."""
    first = next((o for o in operators if o["first_bad"]), None)
    return {
        "schema_version": 1,
        "capture": meta.capture,
        "path": str(folder),
        "rank": meta.rank,
        "step": meta.step,
        "microbatch": meta.microbatch,
        "reason": meta.reason,
        "reproduced": meta.reproduced,
        "note": meta.note,
        "first_bad": first,
        "operators": operators,
        "files": meta.files,
        "missing": meta.missing,
    }
