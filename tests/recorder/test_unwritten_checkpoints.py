"""While trials run a script writes no checkpoint, and goes on as if it had."""

import io
import os
import shutil

import pytest
import torch
from firstfault.recorder.probes.unwritten_checkpoints import UnwrittenCheckpoints
from firstfault.recorder.session.patches import Patches


@pytest.fixture
def unwritten():
    patches = Patches()
    UnwrittenCheckpoints().install(patches)
    yield
    patches.undo()


@pytest.mark.parametrize(
    "put",
    [
        lambda beside, path: os.replace(beside, path),  # noqa: PTH105, PLW0108 — as it is when it is called
        lambda beside, path: os.replace(src=str(beside), dst=path),  # noqa: PTH105 — by keyword
        lambda beside, path: beside.replace(path),
        lambda beside, path: beside.rename(path),
        shutil.move,
    ],
)
def test_a_checkpoint_that_is_put_in_place_is_neither_written_nor_missed(unwritten, tmp_path, put):
    path, beside = tmp_path / "last.pt", tmp_path / "last.tmp"
    torch.save({"a": 1}, beside)
    put(beside, path)

    assert list(tmp_path.iterdir()) == []


def test_other_files_are_moved_and_what_goes_to_no_path_is_written(unwritten, tmp_path):
    stream = io.BytesIO()
    torch.save({"a": 1}, stream)
    (tmp_path / "log").write_text("x")
    (tmp_path / "log").replace(tmp_path / "log.old")

    assert stream.tell() > 0
    assert [path.name for path in tmp_path.iterdir()] == ["log.old"]
