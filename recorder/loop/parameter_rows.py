"""Rows of gradients, of weights and of their change, as far as they are due."""

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from time import perf_counter_ns

from torch import Tensor

from ...schemas import Phase
from ..script.wrappers import layout_of, local
from ..session.session import Session
from ..tensors.device import Late, join_when_ready
from ..tensors.gradient_norms import SeenGradients, joint_norm, quick_norm
from ..tensors.measure import measure_all
from ..tensors.moment_table import MomentTable
from ..tensors.moments import EMPTY, Moments, measurable
from ..tensors.norm_parts import PLAIN_OR_NONE, Norm, Share, joined, norm_in_parts, shares_of
from .weight_updates import Change, Parameters, Sampled, changes, sample_of

_grad, _requires_grad, _tensor = attrgetter("grad"), attrgetter("requires_grad"), itemgetter(0)


class ParameterRows:
    """Makes the rows of a session's parameters."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._seen: dict[tuple[object, ...], SeenGradients] = {}

    def sample(self, parameters: Parameters) -> Sampled | None:
        """Elements of the weights in groups as they are now, if their change is due to be measured."""
        if not self.session.budget.due("updates"):
            return None
        began = perf_counter_ns()
        sampled = sample_of([p for p in parameters if p[2] >= 0])
        self.session.budget.spent("updates", perf_counter_ns() - began, 0)
        return sampled

    def gradients(
        self,
        parameters: Parameters,
        given: Sequence[Tensor | None] | None = None,
    ) -> "float | Late | None":
        """Rows of all gradients if they are due; returns their common L2 norm, None if there was no gradient at all. They are
        ``given``, or lie in the parameters' grad."""
        session = self.session
        which = (parameters[0][1].parameter_id if parameters else -1, len(parameters))
        seen = self._seen_of(which)
        if given is None:  # this runs for every parameter at every step: with as little Python for each as can be
            given = list(map(_grad, map(_tensor, parameters)))
        shares = [] if PLAIN_OR_NONE.issuperset(map(type, given)) else shares_of(given, session.catalogue.rank)
        if seen.pattern_changed(given):
            session.budget.full_detail(6, "gradient-presence")
        if not session.budget.due("gradients"):
            held = given
            if parameters and parameters[-1][2] < 0:  # those that no optimizer holds stand last
                held = [g for (_, _, group), g in zip(parameters, given, strict=True) if group >= 0]
            norm = self._quick_norm(which, held, shares[: len(held)])
            if not seen.jumped(norm):
                return norm
            if not session.budget.full_detail(6, "gradient-norm"):
                return norm
        began = perf_counter_ns()
        if shares:
            self._note_layouts(parameters, given)
            given = list(map(local, given))
        norm = self._rows_of(parameters, given, shares)
        session.budget.spent("gradients", perf_counter_ns() - began, len(parameters))
        seen.jumped(norm)
        return norm

    def _rows_of(self, parameters: Parameters, given: Sequence[Tensor | None], shares: Sequence[Share | None]) -> Norm:
        """Rows of all gradients; returns their norm."""
        session = self.session
        looked_at = [g for g in given if g is not None and measurable(g)]
        found = measure_all(looked_at)
        if isinstance(found, MomentTable) and len(found) == len(parameters) and not shares and parameters[-1][2] >= 0:
            ids = [entry.gradient_id for _, entry, _ in parameters]
            grads = list(map(_requires_grad, map(_tensor, parameters)))
            session.rows.add_all_tensor_stats(ids, Phase.BACKWARD, found, grads)
            return found.norm
        moments_of = dict(zip(map(id, looked_at), found, strict=True))
        measured: dict[Share | None, list[Moments]] = {}
        for i, ((parameter, entry, group), gradient) in enumerate(zip(parameters, given, strict=True)):
            if gradient is None:
                session.rows.add_tensor_stats(
                    entry.gradient_id, Phase.BACKWARD, EMPTY, missing=True, requires_grad=parameter.requires_grad
                )
                continue
            moments = moments_of.get(id(gradient))
            if moments is None:
                continue
            session.rows.add_tensor_stats(
                entry.gradient_id, Phase.BACKWARD, moments, requires_grad=parameter.requires_grad
            )
            if group >= 0:
                measured.setdefault(shares[i] if shares else None, []).append(moments)
        return self._joint_norm(measured)

    def _seen_of(self, which: tuple[object, ...]) -> SeenGradients:
        return self._seen.get(which) or self._seen.setdefault(which, SeenGradients())

    def _quick_norm(
        self, which: tuple[int, int], gradients: Sequence[Tensor | None], shares: Sequence[Share | None]
    ) -> Norm:
        if not shares:
            self.session.step_row.norm_parts.pop("grad_norm", None)
            return quick_norm(gradients, self._seen_of(which))
        norm, parts = norm_in_parts(gradients, shares, lambda share, g: quick_norm(g, self._seen_of((*which, share))))
        self.session.step_row.norm_parts["grad_norm"] = parts
        return norm

    def _joint_norm(self, measured: dict[Share | None, list[Moments]]) -> Norm:
        parts = {share: join_when_ready(moments, joint_norm) for share, moments in measured.items()}
        apart = {share: norm for share, norm in parts.items() if share is not None}
        if not apart:
            self.session.step_row.norm_parts.pop("grad_norm", None)
            return parts.get(None)
        self.session.step_row.norm_parts["grad_norm"] = apart
        return joined(apart).norm

    def _note_layouts(self, parameters: Parameters, gradients: Sequence[Tensor | None]) -> None:
        """A gradient may be spread in another way than its parameter."""
        for (_, entry, _), gradient in zip(parameters, gradients, strict=True):
            if gradient is not None and (layout := layout_of(gradient)) is not None:
                self.session.catalogue.note_layout(entry.gradient_id, layout)

    def weights(self, of: Parameters, sample: Sampled | None) -> dict[int, Change]:
        """Rows of parameters and their change, as far as they are due; returns the change by group."""
        session = self.session
        began = perf_counter_ns()
        ids: list[int] = []
        measured: Sequence[Moments] = []
        if session.budget.due("parameters"):
            parameters = [(p, e) for p, e, _ in of if measurable(local(p))]
            measured = measure_all([local(p) for p, _ in parameters])
            ids = [entry.parameter_id for _, entry in parameters]
            session.rows.add_all_tensor_stats(
                ids, Phase.OPTIMIZER, measured, [parameter.requires_grad for parameter, _ in parameters]
            )
            session.budget.spent("parameters", perf_counter_ns() - began, len(parameters))
        began = perf_counter_ns()
        change: dict[int, Change] = {}
        if sample is not None:
            change = changes(session, sample, ids, measured)
            session.budget.spent("updates", perf_counter_ns() - began, len(sample.parameters))
        return change
