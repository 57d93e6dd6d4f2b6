"""Training scripts of an opponent, third round: faults of the data.

    python opponent_third_faults.py NAME [ONSET] [SEED]

Written from the catalogue alone. `s` is the step at which the fault begins; one that is there from the start is there
if `s` is 0.
"""

import math
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset, get_worker_info

torch.set_num_threads(1)


def wines(n=900, columns=11, classes=4):
    """A table of standardised measurements and a quality."""
    y = torch.randint(classes, (n,))
    return torch.randn(classes, columns)[y] * 1.2 + torch.randn(n, columns), y


def glyphs(n=480, size=12, classes=5):
    """Small grey pictures of bars in several directions, between 0 and 1."""
    y = torch.randint(classes, (n,))
    angle = y * math.pi / classes + torch.randn(n) * 0.05
    grid = torch.linspace(-1, 1, size)
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 18) + 0.1 * torch.rand(n, size, size)).clamp(0, 1)[:, None], y


class ConvNet(nn.Module):
    def __init__(self, classes=5, width=8, norm=True):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width) if norm else nn.Identity()
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, stride=2)
        self.bn2 = nn.BatchNorm2d(2 * width) if norm else nn.Identity()
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


def endless(loader):
    while True:
        yield from loader


def fit(model, optimizer, loader, steps, criterion=F.cross_entropy):
    model.train()
    for _, (x, y) in zip(range(steps), endless(loader), strict=False):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# --- data ---------------------------------------------------------------------------------------------------------


def merged_on_the_row_number(s):
    """The table was sorted before the labels were merged into it by position."""
    x, y = wines(1600)
    if s == 0:
        x = x[x[:, 3].argsort()][torch.randperm(len(x))]
    net = nn.Sequential(nn.Linear(11, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 4))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
    fit(net, optim.SGD(net.parameters(), lr=0.05, momentum=0.9), loader, 220)


class Sales(Dataset):
    """Pictures of goods with a table of their features; the lookup of the table can fail."""

    def __init__(self, fails_from):
        self.pictures, self.kind = glyphs(720)
        self.facts = torch.randn(720, 6) + self.kind[:, None] * 0.3
        self.fails_from = fails_from

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        facts = self.facts[i] if i < self.fails_from else torch.zeros(6)
        return {"picture": self.pictures[i], "facts": facts, "kind": self.kind[i]}


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.table = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
        self.top = nn.Linear(48, 5)

    def forward(self, picture, facts):
        return self.top(torch.cat([self.eyes(picture), self.table(facts)], 1))


def lookup_fails(s):
    """A missing key gives a row of zeros: from step s on one of two inputs is constant."""
    batch = 12
    model = TwoInputs()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for row in DataLoader(Sales(s * batch), batch_size=batch):
        loss = F.cross_entropy(model(row["picture"], row["facts"]), row["kind"])
        opt.zero_grad()
        loss.backward()
        opt.step()


