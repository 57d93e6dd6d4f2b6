"""What is known of an object goes with it: an address that comes back names somebody else."""

import gc

import torch
from firstfault.recorder.base.identity_map import IdentityMap
from firstfault.recorder.session.registry import Catalogue
from torch import nn


class Thing:
    pass


def test_an_entry_goes_when_its_object_does():
    things = IdentityMap()
    thing = Thing()
    things[thing] = 1
    assert thing in things
    assert things[thing] == 1
    del thing
    gc.collect()
    assert len(things) == 0
    assert Thing() not in things


def test_an_object_at_a_known_address_is_not_taken_for_the_one_before():
    things = IdentityMap()
    hits = 0
    addresses = set()
    for i in range(200):
        thing = Thing()
        hits += id(thing) in addresses
        assert things.get(thing, "new") == "new"
        things[thing] = i
        addresses.add(id(thing))
    assert hits > 0, "no address came back: this test shows nothing"


def test_a_tensor_is_found_by_identity_not_by_value():
    tensors = IdentityMap()
    one, other = torch.ones(3), torch.ones(3)
    tensors[one] = "one"
    assert tensors.get(one) == "one"
    assert tensors.get(other) is None


def test_modules_made_anew_at_the_same_address_are_discovered_anew():
    catalogue = Catalogue()
    model = nn.Linear(2, 2)
    catalogue.add_model(model, "model")
    seen = set()
    again = 0
    for i in range(60):
        wrapper = nn.Sequential(model) if i % 2 else nn.Identity()
        again += id(wrapper) in seen
        seen.add(id(wrapper))
        entry = catalogue.discover(wrapper)
        assert (entry is None) == isinstance(wrapper, nn.Identity)
        del wrapper, entry
    assert again > 0, "no address came back: this test shows nothing"
    gc.collect()
    assert all(known() is not None for known in catalogue._alive.values())
