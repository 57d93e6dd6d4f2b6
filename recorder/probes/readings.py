"""Looks at a data set that take no trial: samples are read in a copy of the process, before the script has read any."""

from collections.abc import Callable
from typing import Any

from ...schemas.files.probe_report import ProbeResult
from . import flips, read_again, samples_beyond

READINGS: dict[str, Callable[[Any, Any], ProbeResult | None]] = {
    read_again.NAME: lambda dataset, _: read_again.judge(dataset),
    flips.NAME: lambda dataset, _: flips.judge(dataset),
    samples_beyond.NAME: samples_beyond.judge,
}
"""Name of each, and what is given a data set and the samples that its loader puts into a batch."""
