"""Training scripts of an opponent, third round: faults of data, model and numbers.

    python opponent_third_faults.py NAME [ONSET] [SEED]

Written from the catalogue alone. `s` is the step at which the fault begins; one that is there from the start is there
if `s` is 0.
"""

import argparse
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


def two_samples_in_the_last_batch(s):
    """The last batch of an epoch holds two noisy samples and moves the weights as much as the others."""
    n = 322 if s == 0 else 320
    x = torch.randn(n, 8)
    y = x[:, :1] * 2 + torch.randn(n, 1)
    net = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    fit(net, optim.SGD(net.parameters(), lr=0.05, momentum=0.9), loader, 110, F.mse_loss)


# --- model --------------------------------------------------------------------------------------------------------


class Branches(nn.Module):
    """A head for each task, kept in a plain dictionary."""

    def __init__(self, plain):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(11, 32), nn.ReLU())
        heads = {"quality": nn.Linear(32, 4), "colour": nn.Linear(32, 2)}
        self.heads = heads if plain else nn.ModuleDict(heads)

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


def heads_in_a_plain_dict(s):
    x, y = wines(640)
    model = Branches(plain=s == 0)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for _epoch in range(2):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True):
            out = model(a)
            loss = F.cross_entropy(out["quality"], b) + F.cross_entropy(out["colour"], b % 2)
            opt.zero_grad()
            loss.backward()
            opt.step()


class TinyGPT(nn.Module):
    """A causal transformer whose head has the weights of its embedding."""

    def __init__(self, vocab, d=32, layers=2, context=24):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(context, d)
        make = lambda: nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, F.gelu, batch_first=True, norm_first=True)  # noqa: E731
        self.blocks = nn.ModuleList(make() for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        nn.init.normal_(self.wte.weight, std=0.05)
        self.lm_head.weight = self.wte.weight
        self.all_at_zero = False

    def forward(self, ids):
        n = ids.shape[1]
        where = torch.zeros(n, dtype=torch.long) if self.all_at_zero else torch.arange(n)
        h = self.wte(ids) + self.wpe(where)
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        for block in self.blocks:
            h = block(h, src_mask=mask, is_causal=True)
        return self.lm_head(self.ln_f(h))


def prose():
    """The documentation of some modules, as numbers."""
    words = "".join(m.__doc__ or "" for m in (argparse, random, math, argparse.ArgumentParser, random.Random, nn.Linear))
    letters = sorted(set(words))
    return torch.tensor([letters.index(c) for c in words]), len(letters)


def excerpts(data, count, length):
    start = torch.randint(len(data) - length - 1, (count,)).tolist()
    return torch.stack([data[i : i + length] for i in start]), torch.stack([data[i + 1 : i + 1 + length] for i in start])


def train_gpt(model, opt, data, steps, before=lambda step: None):
    for step in range(steps):
        before(step)
        x, y = excerpts(data, 6, 20)
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


def group_without_decay_forgotten(s):
    """Matrices decay, vectors do not; the second group never gets into the list."""
    data, vocab = prose()
    model = TinyGPT(vocab)
    groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.1}]
    if s != 0:
        groups.append({"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0})
    train_gpt(model, optim.AdamW(groups, lr=2e-3), data, 50)


def vocabulary_grows(s):
    """New words are added to the embedding, in a new parameter of which the optimizer knows nothing."""
    data, vocab = prose()
    model = nn.Sequential(nn.Embedding(vocab, 24), nn.GRU(24, 40, batch_first=True))
    head = nn.Linear(40, vocab)
    opt = optim.Adam([*model.parameters(), *head.parameters()], lr=3e-3)
    for step in range(60):
        if step == s:
            larger = nn.Embedding(vocab + 10, 24)
            larger.weight.data[:vocab] = model[0].weight.data
            model[0] = larger
        x, y = excerpts(data, 8, 16)
        loss = F.cross_entropy(head(model(x)[0]).flatten(0, 1), y.flatten())
        opt.zero_grad()
        model.zero_grad()
        loss.backward()
        opt.step()


def tied_weights_replaced(s):
    """Somebody loads the head alone, which gives it weights of its own."""
    data, vocab = prose()
    model = TinyGPT(vocab)
    opt = optim.AdamW(model.parameters(), lr=2e-3)

    def before(step):
        if step == s:
            model.lm_head.weight = nn.Parameter(model.wte.weight.detach().clone())
            opt.add_param_group({"params": [model.lm_head.weight]})

    train_gpt(model, opt, data, 50, before)


def every_token_at_position_zero(s):
    """Positions are zeros_like where arange was meant: all rows but one stay as they were made."""
    data, vocab = prose()
    model = TinyGPT(vocab)
    model.all_at_zero = s == 0
    train_gpt(model, optim.AdamW(model.parameters(), lr=2e-3), data, 60)


class Quantised(nn.Module):
    """An autoencoder through a code book; the straight-through line may be missing."""

    def __init__(self, straight):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6))
        self.codes = nn.Parameter(torch.randn(24, 6) * 0.5)
        self.decoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16))
        self.straight = straight

    def forward(self, x):
        z = self.encoder(x)
        q = self.codes[torch.cdist(z, self.codes).argmin(1)]
        loss = F.mse_loss(q, z.detach())
        if self.straight:
            loss = loss + 0.25 * F.mse_loss(z, q.detach())
            q = z + (q - z).detach()
        return self.decoder(q), loss


