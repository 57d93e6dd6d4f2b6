"""Looks at modules that moments do not replace: how far the samples of a batch lie apart, and whether attention still chooses.

Both are taken from a small sample of what is there anyway: rows of an output, and what autograd saved of softmax and of scaled
dot-product attention. They are measured where activations are, and are part of their price.
"""

from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from ...schemas import Phase
from ..autograd.graph import nodes_down_to, saved_tensor
from ..loop.forward import ForwardWatch
from ..session.registry import ModuleEntry
from ..session.session import Session
from ..session.signals import Signals
from ..session.watch import Watch
from ..tensors.device import scalar_of
from ..tensors.moments import LATE_DEVICES
from ..tensors.row_spread import row_spread
from .padding import TokenPadding

_MOST_SPREADS = 12
"""Outputs of inner modules with weights whose spread is followed in one run; those of whole models always are."""

_CLOSE = 64
_APART = 4
"""Steps between two looks at spreads from step _CLOSE on: a collapse takes its time."""

_MOST_ATTENTIONS = 4
"""Looked at in one step; of more, they take turns."""

_ATTENTION_CLOSE = 32
"""Step from which attention is looked at every _APART steps: the look walks through the whole graph."""

_LOOK_AGAIN = 32
"""Steps between two looks at the graph of a model that has no attention."""

_SURE = 1 - 2**-20
"""A softmax with an element above this passes back a gradient that is lost in float32 (2^-24 beside the others' sum)."""

_BETWEEN = ("NativeDropout", "Mul", "Expand", "View", "UnsafeView", "Reshape", "ToCopy", "MaskedFill", "Clone", "Where")


class FeatureSpread(Watch):
    """Measures outputs of two dimensions: the spread over the batch, of each column and of directions."""

    name = "spread"
    writes = ("probes:batch_std", "probes:direction_std")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._followed: set[int] = set()

    def listen(self, signals: Signals) -> None:
        """Look at what modules put out."""
        signals.activation.connect(self.name, self._measure_spread)

    def _measure_spread(self, entry: ModuleEntry, tensor_id: int, tensor: Tensor) -> None:
        step = self.session.position.step
        if step >= _CLOSE and step % _APART:
            return
        if tensor.dim() != 2 or type(tensor) is not Tensor or tensor.shape[0] < 4 or tensor.shape[1] < 4:
            return
        if tensor_id not in self._followed:
            if entry.depth > 0 and (not entry.own_numel or len(self._followed) >= _MOST_SPREADS):
                return
            self._followed.add(tensor_id)
        if not tensor.is_floating_point():
            return
        session = self.session
        began = perf_counter_ns()
        spread, size, directions = row_spread(tensor)
        for probe, value, scale in (("batch_std", spread, size), ("direction_std", directions, 1.0)):
            session.rows.add(
                "probes",
                seq=session.position.next_seq(),
                phase=int(Phase.FORWARD),
                module_id=entry.id,
                tensor_id=tensor_id,
                probe=probe,
                value=value,
                scale=scale,
            )
        session.budget.spent("activations", perf_counter_ns() - began)


class AttentionProbe(Watch):
    """Measures attention: the entropy of its weights, the share of rows that look at one key only, and the weight that lies on
    padding."""

    name = "attention"
    writes = ("probes:attention_entropy", "probes:attention_sure", "probes:attention_on_padding")
    uses = ("embeddings",)

    def __init__(self, session: Session, forward: ForwardWatch, padding: TokenPadding) -> None:
        super().__init__(session)
        self.forward = forward
        self.padding = padding
        self._empty = 0
        self._looks = 0

    def listen(self, signals: Signals) -> None:
        """Look at the graph of each loss."""
        signals.loss.connect(self.name, self._measure_attention)

    def _measure_attention(self, loss: Tensor) -> None:
        session = self.session
        if session.position.saved_tensor_hooks_used or not self.forward.rows_taken:
            return
        if self._empty >= 3 and session.position.step % _LOOK_AGAIN:
            return
        if session.position.step >= _ATTENTION_CLOSE and session.position.step % _APART:
            return
        began = perf_counter_ns()
        nodes = nodes_down_to(loss, 0)
        found = [n for n in nodes if type(n).__name__.startswith("ScaledDotProduct")]
        softmaxes = [n for n in nodes if type(n).__name__ in {"SoftmaxBackward0", "SafeSoftmaxBackward0"}]
        if softmaxes:
            found += _weighing(softmaxes, nodes)
        self._empty = 0 if found else self._empty + 1
        self._looks += 1
        first = self._looks * _MOST_ATTENTIONS % len(found) if len(found) > _MOST_ATTENTIONS else 0
        chosen = (found + found)[first : first + min(len(found), _MOST_ATTENTIONS)]
        for node in chosen:
            weights = _from_softmax(node) if "Softmax" in type(node).__name__ else _from_fused(node)
            if weights is not None and weights.shape[-1] > 1:
                module_id = session.answers.module_of(node._sequence_nr())
                self._write(module_id, weights)
                self._on_padding(module_id, weights, node)
        session.budget.spent("activations", perf_counter_ns() - began, len(chosen))

    def _write(self, module_id: int | None, weights: Tensor) -> None:
        """``weights``: rows of attention weights, each a distribution over the keys."""
        with torch.no_grad():
            sure = (weights.amax(-1) >= _SURE).float().mean()
            entropy = torch.special.entr(weights).sum(-1).mean()
        for probe, value in (("attention_sure", sure), ("attention_entropy", entropy)):
            self.session.rows.add(
                "probes",
                seq=self.session.position.next_seq(),
                phase=int(Phase.FORWARD),
                module_id=module_id,
                probe=probe,
                value=scalar_of(value),
                scale=float(weights.shape[-1]),
            )

    def _on_padding(self, module_id: int | None, weights: Tensor, node: Any) -> None:
        """Weight on keys that are padding, over samples that end with padding, or that begin with it."""
        padding = self.padding.tokens
        if padding is None or padding.device != weights.device or padding.shape[1] != weights.shape[-1]:
            return
        if padding.device.type in LATE_DEVICES:
            return  # whether it is padding at all has to be looked at
        rows = _rows_of_a_sample(node, len(padding))
        if not rows:
            return
        with torch.no_grad():
            grouped = weights.reshape(-1, *weights.shape[-2:])
            sample = torch.arange(len(grouped)) // rows
            if "Softmax" not in type(node).__name__:
                sample *= len(padding) - 1
            if int(sample[-1]) >= len(padding):
                return
            mine = padding[sample]
            some = mine.any(1) & ~mine.all(1)
            if not bool((mine[:, 1:] >= mine[:, :-1]).all()):
                if not bool((mine[:, 1:] <= mine[:, :-1]).all()):
                    return  # not what sequences are filled up with at one side
                # of the queries only the later half is looked at: what looks from padding at padding may have any weights
                some &= mine.sum(1) <= mine.shape[1] // 2
            if not bool(some.any()):
                return
            weight = (grouped * mine[:, None, :]).sum(-1)[some].mean()
            share = mine[some].float().mean()
        self.session.rows.add(
            "probes",
            seq=self.session.position.next_seq(),
            phase=int(Phase.FORWARD),
            module_id=module_id,
            probe="attention_on_padding",
            value=float(weight),
            scale=float(share),
        )


