"""`make gpu` works but for what needs a device: every part runs on the host, with tiny models."""

import os
import subprocess
import sys
from pathlib import Path

import forked
import pytest
import torch

VERIFY = Path(__file__).parent / "verify.py"


@pytest.mark.suite
def test_every_part_gives_its_rows_on_the_host() -> None:
    command = [sys.executable, VERIFY, "--device", "cpu", "--tiny", "--seconds", "1"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in done.stdout.splitlines()[4:]]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(part, good) for part, *_, good in rows] == [
        *[("identity", "good")] * 2,
        *[("waits", "")] * 4,
        *[("statistics", "good")] * 2,
        *[("kill", "good")] * 2,
        *[("cost", "")] * 4,
    ]
    assert ("statistics", "the fused kernel") in [row[:2] for row in rows]
    assert all(found.startswith("not applicable") for part, _, found, *_ in rows if part == "waits")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_device_it_says_so_and_ends_with_two() -> None:
    done = forked.run([sys.executable, VERIFY], text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no CUDA device: ")
