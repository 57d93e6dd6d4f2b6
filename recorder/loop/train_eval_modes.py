"""In which mode models and modules are called: training or evaluation, with gradients or without."""

from typing import Any

from ..script.call_arguments import autocast_dtype, tensors_in
from ..session.registry import ModuleEntry
from ..session.session import Session

_MOST_MODE_CHANGES = 1000
"""Events of one run; an evaluation makes two."""


class CallModes:
    """Writes table `module_modes` and the events of changed modes; counts ``steps.eval_grad_forwards``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._modes: dict[int, bool] = {}
        self._changes = 0
        self._asked_for_inputs: dict[int, int] = {}
        """module_id → the row, by session.position.flushes, in which it was evaluated on inputs that want gradients."""

    def note_mode(self, entry: ModuleEntry, *, training: bool) -> None:
        """A model is called by the script; an event where it is in another mode than last time."""
        before = self._modes.get(entry.id)
        if before is training:
            return
        self._modes[entry.id] = training
        if before is None or self._changes == _MOST_MODE_CHANGES:
            return
        self._changes += 1
        mode = "training" if training else "evaluation"
        self.session.rows.event("mode-changed", f"model {entry.model} is in {mode} mode now", module_id=entry.id)

    def note(self, entry: ModuleEntry, *, training: bool, grad: bool) -> None:
        """A module is called in another mode than last time, with gradients or without."""
        session = self.session
        entry.modes[grad] = training
        session.rows.add(
            "module_modes",
            seq=session.position.next_seq(),
            module_id=entry.id,
            training=training,
            grad=grad,
            autocast=session.step_row.facts.get("autocast") if grad else autocast_dtype(),
        )

    def evaluated_with_gradients(self, entry: ModuleEntry, args: tuple[Any, ...], output: Any) -> None:
        """Count a forward in eval mode that builds a graph for the weights. Where gradients of inputs are wanted of the same
        model (attacks, forces), all of its forwards in this step serve them."""
        session = self.session
        if any(t.requires_grad for _, t in tensors_in(args)):
            self._asked_for_inputs[entry.id] = session.position.flushes
            session.step_row.facts.pop("eval_grad_forwards", None)
        elif self._asked_for_inputs.get(entry.id) != session.position.flushes and any(
            t.requires_grad for _, t in tensors_in(output)
        ):
            session.step_row.facts["eval_grad_forwards"] = session.step_row.facts.get("eval_grad_forwards", 0) + 1
