"""What the script lists of folders: who is told, and names in the order in which the call gives them."""

import glob
import os
from pathlib import Path

from firstfault.recorder.loop.listings import around_listings, names_listed
from firstfault.recorder.session.patches import Patches

NAMES = ["b.png", "a.png", "c.txt"]


def test_each_kind_of_listing_tells_its_names_in_the_folders_own_order(tmp_path):
    for name in NAMES:
        (tmp_path / name).write_text("")
    own, told, patches = os.listdir(tmp_path), {}, Patches()  # noqa: PTH208 — the order of this call is what is looked at
    around_listings(patches, lambda kind, found: told.__setitem__(kind, names_listed(kind, found)))
    try:
        os.listdir(tmp_path)  # noqa: PTH208 — one of the kinds
        os.scandir(tmp_path).close()
        glob.glob(str(tmp_path / "*.png"))  # noqa: PTH207 — one of the kinds
        list(tmp_path.iterdir())
        list(Path(tmp_path).glob("*.png"))
    finally:
        patches.undo()

    pictures = [name for name in own if name.endswith(".png")]
    assert told == {
        "listdir": own,
        "scandir": own,
        "path.iterdir": own,
        "glob": pictures,
        "path.glob": pictures,
    }


def test_patterns_that_go_into_folders_have_no_names_to_compare(tmp_path):
    assert names_listed("path.glob", (tmp_path, "**/*.png")) == []
    assert names_listed("path.glob", (tmp_path, "a/*.png")) == []


def test_a_listing_by_keyword_is_told_too(tmp_path):
    (tmp_path / "a").write_text("")
    told, patches = [], Patches()
    around_listings(patches, lambda kind, found: told.append((kind, names_listed(kind, found))))
    try:
        os.scandir(path=tmp_path).close()
        os.listdir(path=tmp_path)  # noqa: PTH208 — one of the kinds
        glob.glob(pathname=str(tmp_path / "*"))  # noqa: PTH207 — one of the kinds
        list(Path(tmp_path).glob(pattern="*"))
    finally:
        patches.undo()
    kinds = {"scandir", "listdir", "glob", "path.glob"}
    assert {kind for kind, names in told if names == ["a"]} == kinds
