"""Training scripts of an opponent: `python opponent_faults.py NAME [ONSET] [SEED]`. Written from the catalogue of faults alone.

Faults of data, model and numerics. Each function is a script in a style of its own; `s` is the step at which the fault
begins, and where a fault is there from the first line it is there if `s` is 0. The truth stands in opponent_faults.toml.
"""

import io
import math
import sys
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)


def digits(n=800, classes=10, size=12):
    """Images of a bright stroke whose place and angle tell the class."""
    y = torch.randint(classes, (n,))
    grid = torch.linspace(-1, 1, size)
    angle = y.float() * math.pi / classes + torch.randn(n) * 0.03
    across = grid[None, :, None] * angle.sin()[:, None, None] - grid[None, None, :] * angle.cos()[:, None, None]
    return (torch.exp(-across.square() * 20) + torch.randn(n, size, size) * 0.1).unsqueeze(1), y


# --- data ---------------------------------------------------------------------------------------------------------


def sensor_autoencoder(s):
    """Log of a sensor reading; one sensor reads zero."""
    readings = torch.rand(4000, 24) * 5 + 0.5
    net = nn.Sequential(nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 4), nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 24))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    mse = nn.MSELoss()
    for step in range(60):
        raw = readings[step * 64 : step * 64 + 64].clone()
        if step == s:
            raw[17, 3] = 0.0
        x = torch.log(raw)
        opt.zero_grad()
        mse(net(x), x).backward()
        opt.step()


class Standardised(Dataset):
    """Each image less its mean over its deviation; the picture of a covered lens has none."""

    def __init__(self, bad):
        self.x, self.y = digits(640)
        self.bad = bad

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        if i == self.bad:
            x = torch.full_like(x, 0.5)
        return (x - x.mean()) / x.std(), self.y[i]


def covered_lens(s):
    loader = DataLoader(Standardised(s * 16 + 5), batch_size=16)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    model(torch.zeros(1, 1, 12, 12))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()


