"""Closes with what recording cost each program."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line for each program that ran to its end."""
    reports = terminalreporter.stats.get("passed", [])
    ratios = [
        (value, report.nodeid) for report in reports for name, value in report.user_properties if name == "cpu_ratio"
    ]
    if ratios:
        terminalreporter.section("processor time recorded / plain")
        for ratio, test in sorted(ratios, reverse=True):
            terminalreporter.line(f"{ratio:5.2f}  {test.rpartition('[')[2].rstrip(']')}")
