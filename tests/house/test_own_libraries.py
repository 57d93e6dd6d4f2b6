"""The command's libraries come before those of a user's PYTHONPATH; the script's process finds its own."""

import os
import subprocess
import sys
from pathlib import Path

from firstfault.own_libraries import put_last


def test_an_old_library_on_the_users_path_is_the_scripts_alone(tmp_path):
    for name in ("rich", "jsonschema", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('an old release')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "firstfault", "rules", "NU001"]
    told = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "NU001" in told.stdout


def test_where_firstfault_lies_on_the_path_itself_nothing_is_moved():
    paths = ["/tools", "/old", "/python/site-packages"]
    assert put_last(paths, "/old", Path("/python/site-packages/firstfault")) == [
        "/tools",
        "/python/site-packages",
        "/old",
    ]
    assert put_last(paths, f"/old{os.pathsep}/tools", Path("/tools/firstfault")) == paths
    assert put_last(paths, "", Path("/tools/firstfault")) == paths