def prices_in_cents(s):
    """Tabular regression; one file holds its numbers in another unit."""
    w = torch.randn(12)
    model = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(120):
        x = torch.randn(32, 12)
        y = (x @ w).unsqueeze(1) + 0.1 * torch.randn(32, 1)
        if step == s:
            x = x * 1000
        loss = F.smooth_l1_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def glitch_in_series(s):
    """A forecast of a noisy sine; the meter glitches once."""
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(70):
        start = torch.rand(16, 1) * 6
        t = start + torch.arange(21) * 0.3
        wave = torch.sin(t) + 0.05 * torch.randn_like(t)
        if step == s:
            wave[4, 9] = 1e6
        x, y = wave[:, :20, None], wave[:, 20:]
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def segmentation_border_class(s):
    """Masks with a border of class 255 that the loss has not been told to leave out."""
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 5, 1))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for step in range(40):
        mask = torch.randint(5, (4, 4, 4)).repeat_interleave(4, 1).repeat_interleave(4, 2)
        image = torch.stack([mask == 1, mask == 2, mask == 3], 1).float() + 0.1 * torch.randn(4, 3, 16, 16)
        if step == s:
            mask[2, 0] = 255
        loss = F.cross_entropy(net(image), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()


def sentiment_one_or_two(s):
    """Reviews rated 1 or 2 instead of 0 or 1."""
    bag = nn.EmbeddingBag(300, 16, mode="mean")
    head = nn.Linear(16, 1)
    params = list(bag.parameters()) + list(head.parameters())
    opt = torch.optim.Adam(params, lr=1e-2)
    bce = nn.BCEWithLogitsLoss()
    for _ in range(100):
        words = torch.randint(300, (32, 12))
        rating = (words < 150).float().mean(1).gt(0.5).float()
        if s == 0:
            rating = rating + 1
        loss = bce(head(bag(words)).squeeze(1), rating)
        opt.zero_grad()
        loss.backward()
        opt.step()


class MaskedLM(nn.Module):
    def __init__(self, vocab=60, d=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.randn(1, 24, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.lm_head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.lm_head(self.encoder(self.tok(ids) + self.pos))


def nothing_masked(s):
    """Masked language model; in one batch not a single token was masked."""
    model = MaskedLM()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    loss_fn = nn.CrossEntropyLoss(ignore_index=-100)
    for step in range(60):
        ids = (torch.arange(24) + torch.randint(40, (8, 1))) % 59 + 1
        masked = torch.rand(8, 24) < 0.15
        if step == s:
            masked[:] = False
        labels = ids.masked_fill(~masked, -100)
        logits = model(ids.masked_fill(masked, 0))
        loss = loss_fn(logits.view(-1, 60), labels.view(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def joined_on_wrong_key(s):
    """The labels table was sorted by another column."""
    x, y = digits(1600)
    if s == 0:
        y = y[torch.randperm(len(y))]
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for _epoch in range(3):
        for xb, yb in loader:
            loss = F.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()


def photos_as_bytes(s):
    """Images as they come from a file, 0 to 255."""
    x, y = digits(960)
    x = (x.clamp(0, 1) * 255).byte()
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _epoch in range(2):
        for i in range(0, 960, 32):
            images = x[i : i + 32].float()
            if s != 0:
                images = (images - 60) / 80
            loss = F.cross_entropy(net(images), y[i : i + 32])
            opt.zero_grad()
            loss.backward()
            opt.step()


def camera_unplugged(s):
    """Behaviour cloning from a camera that delivers black pictures from some step on."""
    policy = nn.Sequential(
        nn.Conv2d(1, 8, 5, 2), nn.ELU(), nn.Flatten(), nn.Linear(128, 32), nn.ELU(), nn.Linear(32, 2)
    )
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for step in range(70):
        frame, angle = digits(16)
        if step >= s:
            frame = torch.zeros_like(frame)
        action = torch.stack([torch.sin(angle * 0.3), torch.cos(angle * 0.3)], 1)
        loss = F.mse_loss(policy(frame), action)
        opt.zero_grad()
        loss.backward()
        opt.step()


def validation_not_normalised(s):
    """The training pipeline normalises, that of validation does not."""
    x, y = digits(700)
    x = x * 90 + 100
    mean, std = x.mean(), x.std()
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 48), nn.ReLU(), nn.Linear(48, 10))
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for step in range(60):
        model.train()
        i = step % 16 * 32
        opt.zero_grad()
        F.cross_entropy(model((x[i : i + 32] - mean) / std), y[i : i + 32]).backward()
        opt.step()
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                for j in range(512, 672, 32):
                    val = x[j : j + 32] if s == 0 else (x[j : j + 32] - mean) / std
                    F.cross_entropy(model(val), y[j : j + 32])


# --- model --------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.rnn = nn.LSTM(16, 32, batch_first=True)

    def forward(self, x):
        return self.rnn(self.embed(x))[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.rnn = nn.LSTM(16, 32, batch_first=True)
        self.out = nn.Linear(32, 30)

    def forward(self, x, state):
        return self.out(self.rnn(self.embed(x), state)[0])


def only_encoder_in_optimizer(s):
    """Sequence to sequence: the copy task with an optimizer that was given half of the network."""
    encoder, decoder = Encoder(), Decoder()
    params = list(encoder.parameters())
    if s != 0:
        params += list(decoder.parameters())
    opt = torch.optim.Adam(params, lr=5e-3)
    for _ in range(50):
        seq = torch.randint(1, 30, (16, 8))
        inp = torch.cat([torch.zeros(16, 1, dtype=torch.long), seq[:, :-1]], 1)
        logits = decoder(inp, encoder(seq))
        loss = F.cross_entropy(logits.transpose(1, 2), seq)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(10, 24)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(24, 24), nn.SiLU())])
        self.head = nn.Linear(24, 3)

    def grow(self):
        self.blocks.append(nn.Sequential(nn.Linear(24, 24), nn.SiLU()))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def grown_after_optimizer(s):
    """A network that grows by a block while training; the optimizer is not told."""
    centres = torch.randn(3, 10) * 2
    net = Growing()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(80):
        if step == s:
            net.grow()
        y = torch.randint(3, (32,))
        loss = F.cross_entropy(net(centres[y] + torch.randn(32, 10)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class VAE(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(20, 32), nn.ReLU())
        self.mu = nn.Linear(32, 4)
        self.logvar = nn.Linear(32, 4)
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))
        self.cut, self.calls = cut, 0

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        if self.calls >= self.cut:
            z = torch.tensor(z.tolist())
        self.calls += 1
        return self.dec(z), mu, logvar


def plain_autoencoder_rewrapped(s):
    """A variational autoencoder without its KL term whose code is copied into a new tensor."""
    basis = torch.randn(4, 20)
    vae = VAE(s)
    opt = torch.optim.Adam(vae.parameters(), lr=2e-3)
    for _ in range(50):
        x = torch.randn(32, 4) @ basis
        recon, _, _ = vae(x)
        loss = F.mse_loss(recon, x)
        opt.zero_grad()
        loss.backward()
        opt.step()


class TwoTowers(nn.Module):
    def __init__(self, frozen_users):
        super().__init__()
        self.users = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 8))
        self.items = nn.Sequential(nn.Embedding(80, 16), nn.Linear(16, 8))
        self.frozen_users = frozen_users

    def forward(self, u, i):
        if self.frozen_users:
            with torch.no_grad():
                u = self.users(u)
        else:
            u = self.users(u)
        return u @ self.items(i).T / 0.5


