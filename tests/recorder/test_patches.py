"""One wrapper around a function, for all who want to know of its calls."""

import functools
import types

import pytest
import torch
from firstfault.recorder.session.patches import Patches
from torch import nn


def add(a: int, b: int) -> int:
    if b < 0:
        raise ValueError(b)
    return a + b


def owner() -> types.SimpleNamespace:
    return types.SimpleNamespace(add=add)


def test_two_who_want_to_know_of_one_function_share_one_wrapper():
    place, patches, told = owner(), Patches(), []
    patches.around(place, "add", before=lambda *given: told.append(("before", given)))
    first = place.add
    patches.around(place, "add", after=lambda note, result, *given: told.append(("after", note, result, given)))

    assert place.add is first
    assert place.add.__wrapped__ is add
    assert place.add(1, 2) == 3
    assert told == [("before", (1, 2)), ("after", None, 3, (1, 2))]


def test_each_gets_its_own_note_back():
    place, patches, told = owner(), Patches(), []
    for name in ("one", "other"):
        patches.around(
            place, "add", before=lambda *_, name=name: name, after=lambda note, *_: told.append(note), lastly=None
        )
    place.add(1, 2)
    assert told == ["one", "other"]


def test_after_a_call_that_raises_only_lastly_is_told():
    place, patches, told = owner(), Patches(), []
    patches.around(
        place,
        "add",
        before=lambda *_: "note",
        after=lambda *_: told.append("after"),
        lastly=lambda note, returned: told.append((note, returned)),
    )
    with pytest.raises(ValueError, match="-1"):
        place.add(1, -1)
    assert told == [("note", False)]
    place.add(1, 1)
    assert told[1:] == [("note", True), "after"]


def test_a_function_that_has_two_places_has_one_wrapper_in_both():
    place, other, patches = owner(), owner(), Patches()
    patches.around(place, "add", before=lambda *_: None, also=[other])
    assert place.add is other.add is not add
    patches.undo()
    assert place.add is other.add is add


def test_what_the_script_has_put_in_another_place_stays_there():
    place, other, patches = owner(), types.SimpleNamespace(add=max), Patches()
    patches.around(place, "add", before=lambda *_: None, also=[other])
    assert other.add is max


def test_another_place_that_holds_something_around_the_function_is_told_of_once():
    place, patches, told = owner(), Patches(), []
    other = types.SimpleNamespace(add=functools.wraps(add)(lambda a, b: add(a, b) * 10))
    around = other.add
    patches.around(place, "add", before=lambda *given: told.append(given), also=[other])
    assert other.add(1, 2) == 30
    assert told == [(1, 2)]
    assert place.add(2, 3) == 5
    assert told == [(1, 2), (2, 3)]
    patches.undo()
    assert other.add is around


def test_what_the_script_put_on_top_stays_and_is_wrapped_anew():
    place, patches, told = owner(), Patches(), []
    patches.around(place, "add", before=lambda *_: told.append("under"))
    under = place.add
    place.add = on_top = lambda a, b: under(a, b) + 1
    patches.around(place, "add", before=lambda *_: told.append("over"))
    assert place.add(1, 2) == 4
    assert told == ["over", "under"]
    patches.undo()
    assert place.add is on_top


def test_compiled_code_goes_through_a_wrapper_without_a_graph_break():
    patches, told = Patches(), []
    patches.around(nn.functional, "softplus", before=lambda *_, **__: told.append("called"), lastly=lambda *_: None)
    try:
        compiled = torch.compile(lambda x: nn.functional.softplus(x) * 2, backend="eager", fullgraph=True)
        assert torch.allclose(compiled(torch.zeros(3)), torch.full((3,), 2.0).log() * 2)
    finally:
        patches.undo()
        torch._dynamo.reset()
    assert told == []
