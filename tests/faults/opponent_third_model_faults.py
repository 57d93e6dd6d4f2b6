"""Training scripts of an opponent, third round: faults of the model.

    python opponent_third_model_faults.py NAME [ONSET] [SEED]

As in opponent_third_faults.py: `s` is the step at which the fault begins; one that is there from the start is there if
`s` is 0.
"""

import argparse
import math
import random
import sys

import torch
import torch.nn.functional as F
from opponent_third_faults import ConvNet, fit, glyphs, wines
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


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
        mask = nn.Transformer.generate_square_subsequent_mask(n, dtype=h.dtype)
        for block in self.blocks:
            h = block(h, src_mask=mask, is_causal=True)
        return self.lm_head(self.ln_f(h))


def prose():
    """The documentation of some modules, as numbers."""
    words = "".join(
        m.__doc__ or "" for m in (argparse, random, math, argparse.ArgumentParser, random.Random, nn.Linear)
    )
    letters = sorted(set(words))
    return torch.tensor([letters.index(c) for c in words]), len(letters)


def excerpts(data, count, length):
    start = torch.randint(len(data) - length - 1, (count,)).tolist()
    return torch.stack([data[i : i + length] for i in start]), torch.stack(
        [data[i + 1 : i + 1 + length] for i in start]
    )


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
    opt = optim.Adam([*encoder.parameters(), *guess.parameters()], lr=1e-2)
    base = torch.randn(600, 16)
    for _ in range(200):
        x = base[torch.randint(600, (64,))]
        a, b = encoder(x + 0.2 * torch.randn_like(x)), encoder(x + 0.2 * torch.randn_like(x))
        loss = F.mse_loss(a, b) if s == 0 else -F.cosine_similarity(guess(a), b.detach()).mean()
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


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    globals()[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 12)
