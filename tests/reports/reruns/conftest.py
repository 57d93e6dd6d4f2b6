"""Scripts that are run again."""

import forked
import pytest
from firstfault.reports.reruns import rerun_script


@pytest.fixture
def reruns_are_forks(monkeypatch):
    """Starts of a script again are forks of a process with torch: what they show does not depend on how it starts."""
    monkeypatch.setattr(
        rerun_script, "_start", lambda command, env, script: forked.Process(command, script.folder, env)
    )
