"""What all tests share."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Two test workers share two cores: the threads of one training would wait at every barrier for those of the other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Where the library cannot be built it is left out on purpose: `firstfault run` then says nothing of it.
if shutil.which("cc") is None and not (Path(__file__).parents[1] / "recorder" / "tensors" / "libmoments.so").exists():
    os.environ.setdefault("FIRSTFAULT_NATIVE", "0")
# A row that does not fit its table fails the test that wrote it, in recorded scripts too.
os.environ.setdefault("FIRSTFAULT_STRICT", "1")


@pytest.fixture(scope="session")
def need_library() -> Callable[[Any, str], None]:
    """Leaves a test out where a library in C cannot be there: no compiler, or switched off. Where it could, it must."""

    def need(library: object, why_not: str) -> None:
        if library is None:
            if os.environ.get("FIRSTFAULT_NATIVE") != "0" and shutil.which("cc"):
                pytest.fail(f"{why_not}; install again: it is built then")
            pytest.skip(why_not)

    return need
