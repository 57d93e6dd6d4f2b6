"""What reading does to a dataset is told, with the training as it is without the recorder."""

import pytest


def test_entries_that_each_read_changes_are_told_in_every_pass(events_of_reading) -> None:
    changed = [e for e in events_of_reading("plain", 0) if e["path"].startswith("entries")]

    assert [(e["epoch"], e["path"], e["samples"], e["changed"], e["read"]) for e in changed] == [
        (epoch, "entries[i].point", 4, 4, 4) for epoch in range(3)
    ]
    assert all(e["after"] == pytest.approx(e["before"] / 2) for e in changed)


@pytest.mark.parametrize(("kind", "passes"), [("copies", []), ("once", [0])])
def test_what_is_copied_or_changed_once_is_not_told_again(events_of_reading, kind: str, passes: list[int]) -> None:
    changed = [e for e in events_of_reading(kind, 0) if e["path"].startswith("entries")]

    assert [e["epoch"] for e in changed] == passes