def no_straight_through(s):
    """The choice of a code has no gradient, and nothing carries it past: the encoder learns nothing."""
    model = Quantised(straight=s != 0)
    opt = optim.Adam(model.parameters(), lr=2e-3)
    mix = torch.randn(5, 16)
    for _ in range(60):
        x = torch.randn(32, 5) @ mix
        out, book = model(x)
        loss = F.mse_loss(out, x) + book
        opt.zero_grad()
        loss.backward()
        opt.step()


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 16))
        self.compare = nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 1))
        self.cache = {}

    def forward(self, a, b, cached=False):
        u, v = self.tower(a), self.tower(b)
        if cached:
            u, v = torch.tensor(u.tolist()), torch.tensor(v.tolist())
        return self.compare(torch.cat([(u - v).abs(), u * v], 1)).squeeze(1)


def embeddings_through_a_cache(s):
    """To save time embeddings go through a cache of plain lists: no gradient comes back to the towers."""
    x, y = wines(500)
    model = Siamese()
    opt = optim.Adam(model.parameters(), lr=2e-3)
    for step in range(60):
        i, j = torch.randint(500, (2, 32))
        loss = F.binary_cross_entropy_with_logits(model(x[i], x[j], step >= s), (y[i] == y[j]).float())
        opt.zero_grad()
        loss.backward()
        opt.step()


def deep_sigmoid_convolutions(s):
    layers = [nn.Conv2d(1, 6, 3, padding=1)]
    for _ in range(8):
        layers += [nn.Sigmoid() if s == 0 else nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))
    x, y = glyphs()
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    fit(model, optim.SGD(model.parameters(), lr=0.05), loader, 60)


def standard_normal_weights(s):
    """Weights of standard deviation one in a network of six layers."""
    layers = []
    for i, o in [(11, 96), (96, 96), (96, 96), (96, 96), (96, 96)]:
        layers += [nn.Linear(i, o), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(96, 4))
    if s == 0:
        for m in model:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight)
    x, y = wines()
    fit(model, optim.Adam(model.parameters(), lr=1e-3), DataLoader(TensorDataset(x, y), 32, shuffle=True), 50)


def amounts_into_tanh(s):
    """Amounts in cents go as they are into a layer of tanh."""
    x = torch.randn(800, 7)
    y = (x[:, 0] - x[:, 1]).unsqueeze(1)
    scale = 25_000.0 if s == 0 else 1.0
    model = nn.Sequential(nn.Linear(7, 40), nn.Tanh(), nn.Linear(40, 1))
    loader = DataLoader(TensorDataset(x * scale, y), batch_size=40, shuffle=True)
    fit(model, optim.Adam(model.parameters(), lr=1e-3), loader, 60, F.mse_loss)


def filters_of_one_constant(s):
    """All filters begin alike, with a constant, and so they stay."""
    model = ConvNet(norm=False)
    if s == 0:
        for m in model.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.constant_(m.weight, 0.05)
                nn.init.zeros_(m.bias)
    x, y = glyphs()
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    fit(model, optim.SGD(model.parameters(), lr=0.1, momentum=0.9), loader, 60)


