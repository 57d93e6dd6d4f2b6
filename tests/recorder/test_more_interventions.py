"""Interventions against exceptions, missing autocast, gradients of another loss, and reductions that lose a part."""

import functools

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from firstfault.recorder.probes.interventions import intervened
from firstfault.schemas.files.probe_report import LEFT_OUT
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Numbers, of which one is missing and one is longer than the others."""

    def __init__(self, missing=-1, longer=-1):
        self.missing, self.longer = missing, longer

    def __len__(self):
        return 12

    def __getitem__(self, i):
        if i == self.missing:
            raise KeyError("price")
        return torch.full((2 if i == self.longer else 1,), float(i))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_raises_is_left_out_and_named(tmp_path, workers):
    def batches():
        return list(DataLoader(Rows(missing=5), batch_size=4, num_workers=workers))

    with pytest.raises(KeyError):
        batches()
    with intervened("sample-left-out", step=99, folder=str(tmp_path)):
        found = batches()
    assert torch.cat(found).flatten().tolist() == [0, 1, 2, 3, 4, 4, 6, 7, 8, 9, 10, 11]
    assert (tmp_path / LEFT_OUT).read_text().split() == ["5"]


@pytest.mark.parametrize("longer", [4, 6])
def test_a_sample_that_does_not_fit_to_the_others_of_its_batch_is_left_out(tmp_path, longer):
    loader = DataLoader(Rows(longer=longer), batch_size=4)
    with pytest.raises(RuntimeError):
        list(loader)
    with intervened("sample-left-out", folder=str(tmp_path)):
        assert all(batch.shape == (4, 1) for batch in loader)
    assert (tmp_path / LEFT_OUT).read_text().split() == [str(longer)]


def test_batches_without_a_bad_sample_are_as_they_are(tmp_path):
    with intervened("sample-left-out", folder=str(tmp_path)):
        assert torch.cat(list(DataLoader(Rows(), batch_size=4))).flatten().tolist() == list(range(12))
    assert not (tmp_path / LEFT_OUT).exists()


def test_what_backward_needs_stays_as_it_was_when_it_is_changed_in_place():
    x = torch.tensor([0.3, -0.2])

    def gradient(*, overwrite):
        w = torch.ones(2, requires_grad=True)
        h = torch.sigmoid(w * x)
        out = (h * 2).sum()
        if overwrite:
            h.mul_(0.5)
        out.backward()
        return w.grad

    with pytest.raises(RuntimeError, match="inplace"):
        gradient(overwrite=True)
    with intervened("saved-copied", step=3, now=lambda: 2), pytest.raises(RuntimeError, match="inplace"):
        gradient(overwrite=True)
    with intervened("saved-copied", step=3, now=lambda: 3):
        assert torch.equal(gradient(overwrite=True), gradient(overwrite=False))


def test_operands_of_two_types_are_cast_to_the_wider_one():
    layer, x = nn.Linear(3, 2), torch.ones(1, 3)
    with pytest.raises(RuntimeError):
        layer(x.bfloat16())
    with intervened("operands-cast", step=3, now=lambda: 2), pytest.raises(RuntimeError):
        layer(x.bfloat16())
    with intervened("operands-cast"):
        assert torch.equal(layer(x.bfloat16()), layer(x))
        with pytest.raises(RuntimeError):
            layer(torch.ones(1, 4))  # a shape that does not fit is no type


def test_autocast_is_switched_on_for_forwards_with_gradients_to_the_type_that_it_had():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), torch.ones(1, 3)
    step = [0]
    with intervened("autocast-on", step=1, now=lambda: step[0]):
        with torch.autocast("cpu", dtype=torch.float16):
            assert model(x).dtype is torch.float16
        assert model(x).dtype is torch.float32
        step[0] = 1
        assert model(x).dtype is torch.float16
        with torch.no_grad():
            assert model(x).dtype is torch.float32
    assert model(x).dtype is torch.float32


def test_a_backward_begins_without_what_another_loss_has_left():
    judge, maker = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    judging, making = (torch.optim.SGD(m.parameters(), lr=0.0) for m in (judge, maker))
    step = [0]

    def used():
        made = maker(torch.ones(1, 1))
        judge(made.detach()).sum().backward()
        gradient = float(judge.weight.grad)
        judging.step()
        judging.zero_grad()
        making.zero_grad()
        judge(made).sum().backward()
        making.step()
        step[0] += 1
        return round(gradient / float(made.detach()), 5)

    with intervened("gradients-of-this-round", step=2, now=lambda: step[0]):
        assert [used() for _ in range(4)] == [1.0, 2.0, 1.0, 1.0]


def test_gradients_of_an_optimizer_that_collects_them_on_purpose_stay():
    often, seldom = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    stepping, collecting = (torch.optim.SGD(m.parameters(), lr=0.0) for m in (often, seldom))
    step = [0]
    with intervened("gradients-of-this-round", now=lambda: step[0]):
        for i in range(8):
            stepping.zero_grad()
            (often(torch.ones(1, 1)) + seldom(torch.ones(1, 1))).sum().backward()
            stepping.step()
            step[0] = i + 1
    assert float(seldom.weight.grad) == 8.0
    assert not collecting.state


def test_elements_that_are_not_finite_are_zero_before_a_scaler_looks():
    weight = nn.Parameter(torch.ones(2))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cpu", init_scale=4.0)

    def step():
        scaler.scale((weight * torch.tensor([1.0, 2.0])).sum()).backward()
        weight.grad[0] = torch.inf
        scaler.step(optimizer)
        scaler.update()
        weight.grad = None

    step()
    assert weight.tolist() == [1.0, 1.0]
    with intervened("gradients-finite"):
        step()
    assert weight.tolist() == [1.0, -1.0]
    assert scaler.get_scale() == 2.0


def reduced(rank, store, found):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    faulty, allreduce = dist.ProcessGroup, dist.ProcessGroup.allreduce

    def loses(self, tensors, opts):
        work = allreduce(self, tensors, opts)
        work.wait()
        tensors[0].mul_(1.25)
        return work

    faulty.allreduce = loses
    for name in ("nothing", "sums-made-anew"):
        with intervened(name):
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
                tensor = torch.tensor([1.0 + rank])
                dist.all_reduce(tensor, op)
                found.put((name, rank, str(op), float(tensor)))
    dist.destroy_process_group()


def test_a_sum_of_ranks_is_made_of_what_each_of_them_gave(tmp_path):
    found = mp.get_context("fork").SimpleQueue()
    mp.start_processes(functools.partial(reduced, store=tmp_path / "store", found=found), nprocs=2, start_method="fork")
    results = {}
    while not found.empty():
        name, _, op, value = found.get()
        results.setdefault((name, "MAX" in op.upper()), set()).add(value)
    assert results == {
        ("nothing", False): {3.75},
        ("nothing", True): {2.5},
        ("sums-made-anew", False): {3.0},
        ("sums-made-anew", True): {2.5},
    }


def test_losses_of_half_and_single_precision_are_compared_under_autocast():
    model = nn.Linear(3, 2)
    with intervened("autocast-on"):
        loss = F.cross_entropy(model(torch.ones(4, 3)), torch.tensor([0, 1, 0, 1]))
        loss.backward()
    assert model.weight.grad.dtype is torch.float32
