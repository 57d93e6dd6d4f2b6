"""Axes are followed through the graph: a view that mixes them is told from one that splits or joins."""

import pytest
import torch
from firstfault.recorder.autograd.axes import Mixed, OverSamples, follow
from firstfault.recorder.autograd.graph import nodes_down_to
from firstfault.recorder.autograd.softmaxes import of_one_output
from torch import nn

WIDTH, HEADS = 32, 4


def found(loss: torch.Tensor, samples: int | None = None) -> list[tuple[str, int]]:
    return [
        ("mixed", f.moved) if isinstance(f, Mixed) else ("samples", f.other)
        for f in follow(nodes_down_to(loss, 0), samples)
    ]


def tokens(samples: int, length: int, width: int = WIDTH) -> torch.Tensor:
    return nn.Embedding(9, width)(torch.randint(0, 9, (samples, length)))


def attention(x: torch.Tensor, split, join) -> torch.Tensor:
    layer = nn.Linear(WIDTH, WIDTH)
    q, k, v = (split(layer(x)) for _ in range(3))
    return layer(join(torch.softmax(q @ k.transpose(-2, -1), -1) @ v)).sum()


def rightly(t: torch.Tensor) -> torch.Tensor:
    return t.view(*t.shape[:2], HEADS, -1).transpose(1, 2)


def together(t: torch.Tensor) -> torch.Tensor:
    return t.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("length", [12, 72, 7, WIDTH, WIDTH // HEADS])
def test_heads_moved_by_transpose_are_well(length: int) -> None:
    assert found(attention(tokens(6, length), rightly, together), 6) == []


@pytest.mark.parametrize("length", [12, 72, 7])
def test_heads_moved_by_a_view_are_mixed(length: int) -> None:
    after_a_split = attention(
        tokens(6, length), lambda t: t.view(6, length, HEADS, -1).view(6, HEADS, length, -1), together
    )
    at_once = attention(tokens(6, length), lambda t: t.view(6, HEADS, length, -1), together)

    assert found(after_a_split) == [("mixed", length)] * 3
    assert found(at_once) == [("mixed", length)] * 3


def test_heads_joined_before_they_are_moved_back_are_mixed() -> None:
    assert found(attention(tokens(6, 12), rightly, lambda t: t.reshape(6, 12, WIDTH))) == [("mixed", 12)]


def test_channels_and_time_exchanged_by_a_view_are_mixed() -> None:
    made = nn.Conv1d(5, 24, 3, padding=1)(torch.randn(6, 5, 28))

    assert found((made.reshape(6, 28, 24) @ torch.randn(24, 2)).sum()) == [("mixed", 24)]
    assert found((made.transpose(1, 2) @ torch.randn(24, 2)).sum()) == []


@pytest.mark.parametrize("frames", [4, 3, 6])
def test_frames_joined_with_the_samples_past_the_channels_are_mixed(frames: int) -> None:
    made = nn.Conv3d(5, 24, 1)(torch.randn(8, 5, frames, 6, 6))

    assert found(made.reshape(8 * frames, 24, 36).sum(), 8) == [("mixed", 24)]
    assert found(made.transpose(1, 2).reshape(8 * frames, 24, 36).sum(), 8) == []


@pytest.mark.parametrize(("samples", "told"), [(6, [("mixed", 6)]), (None, [])])
def test_samples_and_frames_exchanged_by_a_view_are_mixed_whatever_made_them(samples, told) -> None:
    made = nn.GRU(5, 24, batch_first=True)(torch.randn(6, 28, 5))[0].log_softmax(-1)

    assert found((made.view(28, 6, 24) * torch.randn(28, 6, 24)).sum(), samples) == told
    assert found((made.transpose(0, 1) * torch.randn(28, 6, 24)).sum(), samples) == []


def test_a_relative_shift_of_as_many_queries_as_samples_is_well() -> None:
    scores = nn.functional.pad(tokens(6, 6) @ torch.randn(WIDTH, 12), (1, 0))

    assert found(scores.view(6, 13, 6).sum(), 6) == []


def _picture() -> torch.Tensor:
    return nn.Conv2d(3, 16, 3, padding=1)(torch.randn(6, 3, 8, 8))


def _shifted() -> torch.Tensor:
    scores = tokens(6, 12) @ torch.randn(WIDTH, 12)
    return nn.functional.pad(scores, (1, 0)).view(6, 13, 12)[:, 1:].reshape(6, 12, 12)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: _picture().view(6, 4, 4, 8, 8).transpose(1, 2).reshape(6, 16, 8, 8), id="channel shuffle"),
        pytest.param(lambda: _picture().view(24, 4, 8, 8), id="groups of channels as samples"),
        pytest.param(lambda: _picture().view(24, 4, 64).transpose(1, 2), id="heads of channels"),
        pytest.param(lambda: nn.PixelShuffle(2)(_picture()), id="pixel shuffle"),
        pytest.param(
            lambda: _picture().view(6, 16, 2, 4, 2, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, 16), id="windows"
        ),
        pytest.param(lambda: _picture().flatten(1), id="flatten"),
        pytest.param(lambda: _picture().reshape(1, 96, 8, 8).view(6, 16, 8, 8), id="groups of samples"),
        pytest.param(lambda: tokens(6, 16).reshape(6, 8, 2 * WIDTH), id="stacked frames"),
        pytest.param(
            lambda: tokens(6, 2 * WIDTH).reshape(6, WIDTH, 2 * WIDTH), id="stacked frames of a size that was there"
        ),
        pytest.param(_shifted, id="relative shift"),
    ],
)
def test_other_views_are_well(make) -> None:
    assert found(make().sum(), 6) == []


