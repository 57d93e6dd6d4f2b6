"""How many steps a run is to make, read from the loops of scripts of many shapes; what cannot be told is not told."""

import contextlib
import linecache
import sys
import threading

import pytest
from firstfault.recorder.script.plain_values import UnknownError
from firstfault.recorder.script.planned_steps import calls_now, loop_of, loops_around, planned
from torch.optim.optimizer import register_optimizer_step_post_hook

HEAD = """
import argparse, itertools, math
import torch
from torch.utils.data import DataLoader, TensorDataset, IterableDataset
class tqdm:
    def __init__(self, iterable, desc=None):
        self.iterable = iterable
    def __iter__(self):
        return iter(self.iterable)
tqdm.__module__ = 'tqdm.std'
args = argparse.Namespace(epochs=7, steps=500, every=4, patience=3, amp=False, limit=None, batch=8)
data = TensorDataset(torch.zeros(80, 1))
loader = DataLoader(data, batch_size=8)
weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
def train_epoch(loader, o=optimizer):
    for x in loader:
        o.step()
def stream():
    while True:
        yield 1
class Trainer:
    def __init__(self):
        self.step = 0
        self.loader, self.epochs, self.optimizer, self.opt = loader, args.epochs, optimizer, optimizer
    def update(self):
        self.opt.step()
        self.step += 1
    def fit(self):
        for epoch in range(self.epochs):
            self.run_epoch(epoch)
    def run_epoch(self, epoch):
        for batch in self.loader:
            if args.amp:
                pass
            else:
                self.optimizer.step()
"""


def told(tmp_path, body, head=HEAD):
    """What is told of a script at its second step, which then ends; of its schedule, the loop that steps it."""
    file = tmp_path / "train.py"
    file.write_text(head + body, "utf-8")
    linecache.checkcache(str(file))
    seen, answer = [], []

    class Enough(BaseException):
        pass

    def stepped(*_):
        try:
            seen.append(loops_around(sys._getframe(1)))
        except UnknownError:
            answer.append(None)
            raise Enough from None
        if len(seen) == 2:
            try:
                if "schedule" in scope:
                    answer.append(loop_of(sys._getframe(1), scope["schedule"]))
                else:
                    answer.append(planned(*seen, made))
            except UnknownError:
                answer.append(None)
            raise Enough

    made = []
    scope = {"__name__": "__main__", "made_here": lambda: made.extend(calls_now(sys._getframe(1)))}

    def run():
        with contextlib.suppress(Enough):
            exec(compile(file.read_text("utf-8"), str(file), "exec"), scope)

    handle = register_optimizer_step_post_hook(stepped)
    try:
        thread = threading.Thread(target=run)  # pytest itself calls from loops
        thread.start()
        thread.join()
    finally:
        handle.remove()
    return answer[0]


BATCHES = """
def batches(x, size, order):
    for idx in order.split(size):
        yield [x[i] for i in idx]
def shuffled(x, size, gen):
    order = torch.randperm(len(x), generator=gen) if gen is not None else torch.arange(len(x))
    for idx in order.split(size):
        yield idx
def ranged(x, size):
    n = len(x)
    rows = torch.randperm(n)
    for i in range(0, len(rows), size):
        yield x[i:i + size]
def some(x, size):
    for i in range(0, len(x), size):
        if i > 8:
            yield x[i:i + size]
def fewer(x, size):
    for i in range(0, len(x), size):
        if x[i] > 3:
            return
        yield x[i:i + size]
"""
KNOWN = {
    "for epoch in range(args.epochs):\n    for batch in loader:\n        optimizer.step()": 70,
    "for epoch in range(args.epochs):\n    train_epoch(loader)": 70,
    "for epoch in range(2, args.epochs + 1):\n    for i, b in enumerate(tqdm(loader)):\n        optimizer.step()": 60,
    "Trainer().fit()": 70,
    "t = Trainer()\nwhile t.step < args.steps:\n    t.update()": 500,
    "step = 0\nwhile step < args.steps:\n    optimizer.step()\n    step += 1": 500,
    "step = 0\nwhile True:\n    for b in loader:\n        optimizer.step()\n        step += 1\n"
    "        if step >= args.steps:\n            break\n    if step >= args.steps:\n        break": 500,
    "it = iter(loader)\nfor step in range(args.steps):\n    try:\n        b = next(it)\n    except StopIteration:\n"
    "        it = iter(loader)\n    optimizer.step()": 500,
    "for epoch in range(args.epochs):\n    for i, b in enumerate(loader):\n        if (i + 1) % args.every == 0:\n"
    "            optimizer.step()": 14,
    "for epoch in range(args.epochs):\n    for i, b in enumerate(loader):\n        if i >= 4:\n            break\n"
    "        optimizer.step()": 28,
    "for epoch in range(args.epochs):\n    if args.limit is not None and epoch >= args.limit:\n        break\n"
    "    train_epoch(loader)": 70,
    "for batch in range(args.epochs):\n    x = torch.zeros(100)\n    for _ in range(2):\n"
    "        for idx in torch.randperm(len(x)).chunk(args.every):\n            optimizer.step()": 56,
    "def main():\n    for step in range(args.steps):\n        optimizer.step()\nif __name__ == '__main__':\n    main()": 500,
    "for fold in range(5):\n    made_here()\n    for epoch in range(args.epochs):\n        train_epoch(loader)": 70,
    "for epoch in range(args.epochs):\n    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))\n"
    "    for i, idx in enumerate(order.split(args.batch)):\n        optimizer.step()": 70,
    "epoch, step = 0, 0\nwhile epoch < args.epochs and step < 55:\n    order = torch.randperm(80)\n"
    "    for idx in order.split(args.batch):\n        optimizer.step()\n        step += 1\n"
    "        if step >= 55:\n            break\n    epoch += 1": 55,
    "epoch, step = 0, 0\nwhile epoch < args.epochs and step < 500:\n    for b in loader:\n        optimizer.step()\n"
    "        step += 1\n        if step >= 500:\n            break\n    epoch += 1": 70,
    BATCHES + "for epoch in range(args.epochs):\n    order = torch.randperm(80)\n"
    "    for i, b in enumerate(batches(data, args.batch, order)):\n        optimizer.step()": 70,
    BATCHES + "for epoch in range(args.epochs):\n    for b in shuffled(range(33), 4, gen=None):\n        optimizer.step()": 63,
    BATCHES + "for epoch in range(args.epochs):\n    for b in ranged(data, 4):\n        optimizer.step()": 140,
    "episode = 0\nwhile episode < 6:\n    episode += 1\n    for _ in range(3):\n        optimizer.step()": 18,
}  # fmt: skip

