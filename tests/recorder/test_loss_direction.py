"""Signs of a loss's gradient say whether it pulls the outputs towards the targets."""

import pytest
import torch
from firstfault.recorder.watches.loss_direction import right_way
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def dice(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    p, t = scores.reshape(-1), mask.reshape(-1).float()
    return (2 * (p * t).sum() + 1) / (p.sum() + t.sum() + 1)


def losses():
    drawn = torch.Generator().manual_seed(0)
    mask = (torch.rand(8, 1, 16, 16, generator=drawn) < 0.2).float()
    classes = torch.randint(0, 5, (64,), generator=drawn)
    one, two = torch.randn(8, 1, 16, 16, generator=drawn), torch.randn(8, 2, 16, 16, generator=drawn)
    logits = torch.randn(64, 5, generator=drawn)
    return {
        "dice of a sigmoid": (one, mask, lambda o: 1 - dice(o.sigmoid(), mask)),
        "dice of two channels": (two, mask[:, 0].long(), lambda o: 1 - dice(o.softmax(1)[:, 1], mask)),
        "binary cross entropy": (one, mask, lambda o: F.binary_cross_entropy_with_logits(o, mask)),
        "cross entropy": (logits, classes, lambda o: F.cross_entropy(o, classes)),
        "weighted cross entropy": (
            logits,
            classes,
            lambda o: F.cross_entropy(o, classes, torch.tensor([9.0, 1, 1, 1, 5])),
        ),
        "focal": (
            logits,
            classes,
            lambda o: -((1 - o.softmax(1)) ** 2 * o.log_softmax(1)).gather(1, classes[:, None]).mean(),
        ),
    }


@pytest.mark.parametrize("name", losses())
def test_a_loss_pulls_towards_its_targets_and_turned_round_away_from_them(name):
    output, target, loss = losses()[name]
    output.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(output), output)
    assert (right_way(gradient, target) or 0) > 0.8
    assert right_way(-gradient, target) == pytest.approx(0.0, abs=0.05)


def test_what_has_nothing_to_do_with_the_target_goes_neither_way():
    drawn = torch.Generator().manual_seed(0)
    embeddings, labels = torch.randn(64, 5, generator=drawn), torch.randint(0, 5, (64,), generator=drawn)
    assert 0.3 < (right_way(embeddings, labels) or 0) < 0.7
    everywhere = torch.rand(8, 1, 16, 16, generator=drawn)
    mask = (torch.rand(8, 1, 16, 16, generator=drawn) < 0.1).float()
    assert right_way(everywhere, mask) == 1.0  # it pushes all of it down, as a discriminator's loss does
    assert right_way(-everywhere, mask) == 1.0
    assert right_way(everywhere, torch.zeros(8, 1, 16, 16)) is None
    assert right_way(everywhere, labels) is None
    assert right_way(torch.randn(64, 5), labels + 3) is None


@pytest.mark.parametrize(("sign", "turned"), [(1.0, True), (-1.0, False)])
def test_a_dice_coefficient_that_is_minimised_is_told_once(train, sign, turned):
    torch.manual_seed(0)
    images = torch.randn(64, 1, 8, 8)
    masks = (F.avg_pool2d(images, 3, 1, 1) > 0.2).float()
    model = nn.Conv2d(1, 1, 3, padding=1)
    batches = iter([])

    def loss_of(_step):
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            batches = iter(DataLoader(TensorDataset(images, masks), batch_size=16))
            batch = next(batches)
        image, mask = batch
        return sign * dice(model(image).sigmoid(), mask)

    told = train(model, loss_of, steps=8).events("loss-turned-round")
    assert [(e["detail"]["field"], e["detail"]["since"]) for e in told] == ([("1", 0)] if turned else [])