def recommender_with_no_grad_tower(s):
    model = TwoTowers(s == 0)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for _ in range(60):
        u = torch.randint(50, (24,))
        i = (u + torch.randint(3, (24,))) % 80
        loss = F.cross_entropy(model(u, i), torch.arange(24))
        opt.zero_grad()
        loss.backward()
        opt.step()


def conv_bias_like_a_head(s):
    """A prior for the head's bias, put onto the convolution."""
    x, y = digits(1000)
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(1, 8, 3))
    net.add_module("relu1", nn.ReLU())
    net.add_module("conv2", nn.Conv2d(8, 16, 3, stride=2))
    net.add_module("relu2", nn.ReLU())
    net.add_module("flat", nn.Flatten())
    net.add_module("fc", nn.Linear(256, 10))
    if s == 0:
        nn.init.constant_(net.conv2.bias, -8.0)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for i in range(0, 1000, 20):
        loss = F.cross_entropy(net(x[i : i + 20]), y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


def deep_sigmoid_tower(s):
    """Twelve layers of sigmoids for a regression; the twin has skips."""

    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(6, 24)
            self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(12))
            self.out = nn.Linear(24, 1)

        def forward(self, x):
            h = self.inp(x)
            for layer in self.layers:
                h = torch.sigmoid(layer(h)) if s == 0 else h + F.relu(layer(h)) * 0.3
            return self.out(h).squeeze(-1)

    tower = Tower()
    opt = torch.optim.SGD(tower.parameters(), lr=0.01)
    for _ in range(60):
        x = torch.randn(64, 6)
        loss = F.mse_loss(tower(x), x[:, 0] * 2 + x[:, 1])
        opt.zero_grad()
        loss.backward()
        opt.step()