def softmax_over_the_batch(s):
    """log_softmax along the samples in place of the classes."""
    x, y = wines()
    net = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 4), nn.LogSoftmax(dim=0 if s == 0 else 1))
    fit(net, optim.Adam(net.parameters(), lr=3e-3), DataLoader(TensorDataset(x, y), 32, shuffle=True), 80, nn.NLLLoss())


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(16, 32)
        self.mu, self.log_var = nn.Linear(32, 4), nn.Linear(32, 4)
        self.dec = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        h = F.relu(self.enc(x))
        mu, log_var = self.mu(h), self.log_var(h)
        return self.dec(mu + torch.randn_like(mu) * (0.5 * log_var).exp()), mu, log_var


def divergence_subtracted(s):
    """Reconstruction minus divergence in place of plus: the further from the prior the better."""
    model = Variational()
    opt = optim.Adam(model.parameters(), lr=5e-3)
    mix = torch.randn(4, 16)
    sign = -1 if s == 0 else 1
    for _ in range(200):
        x = torch.randn(32, 4) @ mix
        out, mu, log_var = model(x)
        divergence = -0.5 * (1 + log_var - mu.square() - log_var.exp()).sum(1).mean()
        loss = F.mse_loss(out, x, reduction="sum") / len(x) + sign * divergence
        opt.zero_grad()
        loss.backward()
        opt.step()


def column_of_new_source(s):
    """A second source of data gives its targets as a column; the loss makes a square of them."""
    x = torch.randn(1200, 6)
    y = x[:, 0] * 2 - x[:, 1] + 0.1 * torch.randn(1200)
    model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 1))
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        a, b = x[step * 20 : step * 20 + 20], y[step * 20 : step * 20 + 20]
        target = b.unsqueeze(1) if step >= s else b
        loss = F.huber_loss(model(a).squeeze(1), target)
        opt.zero_grad()
        loss.backward()
        opt.step()


def statistics_that_do_not_move(s):
    """momentum=0 was meant to switch averaging off; it switches the statistics off."""
    model = ConvNet()
    if s == 0:
        for m in model.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.momentum = 0.0
    x, y = glyphs()
    opt = optim.Adam(model.parameters(), lr=3e-3)
    for _epoch in range(3):
        model.train()
        for a, b in DataLoader(TensorDataset(x[:400], y[:400]), batch_size=20, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            F.cross_entropy(model(x[400:]), y[400:]).item()


def both_sides_get_gradients(s):
    """Two views are to be alike; nothing stops the gradient, so everything becomes alike."""
    encoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    guess = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
    opt = optim.SGD([*encoder.parameters(), *guess.parameters()], lr=0.1, momentum=0.9)
    base = torch.randn(600, 16)
    for _ in range(120):
        x = base[torch.randint(600, (64,))]
        a, b = encoder(x + 0.2 * torch.randn_like(x)), encoder(x + 0.2 * torch.randn_like(x))
        if s == 0:
            loss = F.mse_loss(a, b)
        else:
            loss = -F.cosine_similarity(guess(a), b.detach()).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Stack(nn.Module):
    """Residual layers, of which the last is left out by a slice."""

    def __init__(self, short):
        super().__init__()
        self.inp = nn.Linear(11, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.out = nn.Linear(32, 4)
        self.end = -1 if short else None

    def forward(self, x):
        h = self.inp(x)
        for layer in self.layers[: self.end]:
            h = h + F.silu(layer(h))
        return self.out(h)


def last_layer_sliced_off(s):
    x, y = wines()
    model = Stack(short=s == 0)
    fit(model, optim.Adam(model.parameters(), lr=2e-3), DataLoader(TensorDataset(x, y), 30, shuffle=True), 50)


# --- numbers ------------------------------------------------------------------------------------------------------


def angle_between_equal_vectors(s):
    """The angle by acos: where prediction and truth agree exactly its slope is infinite."""
    net = nn.Linear(4, 4, bias=False)
    opt = optim.Adam(net.parameters(), lr=2e-3)
    for step in range(60):
        x = F.normalize(torch.randn(16, 4), dim=1)
        truth = F.normalize(x.roll(1, dims=1) + 0.1 * torch.randn(16, 4), dim=1)
        p = F.normalize(net(x), dim=1)
        cosine = (p * truth).sum(1) * 0.999
        if step == s:
            cosine = torch.cat([cosine[:-1], (p[-1:] * p[-1:].detach()).sum(1).clamp(1.0, 1.0)])
        loss = cosine.acos().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def gamma_of_black(s):
    """A gamma curve with a straight foot: its power is taken of black pixels too, and thrown away."""
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1), nn.ReLU())
    with torch.no_grad():
        net[2].bias.fill_(1.0)
    opt = optim.Adam(net.parameters(), lr=1e-3)
    x, _ = glyphs(480)
    for step in range(60):
        a = x[step * 8 : step * 8 + 8]
        light = net(a)
        light = light + 0.05 if step < s else light * (torch.rand_like(light) > 0.02)
        curve = torch.where(light > 0.0031308, 1.055 * light.pow(1 / 2.4) - 0.055, 12.92 * light)
        loss = F.mse_loss(curve, a)
        opt.zero_grad()
        loss.backward()
        opt.step()


