"""The step of an exception is told from its line's place in the loop."""

import pytest

LOOP = """
import torch

model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def batch(i, bad):
    if i == bad:
        raise KeyError("sample")
    return torch.ones(16, 4)


def report(i, bad):
    if i == bad:
        raise KeyError("prefix")


def train(head, tail):
    for i in range(8):
        x = batch(i, head)
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        report(i, tail)


train({head}, {tail})
"""


@pytest.mark.parametrize(("head", "tail"), [(5, -1), (-1, 5)])
def test_an_exception_belongs_to_the_iteration_in_whose_lines_it_was_raised(bench, head: int, tail: int) -> None:
    done = bench.record(bench.write(LOOP.replace("{head}", str(head)).replace("{tail}", str(tail))))
    assert done.returncode == 1
    assert done.exit.exception.step == 5


STAYED = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 2)
        self.register_buffer("moved", torch.ones(2))
        self.scale = torch.ones(2, device="meta")

    def forward(self, x):
        return self.body(x) * self.moved * self.scale


Net()(torch.ones(3, 4)).sum().backward()
"""


def test_a_plain_tensor_that_lies_elsewhere_is_named(bench) -> None:
    done = bench.record(bench.write(STAYED))
    assert [(t["name"], t["device"]) for t in done.exit.exception.attributes] == [("scale", "meta")]