UNKNOWN = [
    BATCHES + "for epoch in range(9):\n    for b in some(range(80), 8):\n        optimizer.step()",
    BATCHES + "for epoch in range(9):\n    for b in fewer([0] * 80, 8):\n        optimizer.step()",
    BATCHES + "for epoch in range(1, 9):\n    for b in ranged([0] * 80, epoch):\n        optimizer.step()",
    "for epoch in range(1, 9):\n    order = torch.randperm(8 * epoch)\n    for b in order.split(4):\n        optimizer.step()",
    (
        "memory = [0] * 80\nfor e in range(9):\n    memory.append(e)\n    order = torch.randperm(len(memory))\n"
        "    for b in order.split(4):\n        optimizer.step()"
    ),
    "for e in range(9):\n    o = torch.randperm(80)\n    o = o[o > e]\n    for b in o.split(4):\n        optimizer.step()",
    (
        "step = 0\nfor epoch in range(1000):\n    for b in loader:\n        optimizer.step()\n        step += 1\n"
        "        if step == args.steps:\n            raise SystemExit"
    ),
    "for epoch in range(args.epochs):\n    for b in loader:\n        optimizer.step()\n    if b[0].sum() > 3:\n        break",
    "while True:\n    optimizer.step()",
    "bad = 0\nfor e in range(99):\n    optimizer.step()\n    bad = 0 if e < 0 else bad + 1\n    if bad > 3:\n        break",
    "bad = 0\nfor e in range(args.steps):\n    optimizer.step()\n    if e > 9:\n        bad += 1\n    if bad > 3:\n        break",
    "for b in stream():\n    optimizer.step()",
    "step = 0\nfor b in stream():\n    optimizer.step()\n    step += 1\n    if step >= args.steps:\n        break",
    "for phase in ['train', 'val'] * 3:\n    for b in loader:\n        if phase == 'train':\n            optimizer.step()",
    "for n in range(3, 9):\n    for _ in range(n):\n        optimizer.step()",
    "for n in range(3, 9):\n    train_epoch(range(n))",
    "for n in range(3, 9):\n    train_epoch(DataLoader(data, batch_size=n))",
    "for epoch in range(args.epochs):\n    train_epoch(loader)\nfor epoch in range(args.epochs):\n    train_epoch(loader)",
    "for i in range(args.epochs):\n    optimizer.step()\nfor i in range(args.epochs):\n    optimizer.step()",
    "for i in range(args.epochs):\n    optimizer.step()\n    optimizer.step()",
    (
        "for epoch in range(args.epochs):\n    for b in loader:\n        if torch.isnan(b[0]).any():\n            continue\n"
        "        optimizer.step()"
    ),
    "for epoch in range(args.epochs):\n    buffer = list(range(epoch + 5))\n    for b in buffer:\n        optimizer.step()",
    "def fit(n=0):\n    while n < args.steps:\n        optimizer.step()\n        n += 1\nfor fold in stream():\n    fit()",
    "step, best = 0, 0.0\nwhile step < args.steps and best < 1.0:\n    best = best + 0.0\n    optimizer.step()\n    step += 1",
    "class Lazy:\n    def __getattr__(self, name):\n        return 5\nfor i in range(Lazy().n):\n    optimizer.step()",
]


@pytest.mark.parametrize("body", KNOWN)
def test_the_length_of_a_run_is_read_from_its_loops(tmp_path, body):
    assert told(tmp_path, body) == KNOWN[body]


@pytest.mark.parametrize("body", UNKNOWN)
def test_a_length_that_is_not_certain_is_not_told(tmp_path, body):
    assert told(tmp_path, body) is None


MADE = "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"
STEPPED = {
    "for e in range(3):\n    for b in loader:\n        optimizer.step()\n        schedule.step()": 0,
    "for e in range(3):\n    for b in loader:\n        optimizer.step()\n    schedule.step()": 1,
    "for e in range(3):\n    train_epoch(loader)\n    schedule.step()": 1,
    "for e in range(3):\n    train_epoch(loader)\n    if e < args.steps:\n        schedule.step()": None,
    "for e in range(3):\n    for i, b in enumerate(loader):\n        if i % 2 == 0:\n            optimizer.step()\n"
    "        schedule.step()": None,
    "for e in range(3):\n    for i, b in enumerate(loader):\n        if i % 2 == 0:\n            optimizer.step()\n"
    "            schedule.step()": 0,
    "for e in range(3):\n    train_epoch(loader)": None,
}  # fmt: skip


@pytest.mark.parametrize("body", STEPPED)
def test_the_loop_that_steps_a_schedule_is_found(tmp_path, body):
    assert told(tmp_path, MADE + body) == STEPPED[body]