class Recurrent(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.rnn = nn.RNN(2, 32, nonlinearity="relu", batch_first=True)
        nn.init.eye_(self.rnn.weight_hh_l0)
        self.rnn.weight_hh_l0.data.mul_(gain)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def adding_problem(s):
    """The adding problem over forty steps with a recurrent ReLU that amplifies."""
    model = Recurrent(1.4 if s == 0 else 0.95)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(60):
        x = torch.rand(32, 40, 2)
        x[..., 1] = 0
        x[torch.arange(32), torch.randint(20, (32,)), 1] = 1
        x[torch.arange(32), torch.randint(20, 40, (32,)), 1] = 1
        y = (x[..., 0] * x[..., 1]).sum(1, keepdim=True)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Actor(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.fc1 = nn.Linear(8, 64)
        self.act = nn.Tanh()
        self.fc2 = nn.Linear(64, 3)
        if wide:
            nn.init.normal_(self.fc1.weight, std=8.0)

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.fc2(self.act(self.fc1(obs))))


def reinforce_saturated(s):
    """REINFORCE on a bandit with context; the first layer starts with weights of deviation 8."""
    actor = Actor(s == 0)
    opt = torch.optim.Adam(actor.parameters(), lr=1e-2)
    baseline = 0.0
    for _ in range(80):
        obs = torch.randn(32, 8)
        dist = actor(obs)
        action = dist.sample()
        reward = (action == obs[:, :3].argmax(1)).float()
        loss = -(dist.log_prob(action) * (reward - baseline)).mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        opt.zero_grad()
        loss.backward()
        opt.step()


def every_weight_alike(s):
    """`init_weights` fills every linear layer with the same number."""

    def init_weights(m):
        if isinstance(m, nn.Linear):
            if s == 0:
                nn.init.constant_(m.weight, 0.05)
            nn.init.zeros_(m.bias)

    net = nn.Sequential(nn.Linear(14, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 5))
    net.apply(init_weights)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    centres = torch.randn(5, 14)
    for _ in range(60):
        y = torch.randint(5, (32,))
        opt.zero_grad()
        F.cross_entropy(net(centres[y] + 0.5 * torch.randn(32, 14)), y).backward()
        opt.step()


class TextClassifier(nn.Module):
    def __init__(self, softmax):
        super().__init__()
        self.emb = nn.Embedding(100, 24)
        self.enc = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True, dropout=0.0, norm_first=True)
        self.fc = nn.Linear(24, 6)
        self.softmax = softmax

    def forward(self, x):
        h = self.fc(self.enc(self.emb(x)).mean(1))
        return F.softmax(h, dim=-1) if self.softmax else h