@pytest.mark.parametrize(("samples", "length", "width"), [(8, 4, 32), (32, 16, 32), (64, 7, 256), (8, 32, 32)])
@pytest.mark.parametrize("batch_first", [True, False])
def test_attention_along_the_samples_is_told_by_the_order_of_axes(
    samples: int, length: int, width: int, batch_first: bool
) -> None:
    layer = nn.TransformerEncoderLayer(width, 4, 16, batch_first=batch_first)
    right = tokens(samples, length, width) if batch_first else tokens(samples, length, width).transpose(0, 1)

    assert found(layer(right).sum(), samples) == []
    assert found(layer(right.transpose(0, 1)).sum(), samples) == [("samples", length)]


def test_axes_of_one_size_are_not_told_apart() -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 16)

    assert found(layer(tokens(8, 8)).sum(), 8) == []


def test_a_recurrence_along_the_samples_is_told_by_the_order_of_axes() -> None:
    x = torch.randn(6, 12, 5)

    assert found(nn.LSTM(5, 7)(x)[0].sum(), 6) == [("samples", 12)]
    assert found(nn.LSTM(5, 7, batch_first=True)(x)[0].sum(), 6) == []
    assert found(nn.LSTM(WIDTH, 7, batch_first=True)(tokens(6, 12))[0].sum(), 6) == []


def test_similarity_of_all_samples_is_well() -> None:
    z = tokens(6, 12).mean(1)

    assert found(torch.softmax(z @ z.T, -1).sum(), 6) == []
    assert not [f for f in follow(nodes_down_to(z.sum(), 0), 6) if isinstance(f, OverSamples)]


def test_a_softmax_along_the_samples_is_told_from_one_along_the_places() -> None:
    def read(axis: int) -> torch.Tensor:
        memory, query = tokens(6, 8), tokens(6, 1)
        scores = torch.bmm(query, memory.transpose(1, 2).contiguous()).view(6, 8)
        return torch.bmm(torch.softmax(scores, axis).view(6, 1, 8), memory).sum()

    assert found(read(-1), 6) == []
    assert found(read(0), 6) == [("samples", 8)]


def test_a_softmax_over_the_one_output_of_a_layer_is_told_from_one_over_a_memory_of_one() -> None:
    x = tokens(6, 8)
    score = nn.Linear(WIDTH, 1)(x.reshape(48, WIDTH)).view(6, 8, 1)

    assert len(of_one_output(nodes_down_to((torch.softmax(score, 2) * x).sum(), 0))) == 1
    assert (
        len(of_one_output(nodes_down_to(nn.functional.cross_entropy(score.view(48, 1), torch.zeros(48).long()), 0)))
        == 1
    )
    assert of_one_output(nodes_down_to((torch.softmax(score, 1) * x).sum(), 0)) == []
    query, memory = tokens(6, 1), tokens(6, 1)
    weights = torch.softmax(query @ memory.transpose(1, 2), -1)
    assert of_one_output(nodes_down_to((weights @ memory).sum(), 0)) == []


@pytest.mark.parametrize(("axis", "count"), [(2, 1), (1, 0)])
def test_a_softmax_along_one_element_that_weighs_the_places_is_told(axis: int, count: int) -> None:
    places = nn.Conv2d(3, 4, 1)(torch.randn(5, 3, 6, 6))
    value = nn.Conv2d(3, 8, 1)(torch.randn(5, 3, 6, 6)).view(20, 2, 36)
    weights = torch.softmax(places.view(20, 36, 1), axis)
    assert len(of_one_output(nodes_down_to((value @ weights).sum(), 0))) == count
    four = torch.softmax(places.view(5, 4, 36, 1), axis + 1)
    assert len(of_one_output(nodes_down_to((value.view(5, 4, 2, 36) @ four).sum(), 0))) == count


def test_one_query_and_one_key_are_told_from_a_softmax_along_the_wrong_axis() -> None:
    for queries, keys in ((1, 7), (7, 1), (1, 1)):
        query, memory = tokens(6, queries), tokens(6, keys)
        weights = torch.softmax(query @ memory.transpose(1, 2), -1)
        assert of_one_output(nodes_down_to((weights @ memory).sum(), 0)) == []
