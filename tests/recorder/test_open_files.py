"""Descriptors that the process holds open are counted now and then."""

import resource
from pathlib import Path

import torch
from torch import nn


def test_a_file_that_each_step_leaves_open_is_one_more(train) -> None:
    model = nn.Linear(4, 2)
    held = []
    done = train(
        model,
        lambda step: model(torch.ones(2, 4)).sum(),
        steps=17,
        after=lambda step: held.append(Path("/dev/null").open()),  # noqa: SIM115 - the fault
    )
    for file in held:
        file.close()
    counted = {row["step"]: row["open_files"] for row in done.rows("steps") if row["open_files"] is not None}
    assert list(counted) == [0, 8, 16]
    assert counted[16] - counted[8] >= 8
    assert {row["open_files_limit"] for row in done.rows("ranks")} == {resource.getrlimit(resource.RLIMIT_NOFILE)[0]}
