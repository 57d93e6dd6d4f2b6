"""Files of checkpoints, written and read, and state that is put in, are rows with their step."""

import os
import shutil

import pytest
import torch
from torch import nn


def test_what_is_saved_and_loaded_is_a_row_with_its_file_and_counter(train, tmp_path) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    path = tmp_path / "state.pt"

    def checkpoint(step: int) -> None:
        if step == 2:
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epochs": 9,
                    "epoch": 1,
                    "step": step,
                },
                path,
            )
        elif step == 4:
            state = torch.load(path)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])

    done = train(model, lambda step: model(torch.randn(3, 4)).square().mean(), optimizer=optimizer, after=checkpoint)

    found = done.rows("checkpoints")
    assert [row["action"] for row in found] == ["saved", "read", "weights", "optimizer"]
    assert [row["path"] for row in found] == [str(path), str(path), None, None]
    assert [(row["counter_name"], row["counter"]) for row in found[:2]] == [("step", 2)] * 2
    assert [(row["epoch_name"], row["epoch"]) for row in found[:2]] == [("epoch", 1)] * 2
    assert found[0]["bytes"] == path.stat().st_size
    assert (len(done.events("checkpoint-saved")), len(done.events("checkpoint-loaded"))) == (1, 1)


@pytest.mark.parametrize("module", [os, shutil])
def test_a_file_that_is_put_in_place_after_it_was_written_is_known_by_its_last_path(train, tmp_path, module) -> None:
    model, path = nn.Linear(4, 2), tmp_path / "state.pt"

    def checkpoint(step: int) -> None:
        if step == 2:
            move = module.replace if module is os else module.move  # as it is found when it is called
            torch.save(model.state_dict(), path.with_suffix(".tmp"))
            move(path.with_suffix(".tmp"), path)
            path.rename(path.with_suffix(".old"))
            torch.save(model.state_dict(), path)

    done = train(model, lambda _: model(torch.randn(3, 4)).square().mean(), after=checkpoint)

    found = done.rows("checkpoints")
    assert [row["path"] for row in found] == [str(path.with_suffix(".old")), str(path)]
