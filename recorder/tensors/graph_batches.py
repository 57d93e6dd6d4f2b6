"""Batches of graphs joined to one: the edges, and the graph of each node, among the tensors that enter a model."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

_FEWEST_GRAPHS = 3


class GraphBatch(NamedTuple):
    """What the edges of a joined batch say of its graphs."""

    graphs: int
    nodes: int
    edges: int
    largest: int
    """Largest number of a node that an edge names."""
    largest_graph: int
    """Nodes of the largest graph."""
    crossing: int
    """Edges that join nodes of two graphs."""

    @property
    def unmoved(self) -> bool:
        """Whether the edges of all graphs count from 0. Arithmetic: with an offset, the last graph that has an edge names nodes
        beyond the size of any one graph."""
        return self.largest < self.largest_graph


def graph_batch(tensors: Iterable[Tensor]) -> GraphBatch | None:
    """Find pairs of nodes, [2, edges], with one that tells the graph of each node, [nodes], rising from 0; or None."""
    tensors = list(tensors)
    whole = [t for t in tensors if t.dtype in {torch.int64, torch.int32} and t.layout is torch.strided]
    pairs = [t for t in whole if t.dim() == 2 and t.shape[0] == 2 and t.shape[1] > 1]
    for graph in (t for t in whole if t.dim() == 1 and t.shape[0] > 2) if pairs else ():
        nodes = any(t is not graph and t.dim() and t.shape[0] == graph.shape[0] for t in tensors)
        if not nodes or int(graph[0]) or int(graph[-1]) + 1 < _FEWEST_GRAPHS or bool((graph.diff() < 0).any()):
            continue
        for edges in pairs:
            largest = int(edges.max())
            if int(edges.min()) >= 0 and largest < graph.shape[0]:
                sizes, ends = torch.bincount(graph), graph[edges.long()]
                crossing = int((ends[0] != ends[1]).sum())
                return GraphBatch(len(sizes), len(graph), edges.shape[1], largest, int(sizes.max()), crossing)
    return None
