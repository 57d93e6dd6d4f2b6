"""What the autograd graph of a loss tells about the code that put it together."""

from typing import Any

import pytest
import torch
from firstfault.recorder.autograd import broadcasts, graph
from torch import nn


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_every_loss_function_that_stretches_a_prediction_is_seen(loss: str) -> None:
    prediction, target = torch.randn(5, 1, requires_grad=True), torch.randn(5)
    assert broadcasts.broadcast_in_loss(getattr(nn.functional, loss)(prediction, target), 0) == (
        "prediction",
        [5, 1],
        [5, 5],
    )


@pytest.mark.parametrize(
    "own",
    [
        lambda x: nn.functional.normalize(x, dim=1),
        lambda x: x - x.logsumexp(1, keepdim=True),
        lambda x: x - x.mean(0),
        lambda x: (x[:, :1] - x[:, 1]).relu(),
    ],
    ids=["normalised", "log_softmax", "centred", "pairs"],
)
def test_a_square_output_beside_a_number_of_its_own_for_each_row_is_no_broadcast(own: Any) -> None:
    assert (
        broadcasts.broadcast_in_loss((own(torch.randn(5, 5, requires_grad=True)) - torch.eye(5)).square().mean(), 0)
        is None
    )


def test_a_product_that_stretches_numbers_against_a_column_of_weights_is_seen():
    ratio, advantages = torch.randn(6, requires_grad=True).exp(), torch.randn(6, 1)
    assert broadcasts.broadcast_in_loss(-(ratio * advantages).mean(), 0) == ("weighted", [6], [6, 6])
    assert broadcasts.broadcast_in_loss(-torch.min(advantages * ratio, ratio.clamp(0, 1)).mean(), 0) == (
        "weighted",
        [6],
        [6, 6],
    )
    mask = (torch.rand(6, 6) > 0.5).float()  # who is at risk beside whom: pairs that are wanted
    for wanted in (ratio * advantages.squeeze(1), ratio[:, None] * advantages, ratio * mask, ratio * 0.5):
        assert broadcasts.broadcast_in_loss(wanted.mean(), 0) is None


def test_a_product_with_weights_that_were_stretched_before_is_seen():
    chosen, returns, values = torch.randn(6, requires_grad=True), torch.randn(6), torch.randn(6, 1)
    assert broadcasts.broadcast_in_loss(-(chosen * (returns - values)).mean(), 0) == ("weighted", [6], [6, 6])
    pairs, graphs, equal = returns - returns[:, None], torch.randn(6, 6), torch.ones(6, 6)
    for wanted in (chosen * (returns - values[:, 0]), chosen * pairs, chosen * graphs, chosen * equal):
        assert broadcasts.broadcast_in_loss(wanted.mean(), 0) is None


def test_a_likelihood_that_is_made_small_and_an_error_that_is_made_large_are_seen():
    x, y = torch.randn(6, 3, requires_grad=True), torch.tensor([0, 1, 2, 0, 1, 2])
    logp = x.log_softmax(1)
    wrong = {
        torch.nn.functional.logsigmoid(x).mean(): ("LogSigmoid", "probability"),
        torch.sigmoid(x).log().sum(): ("Log", "probability"),
        logp.gather(1, y[:, None]).mean(): ("Gather", "probability"),
        logp[range(6), y].squeeze().mean(): ("Index", "probability"),
        -(x - 1).abs().mean(): ("Neg", "absolute"),
    }
    right = [-torch.nn.functional.logsigmoid(x).mean(), (logp[range(6), y] * x[:, 0]).mean(), x.log_softmax(1).mean()]
    assert [graph.reversed_objective(loss) for loss in wrong] == list(wrong.values())
    assert [graph.reversed_objective(loss) for loss in right] == [None] * 3


def test_a_softmax_before_the_loss_is_seen_however_it_is_written():
    scores, labels = torch.randn(8, 5, requires_grad=True), torch.arange(8) % 5

    def in_loss(given: torch.Tensor) -> str | None:
        loss = nn.functional.cross_entropy(given, labels)
        return next(graph.activated_twice(node) for node, _ in graph.loss_nodes(loss))

    powers = scores.exp()
    assert in_loss(scores.softmax(1)) == in_loss(scores.log_softmax(1).exp()) == "softmax"
    assert in_loss(powers / powers.sum(1, keepdim=True)) == "softmax"
    assert in_loss(scores) is in_loss(scores.log_softmax(1)) is None
    assert in_loss(powers) is in_loss(powers / scores.exp().sum(1, keepdim=True).detach()) is None


def test_a_softmax_before_the_loss_is_seen_through_chosen_rows_and_a_dropout():
    scores, labels, rows = torch.randn(40, 5, requires_grad=True), torch.arange(40) % 5, torch.arange(20)

    def in_loss(given: torch.Tensor) -> str | None:
        loss = nn.functional.cross_entropy(given[rows], labels[rows])
        return next(graph.activated_twice(node) for node, _ in graph.loss_nodes(loss))

    assert in_loss(scores.softmax(1)) == in_loss(nn.functional.dropout(scores.softmax(1), 0.4)) == "softmax"
    assert in_loss(scores) is in_loss(nn.functional.dropout(scores, 0.4)) is None
    assert in_loss(scores.softmax(1) * torch.rand(40, 5)) is None


def test_maps_that_meet_targets_with_one_more_dimension_are_set_against_the_whole_batch():
    maps, targets = torch.randn(5, 5, 5, requires_grad=True), torch.randn(5, 5, 5, 1)
    assert broadcasts.broadcast_in_loss((targets - maps).square().mean(), 0) == ("prediction", [5, 5, 5], [5, 5, 5, 5])
    assert broadcasts.broadcast_in_loss((targets.squeeze(-1) - maps).square().mean(), 0) is None
    pattern, many = torch.randn(4, 5, requires_grad=True), torch.randn(7, 4, 5)
    assert broadcasts.broadcast_in_loss((many - pattern).square().mean(), 0) is None
