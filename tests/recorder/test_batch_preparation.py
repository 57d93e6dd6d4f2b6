"""What a script computes over a batch before its model sees it."""

import pytest
import torch
from firstfault.recorder import probes
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
SOUNDS, LABELS = torch.rand(12, 1, 40) * torch.linspace(1, 4, 12)[:, None, None], torch.arange(12) % 3


def each(x):
    return x / x.amax((1, 2), keepdim=True)


def whole(x):
    return x / x.max()


def decibels(x):
    power = 20 * x.log10()
    return power.clamp_min(power.max() - 12)


def mixed(x):
    return 0.7 * x + 0.3 * x.flip(0)


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (whole, "inputs-share-a-scale"),
        (decibels, "inputs-share-a-scale"),
        (each, "inputs-apart"),
        (mixed, "inputs-apart"),
    ],
)
def test_a_scale_of_the_whole_batch_is_told_and_mixing_in_pairs_is_not(prepare, code):
    model = nn.Sequential(nn.Flatten(), nn.Linear(40, 3))
    bench = probes.Bench(model, (SOUNDS, LABELS), lambda m, batch: cross_entropy(m(prepare(batch[0])), batch[1]))
    (found,) = [f for f in probes.check_all(bench) if f.probe == "dependence-batch"]

    assert found.code == code
