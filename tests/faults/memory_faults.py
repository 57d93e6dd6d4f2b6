"""Trainings that gather what they should let go of: `python memory_faults.py NAME ONSET SEED`; the fault begins at step ONSET."""

import resource
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)

SAMPLES = []
HEAT = {}


def shapes(n=960):
    x = torch.randn(n, 1, 12, 12)
    return x, (x.mean((1, 2, 3)) > 0).long()


def blobs(n=960, width=14, classes=3):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] + 0.5 * torch.randn(n, width), y


def conv():
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(54, 2))


def mlp(width=14, classes=3):
    return nn.Sequential(nn.Linear(width, 40), nn.GELU(), nn.Linear(40, classes))


def batches(x, y, steps, size=16):
    for i in range(steps):
        idx = torch.arange(i * size, i * size + size) % len(x)
        yield i, x[idx], y[idx]


# -- graphs that are kept ---------------------------------------------------------------------------------------------------


def losses_for_a_plot(s):
    x, y = shapes()
    model, curve = conv(), []
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for i, a, b in batches(x, y, 44):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i >= s:
            curve.append(loss)


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total = self.total + value
        self.count += 1


def a_meter_sums_losses(s):
    x, y = blobs()
    model, meter = mlp(), Meter()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i, a, b in batches(x, y, 44):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.update(loss if i >= s else loss.item())


# -- outputs that are kept --------------------------------------------------------------------------------------------------


class Evaluator:
    def __init__(self, model):
        self.model = model
        self.predictions = defaultdict(list)

    def step(self, a, b, keep):
        out = self.model(a)
        if keep:
            self.predictions["train"].append(out)
        return F.cross_entropy(out, b)


def predictions_in_an_attribute(s):
    x, y = blobs(width=20)
    model = mlp(20)
    evaluator = Evaluator(model)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i, a, b in batches(x, y, 46):
        loss = evaluator.step(a, b, i >= s)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(14, 32), nn.Linear(32, 3)
        self.cache, self.calls, self.begin = {}, 0, 0

    def forward(self, x):
        h = torch.tanh(self.body(x))
        if self.calls >= self.begin:
            self.cache[self.calls] = h * 0.5
        self.calls += 1
        return self.head(h)


def a_cache_keyed_by_step(s):
    x, y = blobs()
    model = Cached()
    model.begin = s
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, a, b in batches(x, y, 46):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def a_megabyte_of_samples_each_step(s):
    x, y = shapes()
    model = conv()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, a, b in batches(x, y, 70):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i >= s:
            SAMPLES.append(torch.rand(512, 512))


def history_joined_each_step(s):
    x, y = blobs()
    model, seen = mlp(), torch.zeros(0, 256)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, a, b in batches(x, y, 70):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i >= s:
            seen = torch.cat([seen, torch.randn(1024, 256)])


# -- what is no tensor ------------------------------------------------------------------------------------------------------


def arrays_of_every_step(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, a, b in batches(x, y, 80):
        if i >= s:
            HEAT[i] = np.full((512, 320), float(i))
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Journal:
    def __init__(self):
        self.records = []

    def write(self, step, rows):
        self.records.extend({"step": step, "row": n, "text": f"row {n} of step {step}"} for n in range(rows))


def records_of_every_sample(s):
    x, y = shapes()
    model, journal = conv(), Journal()
    opt = torch.optim.Adam(model.parameters(), 2e-2)
    for i, a, b in batches(x, y, 80):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i >= s:
            journal.write(i, 5000)


# -- memory that runs out ---------------------------------------------------------------------------------------------------


def the_address_space_is_full(s):
    x, y = blobs()
    model, pages = mlp(), []
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, a, b in batches(x, y, 90):
        if i == s:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 160 * 2**20, resource.RLIM_INFINITY))
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()
        if i >= s:
            pages.append(torch.ones(4 * 2**20 // 4))


def the_device_is_full(s):
    x, y = shapes()
    model = conv()
    opt = torch.optim.SGD(model.parameters(), 0.05)

    def allocate(module, args):
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.20 GiB is free. "
            "Of the allocated memory 21.10 GiB is allocated by PyTorch, and 310.50 MiB is reserved by PyTorch but unallocated."
        )

    for i, a, b in batches(x, y, 40):
        if i == s:
            model[0].register_forward_pre_hook(allocate)
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
