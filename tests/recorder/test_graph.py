"""What the autograd graph of a loss tells about the code that put it together."""

from typing import Any

import pytest
import torch
from firstfault.recorder.autograd import broadcasts, graph
from firstfault.recorder.autograd.loss_code import nodes_of_loss_code
from torch import nn


def _in_code(loss: torch.Tensor) -> broadcasts.Broadcast | None:
    """What broadcasts in a loss without a model."""
    return broadcasts.broadcast_in_loss(graph.nodes_down_to(loss, 0))


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_every_loss_function_that_stretches_a_prediction_is_seen(loss: str) -> None:
    prediction, target = torch.randn(5, 1, requires_grad=True), torch.randn(5)
    assert _in_code(getattr(nn.functional, loss)(prediction, target)) == (
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
    assert _in_code((own(torch.randn(5, 5, requires_grad=True)) - torch.eye(5)).square().mean()) is None


def test_a_product_that_stretches_numbers_against_a_column_of_weights_is_seen():
    ratio, advantages = torch.randn(6, requires_grad=True).exp(), torch.randn(6, 1)
    assert _in_code(-(ratio * advantages).mean()) == ("weighted", [6], [6, 6])
    assert _in_code(-torch.min(advantages * ratio, ratio.clamp(0, 1)).mean()) == (
        "weighted",
        [6],
        [6, 6],
    )
    mask = (torch.rand(6, 6) > 0.5).float()  # who is at risk beside whom: pairs that are wanted
    for wanted in (ratio * advantages.squeeze(1), ratio[:, None] * advantages, ratio * mask, ratio * 0.5):
        assert _in_code(wanted.mean()) is None


def test_a_column_of_numbers_that_meets_a_row_of_weights_is_seen_where_the_product_is_averaged():
    column, row = torch.randn(6, 1, requires_grad=True), torch.randn(6)
    assert _in_code(-(column.exp() * row).mean()) == ("weighted", [6, 1], [6, 6])
    ratio = column.exp()
    assert _in_code(-torch.minimum(ratio * row, ratio.clamp(0.8, 1.2) * row).mean()) == ("weighted", [6, 1], [6, 6])
    pairs = ratio * row
    for wanted in (ratio * row[:, None], pairs.softmax(1)[:, 0], pairs.mean(0), pairs.sin(), column * row):
        assert _in_code(wanted.mean()) is None


def test_a_product_with_weights_that_were_stretched_before_is_seen():
    chosen, returns, values = torch.randn(6, requires_grad=True), torch.randn(6), torch.randn(6, 1)
    assert _in_code(-(chosen * (returns - values)).mean()) == ("weighted", [6], [6, 6])
    pairs, graphs, equal = returns - returns[:, None], torch.randn(6, 6), torch.ones(6, 6)
    for wanted in (chosen * (returns - values[:, 0]), chosen * pairs, chosen * graphs, chosen * equal):
        assert _in_code(wanted.mean()) is None


def test_a_likelihood_that_is_made_small_and_an_error_that_is_made_large_are_seen():
    x, y = torch.randn(6, 3, requires_grad=True), torch.tensor([0, 1, 2, 0, 1, 2])
    logp = x.log_softmax(1)
    wrong = {
        torch.nn.functional.logsigmoid(x).mean(): ("LogSigmoid", "probability"),
        torch.sigmoid(x).log().sum(): ("Log", "probability"),
        logp.gather(1, y[:, None]).mean(): ("Gather", "probability"),
        logp[range(6), y].squeeze().mean(): ("Index", "probability"),
        -(x - 1).abs().mean(): ("Neg", "absolute"),
        (x[range(6), y] - x.logsumexp(1)).mean(): ("Logsumexp", "probability"),
    }
    right = [
        -torch.nn.functional.logsigmoid(x).mean(),
        (logp[range(6), y] * x[:, 0]).mean(),
        x.log_softmax(1).mean(),
        (x.logsumexp(1) - x[range(6), y]).mean(),
        -(x[range(6), y] - x.logsumexp(1)).mean(),
        (x.logsumexp(1) - x[:, :2].logsumexp(1)).mean(),
        (1 - x.logsumexp(1)).mean(),
    ]
    assert [graph.reversed_objective(loss) for loss in wrong] == list(wrong.values())
    assert [graph.reversed_objective(loss) for loss in right] == [None] * len(right)


def test_the_target_of_a_kl_divergence_is_found():
    x, target = torch.randn(6, 3, requires_grad=True), torch.rand(6, 3)
    found = [
        graph._target_of_kl(node)
        for given in (x.log_softmax(1), x.log_softmax(1).sort()[0].t().contiguous().t(), x.exp().log())
        for node in graph.nodes_down_to(nn.functional.kl_div(given, target, reduction="batchmean"), 0)
    ]
    assert sum(value is target or (value is not None and value.equal(target)) for value in found) == 3
    for other in (target - target * x, target - x.log_softmax(1), x - target * x.log_softmax(1)):
        assert all(graph._target_of_kl(node) is None for node in graph.nodes_down_to(other.mean(), 0))


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


def test_a_softmax_before_the_loss_is_seen_where_its_samples_are_gone_through_one_by_one():
    scores, labels = torch.randn(4, 6, 5, requires_grad=True), torch.arange(6) % 5

    def in_loss(given: torch.Tensor) -> list[str | None]:
        loss = sum(nn.functional.cross_entropy(out, labels) for out in given) / 4
        return [graph.activated_twice(node) for node, _ in graph.loss_nodes(loss)]

    assert in_loss(scores.softmax(-1)) == ["softmax"] * 4
    assert in_loss(scores) == [None] * 4


def test_maps_that_meet_targets_with_one_more_dimension_are_set_against_the_whole_batch():
    maps, targets = torch.randn(5, 5, 5, requires_grad=True), torch.randn(5, 5, 5, 1)
    assert _in_code((targets - maps).square().mean()) == ("prediction", [5, 5, 5], [5, 5, 5, 5])
    assert _in_code((targets.squeeze(-1) - maps).square().mean()) is None
    pattern, many = torch.randn(4, 5, requires_grad=True), torch.randn(7, 4, 5)
    assert _in_code((many - pattern).square().mean()) is None


def _names(loss: torch.Tensor, calls: list[tuple[int, int, int]], weightless: tuple[int, ...] = ()) -> list[str]:
    made = nodes_of_loss_code(loss, calls, lambda module_id: module_id not in weightless)
    return [type(node).__name__.removesuffix("Backward0") for node in made]


def test_the_code_of_a_loss_is_what_no_model_made():
    weight = torch.randn(4, requires_grad=True)
    one = (weight * torch.ones(4)).tanh()
    between = one.exp()
    two = weight.sin()
    loss = (between - two).mean()
    order = [t.grad_fn._sequence_nr() for t in (one, between, two, loss)]
    first, second = (order[0] - 1, order[0] + 1, 0), (order[2], order[2] + 1, 1)
    assert _names(loss, [first, second]) == ["Exp", "Sub", "Mean"]
    assert _names(loss, []) == ["Mul", "Tanh", "Exp", "Sin", "Sub", "Mean"]


def test_a_module_that_gives_nothing_but_numbers_is_the_code_of_a_loss():
    weight = torch.randn(4, requires_grad=True)
    score = (weight * torch.ones(4)).tanh()
    squared = score.square()
    loss = squared.mean()
    start, end = score.grad_fn._sequence_nr() - 1, loss.grad_fn._sequence_nr() + 1
    model, criterion, whole = (start, start + 2, 0), (start + 2, end, 1), (start, end, 2)
    total = loss + 1
    assert _names(total, [model, criterion, whole, (start, end, 3)], weightless=(1,)) == ["Pow", "Mean", "Add"]
    assert _names(squared.sum(), [model, criterion, whole], weightless=(1,)) == ["Sum"]