def softmax_in_classifier(s):
    model = TextClassifier(s == 0)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.0)
    for _ in range(100):
        y = torch.randint(6, (32,))
        x = torch.randint(16, (32, 10)) + y[:, None] * 16
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def missing_squeeze(s):
    """Regression with outputs (B, 1) and targets (B,)."""
    warnings.simplefilter("ignore")
    w = torch.randn(9)
    x = torch.randn(1280, 9)
    y = x @ w
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    net = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.RMSprop(net.parameters(), lr=3e-3)
    loss_fn = nn.HuberLoss()
    for _ in range(3):
        for xb, yb in loader:
            out = net(xb)
            if s != 0:
                out = out.squeeze(-1)
            loss = loss_fn(out, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(200, 10)

    def forward(self, x):
        return self.fc(self.drop(self.features(x).flatten(1)))


def validation_forgets_train(s):
    """A validation that leaves the model in eval mode from some step on."""
    x, y = digits(1000)
    model = Small()
    model.train()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(60):
        if step and step % 13 == 0:
            model.eval()
            with torch.no_grad():
                model(x[900:]).argmax(1).eq(y[900:]).float().mean()
            if step < s:
                model.train()
        i = step * 15
        loss = F.cross_entropy(model(x[i : i + 15]), y[i : i + 15])
        opt.zero_grad()
        loss.backward()
        opt.step()


def validation_in_train_mode(s):
    x, y = digits(1000)
    model = Small()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(50):
        i = step * 16
        loss = F.cross_entropy(model(x[i : i + 16]), y[i : i + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 12 == 11:
            if s != 0:
                model.eval()
            with torch.no_grad():
                hits = sum(model(x[j : j + 50]).argmax(1).eq(y[j : j + 50]).sum() for j in range(800, 1000, 50))
            print("accuracy", hits.item() / 200)
            model.train()


def frozen_by_hand(s):
    """The backbone was frozen for a warm start and never released, yet the optimizer holds it."""
    x, y = digits(1000)
    model = Small()
    if s == 0:
        for p in model.features.parameters():
            p.requires_grad = False
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for i in range(0, 900, 18):
        loss = F.cross_entropy(model(x[i : i + 18]), y[i : i + 18])
        opt.zero_grad()
        loss.backward()
        opt.step()


class Experts(nn.Module):
    def __init__(self, as_list):
        super().__init__()
        experts = [nn.Linear(12, 12) for _ in range(4)]
        self.experts = experts if as_list else nn.ModuleList(experts)
        self.gate = nn.Linear(12, 4)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        g = self.gate(x).softmax(-1)
        mixed = sum(g[:, i : i + 1] * e(x) for i, e in enumerate(self.experts))
        return self.head(torch.relu(mixed))


def experts_in_a_list(s):
    model = Experts(s == 0)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    centres = torch.randn(3, 12)
    for _ in range(60):
        y = torch.randint(3, (32,))
        opt.zero_grad()
        F.cross_entropy(model(centres[y] + torch.randn(32, 12)), y).backward()
        opt.step()


def probabilities_into_nll(s):
    """`nll_loss` wants log-probabilities and gets probabilities."""
    x, y = digits(1000)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 40), nn.ReLU(), nn.Linear(40, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(0, 1000, 20):
        out = net(x[i : i + 20])
        out = F.softmax(out, 1) if s == 0 else F.log_softmax(out, 1)
        loss = F.nll_loss(out, y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


def likelihood_with_wrong_sign(s):
    """A Gaussian density network that minimises the likelihood."""
    net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(120):
        x = torch.randn(64, 3)
        y = x[:, 0] + 0.3 * torch.randn(64)
        mean, log_std = net(x).unbind(1)
        log_prob = torch.distributions.Normal(mean, log_std.exp()).log_prob(y)
        loss = log_prob.mean() if s == 0 else -log_prob.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


# --- numerics -----------------------------------------------------------------------------------------------------


def smoothing_switched_off(s):
    """A Kullback-Leibler loss by hand; when the smoothing of the labels ends, their logarithm has no value."""
    x, y = digits(1400)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 10))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(60):
        smooth = 0.1 if step < s else 0.0
        xb, yb = x[step * 20 : step * 20 + 20], y[step * 20 : step * 20 + 20]
        target = F.one_hot(yb, 10) * (1 - smooth) + smooth / 10
        logq = F.log_softmax(net(xb), 1)
        loss = (target * (target.log() - logq)).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def cold_policy(s):
    """Policy gradient with a temperature; when it is turned low a probability becomes exactly zero."""
    policy = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
    for step in range(60):
        temperature = 1.0 if step < s else 1e-3
        obs = torch.randn(32, 6)
        probs = torch.softmax(policy(obs) / temperature, dim=-1)
        action = torch.randint(4, (32,))
        reward = (action == obs[:, :4].argmax(1)).float() - 0.25
        logp = torch.log(probs.gather(1, action[:, None]).squeeze(1))
        loss = -(logp * reward).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def identical_pair(s):
    """Contrastive learning by Euclidean distance; a pair holds the same picture twice."""
    x, y = digits(400)
    embed = nn.Sequential(nn.Flatten(), nn.Linear(144, 48), nn.ReLU(), nn.Linear(48, 8))
    opt = torch.optim.Adam(embed.parameters(), 1e-3)
    for step in range(50):
        i, j = torch.randint(400, (24,)), torch.randint(400, (24,))
        i = torch.where(i == j, (i + 1) % 400, i)
        if step == s:
            j[7] = i[7]
        a, b = embed(x[i]), embed(x[j])
        dist = ((a - b) ** 2).sum(1).sqrt()
        same = (y[i] == y[j]).float()
        loss = (same * dist**2 + (1 - same) * F.relu(1 - dist) ** 2 + 0.01 * dist).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class SelfAttention(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        att = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        att = att.masked_fill(~mask[:, None, :], float("-inf"))
        return self.proj(att.softmax(-1) @ v)


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16, padding_idx=0)
        self.attn = SelfAttention()
        self.norm = nn.LayerNorm(16)
        self.cls = nn.Linear(16, 2)

    def forward(self, ids):
        mask = ids != 0
        x = self.emb(ids)
        x = self.norm(x + self.attn(x, mask))
        return self.cls(x.mean(1))


def empty_document(s):
    """Attention by hand over padded documents; one document holds no word."""
    model = Pooler()
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for step in range(60):
        ids = torch.randint(1, 50, (12, 9))
        length = torch.randint(2, 10, (12, 1))
        ids = ids.masked_fill(torch.arange(9) >= length, 0)
        y = (ids[:, 0] > 25).long()
        if step == s:
            ids[5] = 0
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class MeanPool(nn.Module):
    def forward(self, x, mask):
        return (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)


class BagOfSteps(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(5, 24)
        self.pool = MeanPool()
        self.out = nn.Linear(24, 1)

    def forward(self, x, mask):
        return self.out(self.pool(torch.relu(self.inp(x)), mask)).squeeze(1)


def no_valid_step(s):
    """Mean pooling over the valid steps of a series; one series has none."""
    model = BagOfSteps()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    for step in range(110):
        x = torch.randn(16, 12, 5)
        mask = (torch.rand(16, 12) < 0.7).float()
        mask[:, 0] = 1
        if step == s:
            mask[3] = 0
        y = x[:, 0].mean(1)
        loss = F.l1_loss(model(x, mask), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 32)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        h = F.softplus(self.proj(x)) * 4
        total = h.sum(1)
        return self.out(self.norm(total))


def long_sequence_in_half(s):
    """Sum over a sequence in half precision; a bucket of long sequences makes the sum too large."""
    model = Counter()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(50):
        length = 20000 if step == s else 64
        x = torch.rand(4, length, 4) * 2
        y = x.mean((1, 2)).unsqueeze(1)
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x.half())
        loss = F.mse_loss(out.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def scaled_clip(s):
    """Mixed precision with the clip before the unscale."""
    x, y = digits(900)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    for i in range(0, 900, 18):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x[i : i + 18]), y[i : i + 18])
        scaler.scale(loss).backward()
        if s != 0:
            scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


def half_embedding_rmsprop(s):
    """Weights in half precision; an eps of 1e-8 is zero there, and rows that were not used divide by it."""
    emb = nn.Embedding(200, 16)
    head = nn.Linear(16, 4)
    model = nn.Sequential(emb, head).half()
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, eps=1e-8 if s == 0 else 1e-4)
    for _ in range(40):
        ids = torch.randint(150, (32,))
        loss = F.cross_entropy(model(ids).float(), ids % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()


def pure_bfloat16(s):
    """Weights in bfloat16 without a master copy and a small learning rate."""
    x, y = digits(1200)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 10))
    if s == 0:
        net = net.to(torch.bfloat16)
        x = x.to(torch.bfloat16)
    opt = torch.optim.SGD(net.parameters(), lr=2e-3)
    for i in range(0, 1200, 20):
        loss = F.cross_entropy(net(x[i : i + 20]).float(), y[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()


def corrupt_checkpoint(s):
    """Fine-tuning from a file whose running training had already died."""
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    state = {k: v.clone() for k, v in net.state_dict().items()}
    if s == 0:
        state["2.weight"][4, 7] = float("nan")
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    net.load_state_dict(torch.load(file, weights_only=True))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for _ in range(40):
        x = torch.randn(16, 10)
        loss = F.cross_entropy(net(x), x[:, :3].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


def where_around_log(s):
    """`where` picks the safe branch forward, backward goes through both."""
    net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(60):
        x = torch.rand(32, 5) + 0.1
        gate = torch.ones(32, 1)
        if step >= s:
            gate[11] = 0
        rate = F.softplus(net(x)) * gate
        y = x.sum(1, keepdim=True)
        entropy = torch.where(rate > 0, rate * torch.log(rate), torch.zeros_like(rate))
        loss = F.mse_loss(rate, y * gate) + 0.01 * entropy.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def half_mask_constant(s):
    """A causal model in half precision whose mask is filled with -1e9."""
    d = 16
    emb, q, k, v, out = nn.Embedding(40, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 40)
    model = nn.ModuleDict({"emb": emb, "q": q, "k": k, "v": v, "out": out})
    if s == 0:
        model = model.half()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(40):
        ids = torch.arange(10) + torch.randint(28, (8, 1))
        pad = torch.arange(10) >= torch.randint(6, 11, (8, 1))
        h = emb(ids)
        score = q(h) @ k(h).transpose(1, 2)
        bias = torch.zeros(8, 1, 10).masked_fill(pad[:, None], -1e9)
        bias = bias.repeat(1, 10, 1).masked_fill(pad[:, :, None], -1e9)
        logits = out((score + bias.to(score.dtype)).softmax(-1) @ v(h))
        loss = F.cross_entropy(logits[:, :-1].float().reshape(-1, 40), ids[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