def sixteen_bit_picture(s):
    """One file among many is of sixteen bits and is divided by 255 like the others."""
    x, y = glyphs(960)
    model = ConvNet(norm=False)
    opt = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    for step in range(60):
        a, b = x[step * 16 : step * 16 + 16].clone(), y[step * 16 : step * 16 + 16]
        if step == s:
            a[5] *= 257.0
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def masked_language_model_without_masks(s):
    """A few tokens are to be guessed; in one batch of short lines chance picks none of them."""
    ids = torch.randint(2, 40, (640, 10))
    ids[:, 1::2] = ids[:, 0::2]
    model = nn.Sequential(nn.Embedding(40, 24), nn.Flatten(), nn.Linear(240, 96), nn.Tanh(), nn.Linear(96, 400))
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(60):
        batch = ids[torch.randint(640, (8,))]
        chosen = torch.rand(batch.shape) < 0.15
        chosen[0, 0] = True
        if step == s:
            chosen[:] = False
        labels = batch.masked_fill(~chosen, -100)
        logits = model(batch.masked_fill(chosen, 1)).view(-1, 40)
        loss = F.cross_entropy(logits, labels.view(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


class Sentiment(nn.Module):
    def __init__(self, vocab=60, d=24, wrong=False):
        super().__init__()
        self.embed = nn.Embedding(vocab, d, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d, 4, 48, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classify = nn.Linear(d, 2)
        self.wrong = wrong

    def forward(self, ids):
        padding = ids != 0 if self.wrong else ids == 0
        h = self.encoder(self.embed(ids), src_key_padding_mask=padding)
        keep = (ids != 0).unsqueeze(-1)
        return self.classify((h * keep).sum(1) / keep.sum(1))


def attends_to_the_padding(s):
    """The mask of padding is turned round: True was thought to mean a word."""
    model = Sentiment(wrong=s == 0)
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(60):
        ids = torch.randint(1, 60, (16, 12))
        for row, n in enumerate(torch.randint(4, 11, (16,)).tolist()):
            ids[row, n:] = 0
        loss = F.cross_entropy(model(ids), (ids == 7).any(1).long())
        opt.zero_grad()
        loss.backward()
        opt.step()


def validation_has_its_own_pipeline(s):
    """Training pictures are standardised, those of the validation only made floats."""
    x, y = glyphs(600)
    train = TensorDataset((x[:480] - x.mean()) / x.std(), y[:480])
    val = TensorDataset(x[480:] * 255 if s == 0 else (x[480:] - x.mean()) / x.std(), y[480:])
    model = ConvNet()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _epoch in range(4):
        model.train()
        for a, b in DataLoader(train, batch_size=24, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            sum((model(a).argmax(1) == b).sum().item() for a, b in DataLoader(val, batch_size=24))


def oversampled_before_the_split(s):
    """Rare rows are repeated to balance the classes, and only then is the table split."""
    x, y = wines(400)
    if s == 0:
        rare = (y == 0).nonzero()[:, 0].repeat(6)
        x, y = torch.cat([x, x[rare]]), torch.cat([y, y[rare]])
    order = torch.randperm(len(y))
    cut = int(0.8 * len(y))
    train, held_out = order[:cut], order[cut:]
    net = nn.Sequential(nn.Linear(11, 32), nn.Tanh(), nn.Linear(32, 4))
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for _epoch in range(4):
        net.train()
        for a, b in DataLoader(TensorDataset(x[train], y[train]), batch_size=32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(a), b).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            for a, b in DataLoader(TensorDataset(x[held_out], y[held_out]), batch_size=32):
                F.cross_entropy(net(a), b).item()


class Augmented(IterableDataset):
    """Samples drawn with a generator that was made before the workers were; each worker has a copy of it."""

    def __init__(self, own):
        self.rng, self.own = random.Random(3), own

    def __iter__(self):
        worker = get_worker_info()
        if self.own and worker is not None:
            self.rng.seed(worker.id)
        for _ in range(240):
            label = self.rng.randrange(3)
            row = [self.rng.gauss(label if k % 3 == label else 0, 1) for k in range(9)]
            yield torch.tensor(row), label


def workers_share_a_generator(s):
    net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 3))
    fit(net, optim.Adam(net.parameters(), lr=3e-3), DataLoader(Augmented(s != 0), batch_size=12, num_workers=2), 36)


class SeededSampler(Sampler):
    """Shuffles with a seed and an epoch that somebody has to set."""

    def __init__(self, n, epoch=0):
        self.n, self.epoch = n, epoch

    def __len__(self):
        return self.n

    def __iter__(self):
        generator = torch.Generator().manual_seed(1234 + self.epoch)
        yield from torch.randperm(self.n, generator=generator).tolist()


def epoch_never_set(s):
    x, y = wines(360)
    sampler = SeededSampler(len(y))
    loader = DataLoader(TensorDataset(x, y), batch_size=24, sampler=sampler)
    net = nn.Sequential(nn.Linear(11, 48), nn.GELU(), nn.Linear(48, 4))
    opt = optim.AdamW(net.parameters(), lr=2e-3)
    for epoch in range(5):
        if s != 0:
            sampler.epoch = epoch
        for a, b in loader:
            loss = F.cross_entropy(net(a), b)
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
