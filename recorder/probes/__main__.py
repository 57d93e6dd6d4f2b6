"""Start a script with a plan: ``python -m firstfault.recorder.probes PLAN [-m] SCRIPT ARGS``. It becomes the script's process."""

import os
import sys

from ...schemas.files.probe_report import ENV_PLAN
from ..supervisor.torch_process import INJECT
from .kernels import WORKSPACE


def main() -> None:
    """Become the script, with the plan in the environment and our sitecustomize in front of PYTHONPATH."""
    plan, *command = sys.argv[1:]
    path = os.pathsep.join(filter(None, [str(INJECT), os.environ.get("PYTHONPATH", "")]))
    environment = {**WORKSPACE, **os.environ, ENV_PLAN: os.path.abspath(plan), "PYTHONPATH": path}  # noqa: PTH100
    os.execve(sys.executable, [sys.executable, *command], environment)  # noqa: S606 — no shell is wanted


if __name__ == "__main__":
    main()
