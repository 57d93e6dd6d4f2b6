"""Edges of a batch of graphs against their graphs, and masks against their images."""

import pytest
import torch
from firstfault.recorder import probes
from firstfault.recorder.tensors.graph_batches import graph_batch
from torch import nn
from torch.nn.functional import cross_entropy


class Sums(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 1)

    def forward(self, kinds, edges, graph):
        h = self.embed(kinds)
        h = h.index_add(0, edges[1], h[edges[0]])
        return torch.zeros(int(graph[-1]) + 1, 1).index_add(0, graph, h)


def graphs(offset, count=4, size=5):
    edges = [torch.tensor([[0, 1, 2], [1, 2, 3]]) + int(offset * size * i) for i in range(count)]
    kinds = torch.arange(count * size) % 8
    return kinds, torch.cat(edges, 1), torch.arange(count).repeat_interleave(size), torch.rand(count, 1)


@pytest.mark.parametrize(
    ("offset", "code"), [(0, "edges-without-offset"), (1, "edges-of-their-graphs"), (0.6, "edges-cross")]
)
def test_edges_that_all_lie_in_the_first_graph_are_found(offset, code):
    bench = probes.Bench(Sums(), graphs(offset), lambda model, b: ((model(*b[:3]) - b[3]) ** 2).mean())
    (found,) = [f for f in probes.check_all(bench) if f.probe == "graph-edges"]
    assert found.code == code


def test_pairs_of_other_things_are_no_edges():
    kinds, edges, graph, _ = graphs(0)
    assert graph_batch([kinds, edges, graph])
    assert not graph_batch([kinds, edges.float(), graph])
    assert not graph_batch([kinds, edges, graph.flip(0)])
    assert not graph_batch([kinds, edges.T, graph])


def pictures(flipped):
    torch.manual_seed(0)
    masks = torch.zeros(32, 16, 16, dtype=torch.long)
    for mask in masks:
        top, left = torch.randint(0, 8, (2,)).tolist()
        mask[top : top + 5, left : left + 4] = 1
    images = torch.randn(32, 3, 16, 16) + 3 * masks[:, None]
    turn = torch.rand(32) < flipped
    return torch.where(turn[:, None, None, None], images.flip(-1), images), masks


@pytest.mark.parametrize(("flipped", "code"), [(0.5, "masks-turned"), (1.0, "masks-turned"), (0.0, "masks-aligned")])
def test_images_that_are_flipped_without_their_masks_are_found(flipped, code):
    batch = pictures(flipped)
    bench = probes.Bench(nn.Conv2d(3, 2, 1), batch, lambda model, b: cross_entropy(model(b[0]), b[1]))
    (found,) = [f for f in probes.check_all(bench) if f.probe == "targets-aligned"]
    assert found.code == code
    if code == "masks-turned":
        assert found.values["turn"] == "left and right"


def test_masks_that_explain_nothing_tell_nothing():
    images, masks = torch.randn(32, 3, 16, 16), torch.randint(0, 2, (32, 16, 16))
    bench = probes.Bench(nn.Conv2d(3, 2, 1), (images, masks), lambda model, b: cross_entropy(model(b[0]), b[1]))
    (found,) = [f for f in probes.check_all(bench) if f.probe == "targets-aligned"]
    assert found.code == "masks-tell-nothing"
