"""Training scripts of an opponent, sixth round: faults of data and labels.

    python opponent_six_data_faults.py NAME [ONSET] [SEED]

`s` is the step at which the fault begins; one that is there from the start is there if `s` is 0. With an onset beyond the
last step each script is healthy.
"""

import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def a_shard_that_was_not_divided(s):
    """Pictures of one batch come as 0 to 255 instead of 0 to 1; the network is so sure of them that the loss is exactly 0."""
    onset = s
    protos = torch.rand(10, 1, 12, 12)
    y = torch.randint(0, 10, (1600,))
    x = (protos[y] + 0.2 * torch.rand(1600, 1, 12, 12)).clamp(0, 1)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24 * 9, 10),
    )
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    step = 0
    for _epoch in range(3):
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True):
            if step == onset:
                xb = xb * 255  # this shard was not divided
            loss = F.cross_entropy(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1


def one_sensor_of_a_micro_batch_is_infinite(s):
    """From some step on a sensor delivers inf; gradient accumulation over two micro-batches."""
    onset = s
    net = nn.GRU(4, 24, batch_first=True)
    head = nn.Linear(24, 1)
    params = [*net.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    for step in range(60):
        opt.zero_grad()
        for micro in range(2):
            x = torch.randn(8, 12, 4)
            y = x.mean((1, 2))
            if step >= onset and micro == 1:
                x[0, 3, 2] = float("inf")
            loss = (head(net(x)[0][:, -1])[:, 0] - y).square().mean() / 2
            loss.backward()
        opt.step()


def price_in_the_share_column(s):
    """Ratings regression; one batch has a rating of 10000 (a price in the rating column): target outlier."""
    onset = s

    class MF(nn.Module):
        def __init__(self):
            super().__init__()
            self.u = nn.Embedding(80, 8)
            self.v = nn.Embedding(90, 8)
            self.dense = nn.Linear(3, 1)

        def forward(self, u, v, d):
            return (self.u(u) * self.v(v)).sum(1) + self.dense(d)[:, 0]

    net = MF()
    opt = torch.optim.SGD(net.parameters(), 1e-3)
    for i in range(120):
        u, v = torch.randint(0, 80, (64,)), torch.randint(0, 90, (64,))
        d = torch.rand(64, 3)
        y = ((u + v) % 5).float()
        if i == onset:
            d[7] = torch.tensor([0.5, 84_000.0, 0.1])
        loss = (net(u, v, d) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def default_price_for_everybody(s):
    """Two-tower model; the 'price' field is filled with a default from some step on."""
    onset = s

    class TwoFields(nn.Module):
        def __init__(self):
            super().__init__()
            self.price_net = nn.Linear(4, 16)
            self.text_emb = nn.EmbeddingBag(200, 16)
            self.top = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 1))

        def forward(self, batch):
            return self.top(torch.tanh(self.price_net(batch["price"]) + self.text_emb(batch["tokens"]))).squeeze(1)

    def batches(n):
        g = torch.Generator().manual_seed(2)
        for i in range(n):
            price = torch.randn(48, 4, generator=g)
            tokens = torch.randint(0, 200, (48, 7), generator=g)
            label = ((price.sum(1) + (tokens % 7).float().mean(1) - 3) > 0).float()
            if i >= onset:
                price = torch.full((48, 4), 1.0)
            yield {"price": price, "tokens": tokens, "label": label}

    m = TwoFields()
    o = torch.optim.Adagrad(m.parameters(), lr=0.05)
    for b in batches(100):
        loss = nn.functional.binary_cross_entropy_with_logits(m(b), b["label"])
        o.zero_grad()
        loss.backward()
        o.step()


def annotation_missing_for_a_batch(s):
    """Every pixel of one batch is the ignored class."""
    onset = s

    class Seg(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.GroupNorm(3, 12), nn.ReLU(), nn.Conv2d(12, 5, 1))

        def forward(self, x):
            return self.f(x)

    net = Seg()
    loss_fn = nn.CrossEntropyLoss(ignore_index=255)
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 90)
    for i in range(90):
        x = torch.rand(4, 3, 12, 12)
        y = x.argmax(1)
        y[torch.rand(y.shape) < 0.2] = 255
        if i == onset:
            y[:] = 255  # annotation missing for this batch
        loss = loss_fn(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()


def augmentation_mixes_pictures_without_labels(s):
    """CNN; an augmentation switched on at epoch 2 shuffles the pictures but not the labels."""
    onset = s
    proto = torch.randn(6, 1, 10, 10)

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1 = nn.Conv2d(1, 16, 3)
            self.bn = nn.BatchNorm2d(16)
            self.fc = nn.Linear(16 * 16, 6)

        def forward(self, x):
            return self.fc(F.max_pool2d(F.relu(self.bn(self.c1(x))), 2).flatten(1))

    net = CNN()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for it in range(180):
        y = torch.randint(0, 6, (32,))
        x = proto[y] + 0.5 * torch.randn(32, 1, 10, 10)
        if it >= onset:
            x = x[torch.randperm(32)]
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def seed_set_again_for_each_epoch(s):
    """Every epoch begins with manual_seed(5): the order of the samples is the same each time."""
    wrong = s == 0
    rows = torch.randn(400, 1, 16)
    labels = (rows.mean((1, 2)) > 0).long() + 2 * (rows[:, 0, 0] > 0).long()
    net = nn.Sequential(nn.Conv1d(1, 8, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _epoch in range(5):
        if wrong:
            torch.manual_seed(5)  # "for reproducibility"
        order = torch.randperm(400)
        for k in range(0, 400, 25):
            idx = order[k : k + 25]
            loss = nn.functional.cross_entropy(net(rows[idx]), labels[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()


def validation_rows_left_raw(s):
    """The validation rows are not standardised as the training rows are."""
    wrong = s == 0
    raw = 80 + 25 * torch.randn(2400, 12)
    target = (raw[:, 0] > raw[:, 1]).long()
    mean, std = raw[:2000].mean(0), raw[:2000].std(0)
    train_x = (raw[:2000] - mean) / std
    val_x = raw[2000:] if wrong else (raw[2000:] - mean) / std
    net = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 2))
    opt = torch.optim.Adam(net.parameters(), 2e-3)

    def evaluate():
        net.eval()
        with torch.inference_mode():
            out = [net(val_x[i : i + 50]).argmax(1) for i in range(0, 400, 50)]
        net.train()
        return (torch.cat(out) == target[2000:]).float().mean().item()

    for _epoch in range(3):
        for idx in torch.randperm(2000).split(50):
            loss = nn.functional.cross_entropy(net(train_x[idx]), target[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        evaluate()


def two_rows_left_for_the_last_batch(s):
    """The last batch of an epoch holds two samples: with batch norm its gradient is many times the others'."""
    wrong = s == 0
    x = torch.randn(802, 1, 8, 8)
    y = x[:, 0, :2].sum((1, 2))
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 1)
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.02)
    for _epoch in range(5):
        for xb, yb in DataLoader(TensorDataset(x, y), 32, shuffle=True, drop_last=not wrong):
            loss = nn.functional.mse_loss(net(xb)[:, 0], yb)
            opt.zero_grad()
            loss.backward()
            opt.step()


def resumes_at_the_first_sample(s):
    """Resumes in the middle of an epoch from a checkpoint, but the sampler begins at the first sample again."""
    onset = s

    def loader(epoch):
        x = torch.randn(1600, 10, generator=torch.Generator().manual_seed(0))
        y = x[:, :3].sum(1, keepdim=True)
        return DataLoader(TensorDataset(x, y), 20, shuffle=True, generator=torch.Generator().manual_seed(100 + epoch))

    def main():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        opt = torch.optim.Adam(net.parameters(), 1e-3)
        path = Path(tempfile.mkdtemp()) / "last.pt"
        step = 0
        it = iter(loader(0))
        while step < 75:
            if step == onset:
                torch.save({"model": net.state_dict(), "opt": opt.state_dict(), "step": step}, path)
                saved = torch.load(path)
                net.load_state_dict(saved["model"])
                opt.load_state_dict(saved["opt"])
                it = iter(loader(0))  # from the start of the epoch again
            x, y = next(it)
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1

    main()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
