"""Which costly kinds of measurement are due in this step.

A kind is due or not for a whole step, so that what was measured at a step is complete. Scalars, the gradient norm and the
search for non-finite values do not ask: they run at every step.
"""

from typing import Literal

from .options import Options

Kind = Literal[
    "activations",
    "activation_gradients",
    "gradients",
    "parameters",
    "updates",
    "optimizer_state",
    "buffers",
    "batches",
    "batch_std",
    "live_tensors",
]


class Budget:
    """Asked by the watches before they measure; told at the end of each step what the step and the recorder took."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.step = 0

    def due(self, kind: Kind) -> bool:
        """Whether a kind is to be measured in this step."""
        del kind
        return self.step % self.options.every == 0

    def step_ended(self, step: int) -> None:
        """The iteration is over; decide for the next."""
        self.step = step + 1
