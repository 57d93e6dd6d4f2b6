"""What libraries do in ways of their own is recorded, and ends no part of the recorder: loaders without `__iter__`, containers
whose `items` are no mapping's, forwards behind wrappers, a first forward inside of a closure."""

import sys
from pathlib import Path

import forked
import torch
from firstfault.analyzer import Trace, diagnose
from firstfault.recorder.loop.batches import tensor_fields


class Table(list[torch.Tensor]):
    """As fastai's tables: `items` is the data itself."""

    @property
    def items(self) -> list[torch.Tensor]:
        return list(self)


class Encoding:
    """As what a tokenizer gives: a mapping that is no dict."""

    def keys(self) -> list[str]:
        return ["ids"]

    def items(self) -> list[tuple[str, torch.Tensor]]:
        return [("ids", torch.ones(2))]


def test_an_attribute_called_items_makes_no_mapping() -> None:
    assert [name for name, _ in tensor_fields(Table([torch.ones(2)]))] == ["0"]
    assert [name for name, _ in tensor_fields(Encoding())] == ["ids"]


def _recorded(folder: Path, script: str) -> Path:
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "firstfault", "run", "--quiet", "--out", folder / "run", folder / "script.py"]
    forked.run(command, check=True)
    return folder / "run"


LOADER = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

torch.manual_seed(0)

class Loader(DataLoader):
    def __iter__(self):
        yield from _SingleProcessDataLoaderIter(self)

train, held = (Loader(TensorDataset(x, x[:, :1]), 8, shuffle=n > 16) for n in (32, 16) if (x := torch.randn(n, 8)) is not None)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for epoch in range(6):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in held:
            nn.functional.mse_loss(model(x), y)
"""


def test_a_loader_that_makes_its_iterator_itself_is_a_loader(tmp_path: Path) -> None:
    with Trace(_recorded(tmp_path, LOADER)) as trace:
        faults = trace.sql("SELECT detail FROM events WHERE event = 'recorder-fault'").rows()
        passes = trace.sql(
            "SELECT phase, count(DISTINCT epoch) FROM batches WHERE loader_id IS NOT NULL GROUP BY phase ORDER BY phase"
        ).rows()
        causes = [c.name for c in diagnose(trace).causes]
    assert faults == []
    assert passes == [("data", 6), ("eval", 6)]
    assert causes == []


LIBRARY = """
import functools
import torch
from torch import nn

class Layer(nn.Module):
    def __init_subclass__(cls):
        original = cls.forward
        @functools.wraps(original)
        def forward(self, *args, **kwargs):
            return original(self, *args, **kwargs)
        cls.forward = forward

class Other(nn.Module):
    def forward(self, x, mask):
        mask = torch.cat([mask, mask], -1)
        joined = torch.cat([x, mask], -1)
        return x
"""

WRAPPED = """
import torch
from torch import nn
from library import Layer

class Block(Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 1)
    def forward(self, x):
        {line}
        return self.linear(x)

model = Block()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(8):
    x = torch.randn(8, 8)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
"""


def test_a_forward_behind_a_wrapper_is_read_and_another_class_beside_the_wrapper_is_not(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    found: dict[str, list[str]] = {}
    for line in ("pass", "x.clamp(-1, 1)"):
        folder = tmp_path / line[:4]
        folder.mkdir()
        (folder / "library.py").write_text(LIBRARY)
        with Trace(_recorded(folder, WRAPPED.replace("{line}", line))) as trace:
            found[line] = trace.sql("SELECT detail ->> '$.text' FROM events WHERE event = 'result-discarded'")[
                :, 0
            ].to_list()
    assert found == {"pass": [], "x.clamp(-1, 1)": ["x.clamp(-1, 1)"]}


CLOSURE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(8, 1), nn.Linear(16, 16)
    def forward(self, x):
        return self.used(x)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for step in range(12):
    x = torch.randn(8, 8)
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        loss.backward()
        return loss
    optimizer.step(closure)
"""


def test_a_first_forward_inside_of_a_closure_is_no_compiled_model(tmp_path: Path) -> None:
    with Trace(_recorded(tmp_path, CLOSURE)) as trace:
        assert trace.sql("SELECT 1 FROM events WHERE event = 'compiled-model'").height == 0
        assert [(c.name, c.module) for c in diagnose(trace).causes] == [("unused-module", "unused")]