def _rows_of_a_sample(node: Any, samples: int) -> int:
    """How many of the leading rows of the weights taken from a node belong to one sample; 0 where that is not known."""
    query, key, result = saved_tensor(node, "query"), saved_tensor(node, "key"), saved_tensor(node, "result")
    if query is not None and key is not None:
        return min(8, query.shape[1]) if key.shape[1] == query.shape[1] else 1
    if result is None or result.dim() not in {3, 4}:
        return 0
    groups = result.shape[:-2].numel()
    return groups // samples if groups % samples == 0 else 0


def _weighing(softmaxes: list[Any], nodes: list[Any]) -> list[Any]:
    """Of these softmax nodes, those whose result is a matrix product's left side: attention, not a last layer."""
    users: dict[Any, list[Any]] = {}
    for node in nodes:
        for behind, _ in node.next_functions:
            if behind is not None:
                users.setdefault(behind, []).append(node)
    return [n for n in softmaxes if _leads_to_product(n, users, 6)]


def _leads_to_product(node: Any, users: dict[Any, list[Any]], steps: int) -> bool:
    for user in users.get(node, ()):
        name = type(user).__name__
        if name.startswith(("Bmm", "UnsafeBmm")):
            return True
        if steps and name.startswith(_BETWEEN) and _leads_to_product(user, users, steps - 1):
            return True
    return False


def _from_softmax(node: Any) -> Tensor | None:
    """A sample of the rows of a saved softmax over the last dimension; None for one over another."""
    result = saved_tensor(node, "result")
    if result is None or type(result) is not Tensor or result.dim() < 3 or not result.is_contiguous():
        return None
    dimension = node._saved_dim
    if dimension - (1 << 64 if dimension >= 1 << 63 else 0) not in {-1, result.dim() - 1}:
        return None
    length = result.shape[-2]
    later = slice(length // 2, None, max(1, (length + 7) // 8))  # under a causal mask the first rows see few keys
    return result.detach().view(-1, length, result.shape[-1])[:16, later].float()


def _ends(samples: int) -> slice:
    """The first and the last sample."""
    return slice(0, None, max(1, samples - 1))


def _from_fused(node: Any) -> Tensor | None:
    """Weights of the middle and the last query, of the first and the last sample and up to eight heads, made again from
    what was saved; where a batch is sorted by length, the first ones have no padding."""
    query, key, total = saved_tensor(node, "query"), saved_tensor(node, "key"), saved_tensor(node, "logsumexp")
    if query is None or key is None or total is None or query.dim() != 4 or total.dim() != 3:
        return None
    heads = 8 if key.shape[1] == query.shape[1] else 1
    length, keys = query.shape[2], key.shape[2]
    rows = slice(length // 2, None, max(1, length - 1 - length // 2))
    ends = _ends(len(query))
    q, k = query.detach()[ends, :heads, rows].float(), key.detach()[ends, :heads].float()
    if total.shape[:3] != query.shape[:3]:
        return None
    scale = getattr(node, "_saved_scale", None)
    with torch.no_grad():
        logits = q @ k.transpose(-1, -2) * (scale if isinstance(scale, float) else q.shape[-1] ** -0.5)
        mask = saved_tensor(node, "attn_mask")
        if mask is not None:
            wide = mask.detach().expand(*query.shape[:2], length, keys)[ends, :heads, rows]
            logits = logits.masked_fill(~wide, -torch.inf) if wide.dtype is torch.bool else logits + wide
        if getattr(node, "_saved_is_causal", False):
            places = torch.arange(keys, device=logits.device)
            logits = logits.masked_fill(places > places[:length][rows, None], -torch.inf)
        return (logits - total.detach()[ends, :heads, rows, None]).exp().clamp(max=1)
