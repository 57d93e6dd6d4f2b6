"""Faults of data and of what the loss is given: `python data_faults.py NAME [ONSET] [SEED]`.

They know nothing of firstfault; `s` is the step at which the fault begins. The truth stands in data_faults.toml.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

torch.set_num_threads(1)


def blobs(n=640, width=12, classes=4, spread=1.0):
    centres = torch.randn(classes, width) * 3
    y = torch.randint(classes, (n,))
    return centres[y] + torch.randn(n, width) * spread, y


def mlp(width=12, hidden=24, classes=4):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


class Net(nn.Module):
    def __init__(self, classes=4, softmax=False):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.head = nn.Linear(8, classes)
        self.softmax = softmax

    def forward(self, x):
        out = self.head(torch.relu(self.conv(x)).mean((2, 3)))
        return out.softmax(-1) if self.softmax else out


def pictures(n=400, classes=4):
    y = torch.randint(classes, (n,))
    x = torch.randn(n, 1, 8, 8) * 0.3
    for i in range(n):
        x[i, 0, y[i] * 2] += 1.5
    return x, y


def forever(x, y, size=16):
    while True:
        yield from DataLoader(TensorDataset(x, y), batch_size=size, shuffle=True, drop_last=True)


def black_pictures(s):
    model = Net()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i, (a, b) in zip(range(s + 15), forever(*pictures()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(torch.zeros_like(a) if i >= s else a), b).backward()
        opt.step()


def columns_become_one_value(s):
    x, y = blobs()
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for i in range(s + 12):
        at = torch.randint(len(x), (32,))
        a = x[at]
        if i >= s:
            a = torch.full_like(a, 0.37)
        opt.zero_grad()
        F.cross_entropy(model(a), y[at]).backward()
        opt.step()


def labels_shuffled_from_a_step_on(s):
    x, y = blobs(spread=0.5)
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for i in range(s + 40):
        at = torch.randint(len(x), (32,))
        b = y[at]
        if i >= s:
            b = b[torch.randperm(len(b))]
        opt.zero_grad()
        F.cross_entropy(model(x[at]), b).backward()
        opt.step()


def labels_of_another_file(s):
    x, y = blobs(n=2000)
    y = y[torch.randperm(len(y))]
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _, (a, b) in zip(range(150), forever(x, y, 32), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def sorted_by_class(s):
    x, y = blobs()
    order = y.argsort()
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(2):
        for a, b in DataLoader(TensorDataset(x[order], y[order]), batch_size=32):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


def rare_class(s):
    x, y = pictures(800, 2)
    keep = torch.cat([(y == 0).nonzero().flatten(), (y == 1).nonzero().flatten()[:12]])
    model = Net(2)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(30), forever(x[keep], y[keep]), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def same_shuffle_every_epoch(s):
    x, y = blobs(n=320)
    model = mlp()
    opt = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        mixed = torch.Generator().manual_seed(7)
        for a, b in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, generator=mixed):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()


class Stream(IterableDataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        yield from zip(self.x, self.y, strict=True)


def workers_all_read_everything(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for a, b in DataLoader(Stream(*blobs(n=256)), batch_size=16, num_workers=2):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


class Noise(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i % 32)
        return torch.randn(12, generator=g), i % 4


def samples_come_again(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for a, b in DataLoader(Noise(), batch_size=16):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def evaluated_on_what_it_saw(s):
    x, y = blobs(n=480)
    train, test = TensorDataset(x[:400], y[:400]), TensorDataset(x[360:], y[360:])
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(2):
        model.train()
        for a, b in DataLoader(train, batch_size=40, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            for a, _ in DataLoader(test, batch_size=40):
                model(a)


def evaluated_on_raw_pixels(s):
    x, y = pictures()
    model = Net()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(2):
        model.train()
        for a, b in DataLoader(TensorDataset(x[:320], y[:320]), batch_size=32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            for a, _ in DataLoader(TensorDataset(x[320:] * 80 + 120, y[320:]), batch_size=40):
                model(a)


def mask_turned_round(s):
    x = torch.randn(400, 10, 8)
    lengths = torch.randint(6, 11, (400,))
    y = torch.randint(3, (400,))
    model = nn.Linear(8, 3)

    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = model

        def forward(self, x, mask):
            return self.head((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1))

    net = Pooled()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for i in range(s + 10):
        at = torch.randint(400, (32,))
        mask = torch.arange(10)[None] < lengths[at][:, None]
        if i >= s:
            mask = ~mask
        opt.zero_grad()
        F.cross_entropy(net(x[at], mask), y[at]).backward()
        opt.step()


def ctc_target_too_long(s):
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(s + 4):
        out = model(torch.randn(6, 4, 6)).log_softmax(-1)
        lengths = torch.tensor([3, 2, 3, 9 if i == s else 2])
        opt.zero_grad()
        F.ctc_loss(out, torch.randint(1, 8, (4, 9)), torch.full((4,), 6), lengths).backward()
        opt.step()


def inputs_get_a_dimension(s):
    x = torch.randn(400, 6)
    y = x @ torch.randn(6)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(s + 10):
        at = torch.randint(400, (16,))
        a = x[at]
        if i >= s:
            a = a[:, None, :]
        opt.zero_grad()
        F.mse_loss(model(a).reshape(16), y[at]).backward()
        opt.step()


def bytes_as_floats(s):
    x, y = pictures()
    x = (x * 40 + 128).clamp(0, 255).round()
    model = Net()
    opt = torch.optim.SGD(model.parameters(), 1e-5)
    for _, (a, b) in zip(range(25), forever(x, y), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def softmax_twice(s):
    model = Net(softmax=True)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _, (a, b) in zip(range(40), forever(*pictures()), strict=False):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def softmax_module_twice(s):
    model = nn.Sequential(*mlp(), nn.Softmax(-1))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _, (a, b) in zip(range(40), forever(*blobs()), strict=False):
        opt.zero_grad()
        nn.CrossEntropyLoss()(model(a), b).backward()
        opt.step()


def logits_into_nll(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(30), forever(*blobs()), strict=False):
        opt.zero_grad()
        F.nll_loss(model(a), b).backward()
        opt.step()


def targets_of_minus_one_and_one(s):
    x, y = blobs(classes=2)
    model = mlp(classes=1)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for _, (a, b) in zip(range(30), forever(x, y), strict=False):
        opt.zero_grad()
        F.binary_cross_entropy_with_logits(model(a).squeeze(1), b.float() * 2 - 1).backward()
        opt.step()


def minus_the_loss(s):
    model = mlp()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i, (a, b) in zip(range(s + 20), forever(*blobs()), strict=False):
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        (-loss if i >= s else loss).backward()
        opt.step()


def column_against_row(s):
    x = torch.randn(400, 6)
    y = x @ torch.randn(6)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(30):
        at = torch.randint(400, (32,))
        opt.zero_grad()
        ((model(x[at]) - y[at]) ** 2).mean().backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 14)
