"""One message when a run turns anomalous while it is recorded: to a command, or to an address as JSON."""

import json
import os
import shlex
import subprocess
import urllib.error
import urllib.request
from typing import Any

import msgspec

from ..analyzer import Verdict
from .text.errors import ReportError

_PATIENCE_S = 20.0


def message(verdict: Verdict) -> dict[str, Any]:
    """The facts of the verdict's first cause, as `diagnose --json` has them."""
    cause = verdict.causes[0] if verdict.causes else None
    said: dict[str, Any] = {"run": verdict.run.run_id, "path": verdict.run.path, "verdict": verdict.verdict}
    said["first_anomaly"] = None if verdict.first_anomaly is None else msgspec.to_builtins(verdict.first_anomaly)
    if cause is not None:
        keys = ("code", "name", "severity", "step", "rank", "module", "tensor", "message", "fix")
        said["cause"] = {key: getattr(cause, key) for key in keys}
    return said


def check(target: str) -> str:
    """The target of an alert. Raises ReportError for one that is neither an address nor a command."""
    if target.startswith(("http://", "https://")):
        return target
    try:
        words = shlex.split(target)
    except ValueError as e:
        raise ReportError(f"--alert {target}: is neither an http address nor a command ({e})") from None
    if not words:
        raise ReportError("--alert wants an http address or a command")
    return target


def send(target: str, verdict: Verdict) -> str | None:
    """Post the message, or run the command with it on stdin and in FIRSTFAULT_ALERT. Returns what went wrong."""
    text = json.dumps(message(verdict), allow_nan=False, default=str)
    try:
        if target.startswith(("http://", "https://")):
            headers = {"Content-Type": "application/json", "User-Agent": "firstfault"}
            request = urllib.request.Request(target, text.encode(), headers, method="POST")  # noqa: S310 — checked above
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:  # noqa: S310 — as above
                answer.read(1)
        else:
            environment = {**os.environ, "FIRSTFAULT_ALERT": text}
            subprocess.run(
                shlex.split(target),
                input=text,
                text=True,
                env=environment,
                timeout=_PATIENCE_S,
                check=True,
                stdout=subprocess.DEVNULL,
            )
    except (OSError, ValueError, urllib.error.URLError, subprocess.SubprocessError) as e:
        return f"{type(e).__name__}: {e}"
    return None
