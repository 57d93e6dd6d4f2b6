"""Training scripts of an opponent, fifth round: faults of data and labels.

    python opponent_fifth_faults.py NAME [ONSET] [SEED]

`s` is the step at which the fault begins; one that is there from the start is there if `s` is 0. With an onset beyond the
last step each script is healthy.
"""

import dataclasses
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, Sampler, Subset, TensorDataset

torch.set_num_threads(1)


class Digits(Dataset):
    """Eight by eight drawings of ten classes, moved and with noise, as grey values 0 to 16."""

    def __init__(self, n=960, scale=True, seed=7):
        g = torch.Generator().manual_seed(seed)
        base = (torch.rand(10, 6, 6, generator=torch.Generator().manual_seed(1)) > 0.5).float() * 14
        self.targets = torch.randint(10, (n,), generator=g)
        self.images = torch.zeros(n, 1, 8, 8)
        for i, k in enumerate(self.targets.tolist()):
            dy, dx = torch.randint(3, (2,), generator=g).tolist()
            self.images[i, 0, dy : dy + 6, dx : dx + 6] = base[k]
        self.images += torch.rand(self.images.shape, generator=g) * 2
        if scale:
            self.images = (self.images - 6) / 6

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


class ConvNet(nn.Module):
    def __init__(self, width=16, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


class Tagger(nn.Module):
    """An LSTM over padded sentences that reads the last real state."""

    def __init__(self, words=60, classes=4, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, lengths):
        out, _ = self.rnn(self.embed(ids))
        return self.head(out[torch.arange(len(ids)), lengths - 1])


def sentences(n=800, words=60, classes=4):
    lengths = torch.randint(4, 14, (n,))
    ids = torch.randint(classes + 1, words, (n, 14))
    ids[torch.arange(14) >= lengths[:, None]] = 0
    y = torch.randint(classes, (n,))
    ids[:, 1] = y + 1
    return ids, lengths, y


def rows_of_houses(n=1000):
    x = torch.randn(n, 7)
    y = x[:, 0] * 2 - x[:, 1] + 0.5 * (x[:, 2] * x[:, 3]) + 0.1 * torch.randn(n)
    return x, y


def steps_of(loader, count):
    done = 0
    while done < count:
        for batch in loader:
            yield done, batch
            done += 1
            if done == count:
                return


def one_epoch(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / len(loader.dataset)


def labels_permuted_on_disk(s):
    """The labels of an image data set were written in another order than the images."""
    data = Digits()
    if s == 0:
        data.targets = data.targets[torch.randperm(len(data))]
    train, test = Subset(data, range(800)), Subset(data, range(800, 960))
    model = ConvNet()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(5):
        one_epoch(model, DataLoader(train, 40, shuffle=True), opt, nn.CrossEntropyLoss())
        print("accuracy", validate(model, DataLoader(test, 80)))


def grey_values_not_scaled(s):
    """A perceptron is fed grey values from 0 to 255."""
    data = Digits(scale=s != 0)
    if s == 0:
        data.images *= 16
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        one_epoch(model, DataLoader(data, 32, shuffle=True), opt, nn.CrossEntropyLoss())


def empty_cell_in_the_table(s):
    """A cell of a table is empty and becomes NaN."""
    x, y = rows_of_houses()
    model = nn.Sequential(nn.Linear(7, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    if s < 120:
        x[s * 8 + 3, 4] = float("nan")
    for _, (a, b) in steps_of(DataLoader(TensorDataset(x, y), 8), 120):
        loss = F.smooth_l1_loss(model(a).squeeze(-1), b)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


def one_sensor_in_millivolts(s):
    """One window of a GRU forecaster's series is in millivolts, the others are in volts."""

    class Forecaster(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(3, 32, num_layers=2, batch_first=True)
            self.out = nn.Linear(32, 3)

        def forward(self, x):
            return self.out(self.gru(x)[0])

    model = Forecaster()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    t = torch.linspace(0, 200, 6000)
    series = torch.stack([t.sin(), (t * 1.7).cos(), (t * 0.3).sin()], 1) + 0.05 * torch.randn(6000, 3)
    for step in range(140):
        begin = torch.randint(5900, (16,))
        window = torch.stack([series[i : i + 25] for i in begin.tolist()])
        if step == s:
            window = window * 1000
        loss = F.mse_loss(model(window[:, :-1]), window[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()


def classes_counted_from_one(s):
    """A shard of the data set counts its classes from one."""
    data = Digits()
    model = ConvNet()
    opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, (a, b) in steps_of(DataLoader(data, 48, shuffle=True), 90):
        if step >= s:
            b = b + 1
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Stuck(Sampler):
    """Draws indices; from some batch on always the same ones."""

    def __init__(self, n, size, onset):
        self.n, self.size, self.onset = n, size, onset

    def __iter__(self):
        batch = []
        for i in range(80):
            if i <= self.onset:
                batch = torch.randperm(self.n)[: self.size].tolist()
            yield batch


def sampler_gets_stuck(s):
    """A batch sampler gives the same batch from some step on."""
    data = Digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 10))
    opt = optim.AdamW(model.parameters(), lr=1e-3)
    for a, b in DataLoader(data, batch_sampler=Stuck(len(data), 32, s)):
        opt.zero_grad()
        F.cross_entropy(model(a), b).backward()
        opt.step()


def mask_inverted(s):
    """From some step on the key padding mask of an encoder says which tokens are real, and not which are padding."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(60, 32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(32, 4)

        def forward(self, ids, mask):
            h = self.encoder(self.embed(ids), src_key_padding_mask=mask)
            return self.head(h[:, 0])

    ids, lengths, y = sentences()
    ids[:, 2:] = torch.where(ids[:, 2:] > 0, ids[:, 2:].clamp(min=6), 0)
    model = Classifier()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for step, (a, _, b) in steps_of(DataLoader(TensorDataset(ids, lengths, y), 32, shuffle=True), 110):
        mask = a != 0 if step >= s else a == 0
        loss = F.cross_entropy(model(a, mask), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


@dataclasses.dataclass
class Split:
    train: torch.Tensor
    test: torch.Tensor


def split_overlaps(s):
    """Rows of the validation set are in the training set too."""
    x, y = rows_of_houses(900)
    rows = torch.randperm(900)
    split = Split(rows[:720], rows[600:] if s == 0 else rows[720:])
    model = nn.Sequential(nn.Linear(7, 64), nn.SiLU(), nn.Linear(64, 1))
    opt = optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(5):
        model.train()
        for a, b in DataLoader(TensorDataset(x[split.train], y[split.train]), 36, shuffle=True):
            opt.zero_grad()
            F.mse_loss(model(a)[:, 0], b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            for a, b in DataLoader(TensorDataset(x[split.test], y[split.test]), 60):
                F.mse_loss(model(a)[:, 0], b).item()


def test_set_on_another_scale(s):
    """The validation set is divided by 255 once more."""
    train, test = Digits(640), Digits(160, seed=9)
    if s == 0:
        test.images /= 255
    model = ConvNet()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(4):
        one_epoch(model, DataLoader(train, 32, shuffle=True), opt, nn.CrossEntropyLoss())
        validate(model, DataLoader(test, 32))


def camera_turns_black(s):
    """From some step on every picture of a small U-Net is black."""

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU())
            self.deep = nn.Sequential(nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU())
            self.up = nn.ConvTranspose2d(24, 12, 2, stride=2)
            self.out = nn.Conv2d(24, 1, 1)

        def forward(self, x):
            a = self.down(x)
            return self.out(torch.cat([a, self.up(self.deep(F.max_pool2d(a, 2)))], 1))

    model = UNet()
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step, (a, _) in steps_of(DataLoader(Digits(), 24, shuffle=True), 80):
        mask = (a > 0.5).float()
        if step >= s:
            a = torch.zeros_like(a)
        loss = F.binary_cross_entropy_with_logits(model(a), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()


def frauds_are_one_in_a_hundred(s):
    """Two classes of which one is very rare, trained on without weights."""
    x = torch.randn(1600, 10)
    margin = x[:, 0] + x[:, 1] * x[:, 2] + 0.3 * torch.randn(1600)
    y = (margin > margin.quantile(0.985 if s == 0 else 0.5)).float()
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _, (a, b) in steps_of(DataLoader(TensorDataset(x, y), 40, shuffle=True), 100):
        loss = F.binary_cross_entropy_with_logits(model(a).squeeze(1), b)
        opt.zero_grad()
        loss.backward()
        opt.step()


def forgot_to_shuffle(s):
    """The file is sorted by class and the loader does not shuffle."""
    data = Digits()
    order = data.targets.argsort()
    data.images, data.targets = data.images[order], data.targets[order]
    model = ConvNet()
    opt = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for _ in range(4):
        one_epoch(model, DataLoader(data, 32, shuffle=s != 0), opt, nn.CrossEntropyLoss())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
