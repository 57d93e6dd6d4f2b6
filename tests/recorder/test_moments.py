"""The kernel's moments are those that plain torch gives, for every kind of tensor."""

import math

import pytest
import torch
from firstfault.recorder.tensors.element_sample import SAMPLE, Sampling
from firstfault.recorder.tensors.measure import measure, measure_all
from firstfault.recorder.tensors.moments import EMPTY, node_of

pytestmark = pytest.mark.usefixtures("measuring_way")


TENSORS = {
    "vector": torch.randn(1000),
    "matrix": torch.randn(64, 33),
    "transposed": torch.randn(64, 33).t(),
    "strided": torch.randn(100, 7)[::3, ::2],
    "expanded": torch.randn(5, 1).expand(5, 9),
    "scalar": torch.tensor(3.25),
    "double": torch.randn(77, dtype=torch.float64),
    "half": torch.randn(500).half(),
    "bfloat16": torch.randn(500).bfloat16(),
    "after relu": torch.randn(4096).relu(),
    "negative relu": -torch.randn(4096).relu(),
    "all zero": torch.zeros(13),
    "tokens": torch.randint(0, 50, (8, 9)),
    "bytes": torch.randint(0, 256, (300,), dtype=torch.uint8),
    "flags": torch.rand(99) > 0.3,
    "with nan": torch.tensor([1.0, math.nan, -2.0, 0.0]),
    "with inf": torch.tensor([1.0, math.inf, -math.inf, 5.0]),
    "all nan": torch.full((6,), math.nan),
    "half overflow": torch.tensor([60000.0, math.inf, 1.0]).half(),
    "squares leave float32": torch.tensor([1e30, -3e30, 2e25]),
    "sum leaves float32": torch.full((4,), 3e38),
    "large": torch.randn(1 << 20),
    "sparse": torch.sparse_coo_tensor(torch.tensor([[1, 4]]), torch.tensor([2.0, -3.0]), (9,), check_invariants=True),
    "requires grad": torch.randn(30, requires_grad=True),
    "non-leaf": torch.randn(30, requires_grad=True) * 2,
}


@pytest.mark.parametrize("name", TENSORS)
def test_moments_are_those_of_the_finite_elements(name: str) -> None:
    x = TENSORS[name]
    m = measure(x, count_zeros=True)
    values = (x.coalesce().values() if x.is_sparse else x.detach()).double().flatten()
    finite = values[values.isfinite()]

    assert m.numel == values.numel()
    assert m.nan_count == int(values.isnan().sum())
    assert m.inf_count == int(values.isinf().sum())
    assert m.zero_count == int((finite == 0).sum())
    assert m.min == (finite.min().item() if finite.numel() else None)
    assert m.max == (finite.max().item() if finite.numel() else None)
    scale = finite.abs().sum().item() or 1.0
    assert m.sum == pytest.approx(finite.sum().item(), abs=1e-5 * scale)
    assert m.sum_sq == pytest.approx((finite**2).sum().item(), rel=1e-4)


def test_an_empty_tensor_has_empty_moments() -> None:
    assert measure(torch.empty(0, 5)) == EMPTY


def test_where_only_the_size_is_wanted_the_rest_is_null_and_not_zero() -> None:
    x = torch.randn(500)
    assert measure(x, size_only=True)[:7] == (500, 0, 0, None, None, None, None)
    assert measure(x, size_only=True).sum_sq == pytest.approx(measure(x).sum_sq, rel=1e-6)


def test_the_size_alone_still_counts_what_is_not_finite_and_what_is_zero() -> None:
    broken, zeros = torch.tensor([1.0, math.nan, math.inf]), torch.zeros(4)
    assert measure(broken, size_only=True) == measure(broken)
    assert measure(zeros, size_only=True).zero_count == 4


def test_zeros_are_counted_without_being_asked_where_a_relu_leaves_them(measuring_way: str) -> None:
    assert measure(torch.tensor([0.0, 2.0, 0.0])).zero_count == 2
    assert measure(torch.tensor([-1.0, 0.0, 2.0])).zero_count == (1 if measuring_way == "library" else None)


def test_many_tensors_together_give_what_each_gives_alone() -> None:
    tensors = [torch.randn(64) for _ in range(20)] + [torch.randn(8, 8).t() for _ in range(5)]
    tensors += [
        torch.zeros(64),
        torch.full((64,), math.nan),
        torch.randn(64).half(),
        torch.randn(70_000),
        torch.empty(0),
    ]
    for together, x in zip(measure_all(tensors), tensors, strict=True):
        alone = measure(x)
        assert together[:6] == alone[:6]
        assert together[6:] == pytest.approx(alone[6:], rel=1e-5, abs=1e-5)


def test_measuring_leaves_the_random_state_and_the_graph_alone() -> None:
    x = torch.randn(100, requires_grad=True)
    y = x * 2
    state = torch.get_rng_state()
    before = torch._C._autograd._get_sequence_nr()
    measure(y)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch._C._autograd._get_sequence_nr() == before


def test_a_sample_is_measured_in_the_order_of_its_tensors_whatever_their_sizes():
    torch.manual_seed(0)
    tensors = [torch.randn(n) * (i + 1) for i, n in enumerate((3, 5000, 3, 1, 700, 5000, 3))]
    tensors.append(torch.randn(3, dtype=torch.float64))
    sampling = Sampling(tensors)
    sample = sampling.take(tensors)
    assert sample.dtype is torch.float64
    for tensor, moments in zip(tensors, sampling.measure(sample.float()), strict=True):
        assert moments.numel == min(tensor.numel(), SAMPLE)
        if tensor.numel() <= SAMPLE:
            assert moments.sum == pytest.approx(float(tensor.sum()), rel=1e-5)
            assert moments.max == pytest.approx(float(tensor.max()))
    assert sampling.sorted_back(sampling.sizes) == [min(t.numel(), SAMPLE) for t in tensors]


def test_a_part_that_is_not_finite_does_not_hide_in_its_sample(measuring_way):
    rows = torch.tensor([[1.0, -2.0], [torch.nan, 3.0], [0.0, torch.inf], [0.0, 0.0]])
    sampling = Sampling(list(rows))
    found = sampling.measure(sampling.take(list(rows)))
    none = 0 if measuring_way == "library" else None
    assert [(m.nan_count, m.inf_count, m.zero_count) for m in found] == [(0, 0, none), (1, 0, 0), (0, 1, 1), (0, 0, 2)]
    assert (found[0].min, found[0].max, found[0].sum, found[0].sum_sq) == (-2.0, 1.0, -1.0, pytest.approx(5.0))


def test_a_view_whose_base_was_changed_counts_as_one_without_a_node():
    base = torch.ones(4, requires_grad=True) * 1
    view = base.split(2)[0]
    assert node_of(view) is view.grad_fn
    base.add_(1)
    with pytest.raises(RuntimeError, match="modified inplace"):
        _ = view.grad_fn

    assert node_of(view) is None
