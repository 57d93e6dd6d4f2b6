"""Whether the parts of a batch belong together: edges and their graphs, images and their masks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..tensors.graph_batches import graph_batch
from .trial import Probe, Seen, Setting, Trial, result, untried

_IMAGES = 64
"""Images that are enough to tell one in five from none."""
_FEWEST_IMAGES = 16
_SMALLEST = 8
"""Pixels of a side below which a mask says nothing."""
_VALUES = 32
"""Different values of masks."""
_MARGIN = 0.05
"""Share of an image's variance that a turned mask explains more, or the mask as it is, where an image tells at all."""
_TELLING = 0.6
"""Share of the images that tell."""
_TURNED = 0.2
"""Share of the images whose mask fits when turned. Convention: flips in use act on half of the images."""

_TURNS: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("left and right", lambda t: t.flip(-1)),
    ("top and bottom", lambda t: t.flip(-2)),
    ("both", lambda t: t.flip(-1, -2)),
)


def graph_edges(_: Setting) -> Probe:
    """Compare the edges of a batch of graphs with the graphs of their nodes.

    A batch joins graphs to one: the nodes of each come behind those of the one before, and its edges count on from there.
    """
    name = "graph-edges"
    seen = yield Trial()
    found = graph_batch(seen.inputs)
    if found is None:
        return untried(name, "no-graphs")
    facts: dict[str, Any] = {"graphs": found.graphs, "nodes": found.nodes, "edges": found.edges}
    if found.unmoved:
        return result(name, "failed", "edges-without-offset", largest=found.largest, **facts)
    if found.crossing:
        return result(name, "failed", "edges-cross", crossing=found.crossing, **facts)
    return result(name, "passed", "edges-of-their-graphs", **facts)


def targets_aligned(setting: Setting) -> Probe:
    """Say how much of an image its mask explains, as it is and turned: a flip goes for both."""
    name = "targets-aligned"
    turned = told = count = 0
    turns = dict.fromkeys((n for n, _ in _TURNS), 0)
    for i in range(setting.steps):
        seen: Seen = yield Trial(
            fresh=i == 0, stream=True
        )  # else each batch would be turned by the same random numbers
        pair = _image_and_mask(seen)
        if pair is None:
            return untried(name, "no-masks")
        image, mask = pair
        plain = _explained(image, mask)
        best, which = torch.stack([_explained(image, turn(mask)) for _, turn in _TURNS]).max(0)
        apart = best - plain > _MARGIN
        told += int((apart | (plain - best > _MARGIN)).sum())
        turned += int(apart.sum())
        for number in which[apart].tolist():
            turns[_TURNS[number][0]] += 1
        count += len(plain)
        if count >= _IMAGES:
            break
    if count < _FEWEST_IMAGES or told < _TELLING * count:
        return untried(name, "masks-tell-nothing")
    if turned >= _TURNED * count:
        return result(
            name, "failed", "masks-turned", turned=turned, images=count, turn=max(turns, key=lambda n: turns[n])
        )
    return result(name, "passed", "masks-aligned", images=count)


def _image_and_mask(seen: Seen) -> tuple[Tensor, Tensor] | None:
    """Images that enter the model, and a target of the same size with one of a few values for each pixel."""
    for image in seen.inputs:
        if not image.is_floating_point() or image.dim() != 4 or min(image.shape[-2:]) < _SMALLEST:
            continue
        for target in seen.targets:
            mask = target[:, 0] if target.dim() == 4 and target.shape[1] == 1 else target
            if mask.shape == (image.shape[0], *image.shape[-2:]) and 1 < len(mask.unique()) <= _VALUES:
                return image.cpu(), mask.cpu()
    return None


def _explained(image: Tensor, mask: Tensor) -> Tensor:
    """Share of the variance of each image, over its channels, that lies between the parts of its mask (eta squared)."""
    pixels, parts = image.float().flatten(2), mask.flatten(1)
    mean = pixels.mean(2)
    between = torch.zeros(len(pixels))
    for value in parts.unique():
        inside = (parts == value).float()[:, None]
        size = inside.sum(2)
        own = (pixels * inside).sum(2) / size.clamp_min(1)
        between += (size * (own - mean) ** 2).sum(1)
    return between / ((pixels - mean[..., None]) ** 2).sum((1, 2)).clamp_min(1e-12)


ALL = {"graph-edges": graph_edges, "targets-aligned": targets_aligned}
