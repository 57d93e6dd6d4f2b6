"""Which addends of a loss train anything: the gradients of each are followed from their backward to a step, or until they are
cleared.

An addend whose weights belong to an optimizer that does not step before its gradients are cleared trains nothing, though it
stands in the loss: the usual case is a generator's adversarial term behind a detach. A few backward passes of a run are looked
at. Nothing here keeps a tensor of the script alive.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..autograd.loss_terms import Term, terms_of
from ..loop.optimizers import OptimizerWatch
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.moments import LATE_DEVICES
from .rare_looks import RareLooks

_MOST_PENDING = 16
_LONGEST = 64
"""Backward passes after which gradients that are still there are followed no more."""

_UNKNOWN = 4
"""Backward passes until weights that no optimizer holds are judged: one that was made before the recording is known by its first
step."""

_SAMPLE = 3
"""Weights of a term whose gradients are looked at."""

_ELEMENTS = 8


class _Followed:
    """A term, and what has become of its gradients so far."""

    __slots__ = ("before", "fresh", "holders", "lost", "term", "unheld", "used")

    def __init__(self, term: Term) -> None:
        self.term = term
        self.used = self.lost = False
        self.fresh = False
        """Whether it had brought a gradient that is not zero when the first step after it began: later it can be gone."""
        self.holders: set[int] = set()
        self.unheld = 0
        self.before = [_some_of(p) for p in _sample(term, term.leaves)]

    @property
    def open(self) -> bool:
        """Whether it is still to be judged."""
        return not (self.term.opaque or self.used or self.lost)


class _Look:
    """A backward that is followed."""

    __slots__ = ("age", "kind", "microbatch", "step", "stepped", "terms")

    def __init__(self, step: int, microbatch: int, kind: int, terms: list[Term]) -> None:
        self.step = step
        self.microbatch = microbatch
        self.kind = kind
        self.terms = [_Followed(term) for term in terms]
        self.stepped: list[int] = []
        self.age = 0


class LossTermsWatch(Watch):
    """Writes table `loss_terms`."""

    name = "loss-terms"
    writes = ("loss_terms",)

    def __init__(self, session: Session, optimizers: OptimizerWatch) -> None:
        super().__init__(session)
        self._optimizers = optimizers
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._pending: list[_Look] = []
        self._at = -1
        """Step of what happened last."""
        self._looks = RareLooks()

    def listen(self, signals: Signals) -> None:
        """Look at losses, and follow their gradients to the steps."""
        signals.loss.connect(self.name, self._backward)
        signals.step_begins.connect(self.name, self._step)

    # -- what happens -----------------------------------------------------------------------------------------------------

    def _backward(self, loss: Tensor) -> None:
        self._passes()
        if self._pending:
            self._cleared()
        if self._optimizers.in_step or not self._looks.due(self.session.position.step):
            return  # within the closure of a step that makes several
        session = self.session
        terms = terms_of(loss, session.answers.module_of)
        for term in terms:
            # what reaches leaves that are nobody's weights is meant for them: an input that is attacked, a picture that is made
            leaves = [leaf for ref in term.leaves.values() if (leaf := ref()) is not None]
            term.node = None
            term.opaque |= not leaves or not all(session.catalogue.has_parameter(leaf) for leaf in leaves)
        if len(terms) > 1 and len(self._pending) < _MOST_PENDING:
            made = tuple((t.op, t.module_id, t.opaque, frozenset(t.leaves)) for t in terms)
            kind = self._kinds.setdefault(made, len(self._kinds))
            self._pending.append(_Look(session.position.step, session.position.microbatch, kind, terms))

    def _passes(self) -> None:
        """Forget what was followed where steps went by unwatched."""
        step = self.session.position.step
        if step > self._at + 1:
            self._pending.clear()
        self._at = step

    def _step(self) -> None:
        self._passes()
        stepping = self._optimizers.stepping
        optimizer = stepping.ref() if self._pending and stepping is not None else None
        if stepping is None or optimizer is None:
            return
        held = _weights(optimizer)
        for look in self._pending:
            for followed in look.terms:
                if not look.stepped:
                    followed.fresh = _brings(followed.term)
                if followed.term.leaves.keys() & held:
                    followed.holders.add(stepping.id)
                    followed.used = True
            look.stepped.append(stepping.id)

    def _cleared(self) -> None:
        """Another backward begins: which gradients are gone, and which looks are complete?"""
        held = {o_id: _weights(o) for o_id, o in self._alive()}
        every = set().union(*held.values())
        for look in list(self._pending):
            look.age += 1
            if not look.stepped:
                # accumulated, or cleared without a step: then nobody meant them to be used
                if look.age >= _LONGEST or not all(_brings(followed.term) for followed in look.terms if followed.open):
                    self._pending.remove(look)
                continue
            for followed in look.terms:
                if followed.open:
                    self._judge(followed, look.age, held, every)
            if not any(followed.open for followed in look.terms):
                self._pending.remove(look)
                if any(followed.used for followed in look.terms):
                    self._write(look)
            elif look.age >= _LONGEST:
                self._pending.remove(look)

    def _judge(self, followed: _Followed, age: int, held: dict[int, set[int]], every: set[int]) -> None:
        term = followed.term
        if not followed.fresh:
            term.opaque = True
            return
        mine = term.leaves.keys() & every
        followed.unheld = len(term.leaves) - len(mine)
        followed.holders |= {o for o, weights in held.items() if weights & term.leaves.keys()}
        if mine:
            followed.lost = not any(map(_has_gradient, _sample(term, mine)))
            return
        if age < _UNKNOWN:
            term.opaque |= not _brings(term)  # somebody cleared them, who may be an optimizer that is not known yet
            return
        weights = _sample(term, term.leaves)
        same = len(weights) == len(followed.before) and all(
            torch.equal(_some_of(p), before) for p, before in zip(weights, followed.before, strict=True)
        )
        followed.lost, followed.used = same, not same  # the script may well update them by itself

    def _alive(self) -> Iterator[tuple[int, torch.optim.Optimizer]]:
        for optimizer in self._optimizers.alive():
            yield self._optimizers.tracked(optimizer).id, optimizer

    def _write(self, look: _Look) -> None:
        session = self.session
        for number, followed in enumerate(look.terms):
            term = followed.term
            session.rows.add(
                "loss_terms",
                step=look.step,
                microbatch=look.microbatch,
                seq=session.position.next_seq(),
                loss_kind=look.kind,
                term=number,
                terms=len(look.terms),
                op=term.op,
                module_id=term.module_id,
                parameters=len(term.leaves),
                optimizers=sorted(followed.holders),
                unheld=followed.unheld,
                stepped=look.stepped,
                used=None if term.opaque else followed.used,
            )


def _weights(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _sample(term: Term, of: Iterable[int]) -> list[Tensor]:
    """A few of these leaves that are still there, the first, the middle and the last among them."""
    keys = [key for key in term.leaves if key in of] if not isinstance(of, dict) else list(of)
    chosen = keys[:: max(1, (len(keys) - 1) // (_SAMPLE - 1))][:_SAMPLE]
    return [leaf for key in chosen if (leaf := term.leaves[key]()) is not None]


def _has_gradient(parameter: Tensor) -> bool:
    """Whether it has one that is not zero; on a device, where asking for that would make the host wait, whether it has one."""
    gradient = parameter.grad
    if gradient is None:
        return False
    if gradient.is_sparse:
        gradient = gradient._values()
    return gradient.device.type in LATE_DEVICES or type(gradient) is not Tensor or bool((gradient != 0).any())


def _brings(term: Term) -> bool:
    """Whether weights that the term reaches have gradients."""
    return any(map(_has_gradient, _sample(term, term.leaves)))


def _some_of(parameter: Tensor) -> Tensor:
    return parameter.detach().reshape(-1)[:_ELEMENTS].clone()
