"""The processes of a pool are forked from one that has loaded what they need: each would take a second for that."""

import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest
from firstfault.reports.batch import run


@pytest.fixture(autouse=True)
def pools_are_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a fork server in place of `spawn`: neither forks a process with threads."""
    real: Callable[[str | None], Any] = multiprocessing.get_context
    server = real("forkserver")
    server.set_forkserver_preload(["firstfault.reports.batch.run", "firstfault.reports.page.render"])
    monkeypatch.setattr(
        run.multiprocessing, "get_context", lambda method=None: server if method == "spawn" else real(method)
    )
