"""Classes numbered in the order in which a folder was listed."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from firstfault.recorder.probes.listed_names import Listed, ListedNames, in_order
from firstfault.recorder.session.patches import Patches
from torch import nn

NAMES = ("mouse", "cat", "zebra", "dog")
SAVES = "import torch\ntorch.save(model.state_dict(), 'last.pt')\n"


def judged(tmp_path: Path, variables: dict, listed: tuple = NAMES, source: str = SAVES, rows: int = 4):
    script = tmp_path / "train.py"
    script.write_text(source)
    names = ListedNames()
    names.listings = [Listed(listed, "train.py:7")]
    batch = [torch.rand(8, 3), torch.tensor([0, 1, 2, 3, 0, 1, 2, 3])]
    return names.judge([variables], [str(script)], batch, [nn.Linear(3, rows)])


@pytest.mark.parametrize(
    "variables",
    [
        {"classes": list(NAMES)},
        {"class_to_idx": {name: i for i, name in enumerate(NAMES)}},
        {"loader": SimpleNamespace(dataset=SimpleNamespace(classes=1)), "kept": NAMES},
    ],
)
def test_classes_in_the_order_of_a_listing_are_told(tmp_path, variables):
    found = judged(tmp_path, variables)

    assert found.code == "classes-in-order-of-a-listing"
    assert (found.values["count"], found.values["place"], Path(found.values["saved"]).name) == (
        4,
        "train.py:7",
        "train.py:2",
    )


@pytest.mark.parametrize(
    "given",
    [
        {"variables": {"classes": sorted(NAMES)}},
        {"variables": {"classes": ["dog", "zebra", "cat", "mouse"]}},  # written by hand
        {"variables": {"classes": list(NAMES)}, "rows": 10},  # no layer has a row for each: they are samples
        {
            "variables": {"classes": list(NAMES)},
            "source": SAVES.replace("model.state_dict()", "{'w': w, 'classes': classes}"),
        },
        {"variables": {"classes": list(NAMES)}, "source": SAVES + "json.dump(classes, open('classes.json', 'w'))\n"},
        {"variables": {"classes": list(NAMES)}, "source": "print()\n"},
        {"variables": {"count": 4}},
    ],
)
def test_classes_in_an_order_of_their_own_or_that_are_saved_are_not(tmp_path, given):
    assert judged(tmp_path, **given) is None


def test_names_in_the_order_of_their_numbers_are_sorted():
    assert in_order(("class 2", "class 10", "class 11"))
    assert in_order(("c", "b", "a"))
    assert not in_order(("class 10", "class 2", "class 11"))


def test_what_the_script_lists_is_kept_in_its_order_and_what_is_gone_raises_for_the_script_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda _folder: list(NAMES))
    listed, patches = ListedNames(), Patches()
    listed.install(patches)
    try:
        assert os.listdir(tmp_path) == list(NAMES)  # noqa: PTH208 — the order of this call is what is looked at
        with pytest.raises(FileNotFoundError):
            os.scandir(tmp_path / "gone")
    finally:
        patches.undo()

    assert [one.names for one in listed.listings] == [NAMES]
