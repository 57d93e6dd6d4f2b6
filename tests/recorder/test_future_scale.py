"""Series that were scaled by their own future."""

import pytest
import torch
from firstfault.recorder import probes
from firstfault.recorder.probes.future_scale import scaled_by_the_future
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
SERIES = torch.randn(16, 40).cumsum(1)
PAST = 30


def by_extremes(x, known):
    low, high = x[:, :known].amin(1, keepdim=True), x[:, :known].amax(1, keepdim=True)
    return (x - low) / (high - low)


def by_mean(x, known):
    return (x - x[:, :known].mean(1, keepdim=True)) / x[:, :known].std(1, keepdim=True, unbiased=False)


@pytest.mark.parametrize(
    ("series", "code"),
    [
        (by_extremes(SERIES, 40), "scaled-by-the-future-extremes"),
        (by_mean(SERIES, 40), "scaled-by-the-future-mean"),
        (by_extremes(SERIES, PAST), "scaled-by-the-past"),
        (by_mean(SERIES, PAST), "scaled-by-the-past"),
        (SERIES, "scaled-by-the-past"),
        ((SERIES - SERIES.min()) / (SERIES.max() - SERIES.min()), "scaled-by-the-past"),
    ],
)
def test_a_scale_of_past_and_future_together_is_told(series, code):
    model = nn.Linear(PAST, 10)
    bench = probes.Bench(model, (series[:, :PAST], series[:, PAST:]), lambda m, batch: mse_loss(m(batch[0]), batch[1]))
    assert bench.try_probe(scaled_by_the_future(bench.setting)).code == code


def test_pictures_and_their_masks_are_no_series():
    pictures = torch.rand(16, 1, 12, 12)
    model = nn.Conv2d(1, 1, 1)
    bench = probes.Bench(
        model, (pictures, (pictures > 0.5).float()), lambda m, batch: mse_loss(m(batch[0]).sigmoid(), batch[1])
    )
    assert bench.try_probe(scaled_by_the_future(bench.setting)).code == "no-series"
