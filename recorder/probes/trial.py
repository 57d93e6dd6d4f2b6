"""A trial: one iteration of a training loop under changed conditions, and what was seen of it.

A probe is a generator. It yields trials, is sent what each showed, and returns its result. Who runs the trials is not its
concern: the loop of the user's script (``script_loop``), or a model and a batch at hand (``bench``).
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...schemas.files.probe_report import ProbeResult

Edit = Callable[[list[Tensor]], None]
"""Changes copies of tensors in place."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is different in an iteration. ``fresh``: weights, optimizer state and random states are those of the start."""

    fresh: bool = True
    inputs: Edit | None = None
    targets: Edit | None = None
    batch: Edit | None = None
    """Of what the DataLoader hands out, before the script sees it."""
    evaluating: bool = False
    nudge: list[Tensor] | None = None
    """Added to the parameters, in their order."""
    lr: float | None = None
    autocast: torch.dtype | None = None
    stream: bool = False
    """The batches that follow each other in the data instead of the first one."""
    keep_outputs: bool = False
    keep_gradients: bool = False
    keep_buffers: bool = False
    """Keep what the iteration leaves in the model beside its trained weights, for trials that are ``warmed``."""
    warmed: bool = False
    """Begin with that: what a model sets up from its first batch is there."""
    look_at_terms: bool = False
    """Look, in the function that calls backward, for terms of the loss that have no graph."""
    follow_detached: bool = False
    """Follow what is taken out of the graph and comes back into it."""
    trace_inputs: bool = False
    """Let the inputs of floats ask for a gradient, so that ``Seen.reached`` tells whether the outputs come from them by graph."""


@dataclass(slots=True)
class Seen:
    """What an iteration showed. ``inputs`` and ``outputs`` are those of the model's first call, copied."""

    loss: float | None = None
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    outputs: list[Tensor] = field(default_factory=list[Tensor])
    output_dtypes: list[torch.dtype] = field(default_factory=list["torch.dtype"])
    """What the outputs were computed in, autocast or not; ``outputs`` are kept in float32."""
    reached: set[int] | None = None
    """Leaves, by identity, that the graph of the kept outputs of more than one element ends in; None: they have none."""
    traced: list[Tensor] = field(default_factory=list[Tensor])
    """The leaves that stand for the inputs."""
    gradients: list[Tensor | None] = field(default_factory=list["Tensor | None"])
    targets: list[Tensor] = field(default_factory=list[Tensor])
    """What torch's own loss functions were given as target."""
    flat_terms: list[Any] = field(default_factory=list[Any])
    """Terms of the loss that have no graph; see flat_terms.py."""
    detached: set[int] = field(default_factory=set[int])
    """Places of the parameters behind values that were taken out of the graph and came back."""
    detached_at: str = ""
    """Where the first of them was taken out."""
    edited_inputs: int = 0
    edited_targets: int = 0
    other_batches: int = 0
    """Batches that other loaders than the main one have handed out for training: they are others in each trial."""
    seconds: float = 0.0
    backwards: int = 0


@dataclass(slots=True)
class Setting:
    """What is known of a training before the first trial."""

    names: list[str]
    parameters: list[Tensor]
    lr: float
    """The learning rate that the optimizer was made with, or a schedule's largest so far."""
    optimizers: int = 1
    one_model: bool = True
    """Whether what is entered first puts out last: a discriminator's input does not reach the generator's output."""
    batch_size: int | None = None
    """Known for certain: it is what a DataLoader with torch's own collate function put together."""
    steps: int = 60
    """Iterations that a probe may take which trains."""
    total_steps: int | None = None
    """Iterations of the whole run, where the user has said it."""
    planned_steps: int | None = None
    """Iterations of the whole run as its loops say it."""
    targets: list[Tensor] = field(default_factory=list[Tensor])
    """Tensors of the first batch that do not enter the model."""
    batch: list[Tensor] = field(default_factory=list[Tensor])
    """All tensors of the first batch."""
    from_loader: bool = True
    """Whether a DataLoader makes the batches: what a script makes itself may also depend on what it did before, as in a game."""
    own_gradients: bool = False
    """Whether a Function of the script has a gradient that is not its derivative, on purpose."""
    counted: bool = False
    """Whether the loss of the same iteration moves evenly each time, because the script counts its steps in it."""
    fixed_batch: bool = True
    """Whether the first batch can be had again and again."""
    padding_rows: dict[int, int] = field(default_factory=dict[int, int])
    """Place of a parameter → the row of it to which torch gives no gradient, as an Embedding's padding_idx."""
    learnt: bool = False
    """Whether the first batch was learnt at the script's own rate."""
    reached: float | None = None
    """The lowest loss of that batch at that rate."""
    needed_steps: int | None = None
    """Iterations in which the script's own rate gets as far as a larger one got in a probe's few; None: not known."""


Probe = Generator[Trial, Seen, ProbeResult]


def result(
    probe: str, outcome: Any, code: str, curve: list[tuple[float, float]] | None = None, **values: Any
) -> ProbeResult:
    """A result. Points of its curve that are not finite are left out: JSON has no such numbers."""
    curve = [(x, y) for x, y in curve or [] if math.isfinite(x) and math.isfinite(y)]
    return ProbeResult(probe=probe, outcome=outcome, code=code, values=values, curve=curve)


def untried(probe: str, code: str, **values: Any) -> ProbeResult:
    """A probe that had nothing to try, and why."""
    return result(probe, "untried", code, **values)