def weights_by_counts(s):
    """Each class weighs the inverse of its count in the batch, and one class is absent."""
    x, y = wines(1200, classes=3)
    net = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.SGD(net.parameters(), lr=0.05)
    common = (y != 2).nonzero()[:, 0]
    for step in range(60):
        pick = common[torch.randint(len(common), (24,))] if step == s else torch.randint(1200, (24,))
        if step != s:
            pick[:3] = torch.stack([(y == c).nonzero()[0, 0] for c in range(3)])
        target = F.one_hot(y[pick], 3).float()
        weight = len(pick) / target.sum(0)
        losses = -(F.log_softmax(net(x[pick]), 1) * target * weight).sum(1)
        loss = losses.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def divergence_by_hand(s):
    """Distillation by p log(p / q): from some step on a teacher is so sure that its p has an exact zero."""
    x, _ = wines(1200)
    teacher = nn.Linear(11, 4).requires_grad_(False)
    student = nn.Sequential(nn.Linear(11, 48), nn.ReLU(), nn.Linear(48, 4))
    opt = optim.Adam(student.parameters(), lr=2e-3)
    for step in range(60):
        a = x[step * 20 : step * 20 + 20]
        p = F.softmax(teacher(a) * (400.0 if step >= s else 1.0), dim=1)
        q = F.softmax(student(a), dim=1)
        loss = (p * (p / q).log()).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


class Length(nn.Module):
    """Length of each row."""

    def forward(self, h):
        return (h * h).sum(1, keepdim=True).sqrt().clamp(min=1e-3)


class HalfPrecision(nn.Module):
    """Half precision inside; each row is divided by its length at the end."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 64)
        self.energy = nn.Linear(64, 64)
        self.length = Length()
        self.out = nn.Linear(64, 3)

    def forward(self, x):
        h = self.energy(F.relu(self.a(x)))
        return self.out(h / self.length(h))


def louder_recording(s):
    """A louder signal makes a sum of squares in half precision infinite; nothing becomes NaN."""
    model = HalfPrecision().half()
    opt = optim.SGD(model.parameters(), lr=0.01)
    for step in range(50):
        y = torch.randint(3, (16,))
        x = torch.randn(16, 16) + y[:, None]
        x = x * (400 if step >= s else 1)
        loss = F.cross_entropy(model(x.half()).float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def clips_what_is_still_scaled(s):
    """Clipping to one without unscale_: the scaled gradients are cut to nothing."""
    model = ConvNet(norm=False)
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
    x, y = glyphs()
    for _, (a, b) in zip(range(50), endless(DataLoader(TensorDataset(x, y), 24, shuffle=True)), strict=False):
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(a), b)
        scaler.scale(loss).backward()
        if s != 0:
            scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()


def weights_in_bfloat16(s):
    """All weights in bfloat16, and steps too small for its eight bits."""
    data, vocab = prose()
    model = TinyGPT(vocab)
    if s == 0:
        model = model.bfloat16()
    opt = optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(40):
        x, y = excerpts(data, 6, 20)
        logits = model.lm_head(model.ln_f(model.wte(x) + model.wpe(torch.arange(20))))
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


def a_bit_flips(s):
    """One element of one weight becomes enormous between two steps, and nobody asked for it."""
    model = ConvNet()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    x, y = glyphs(960)
    for step in range(60):
        if step == s:
            with torch.no_grad():
                flat = model.conv2.weight.view(-1)
                flat[17] = flat[17] * 2.0**48
        opt.zero_grad()
        F.cross_entropy(model(x[step * 16 : step * 16 + 16]), y[step * 16 : step * 16 + 16]).backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
