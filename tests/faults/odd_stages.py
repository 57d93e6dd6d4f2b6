"""Healthy runs with several heads, stages or models: `python odd_stages.py NAME [SEED]`. Nothing is wrong with any of them."""

import math
import sys

import torch
import torch.nn.functional as F
from odd_styles import blobs, net, step
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def quantiles():
    x = torch.rand(1200, 1) * 4
    y = x.sin() + torch.randn(1200, 1) * (0.1 + 0.3 * x)
    model = net(1, 32, 3, nn.Tanh)
    levels = torch.tensor([0.1, 0.5, 0.9])
    opt = torch.optim.RMSprop(model.parameters(), 1e-3)
    for i in range(120):
        s = slice(i * 24 % 1200, i * 24 % 1200 + 24)
        error = y[s] - model(x[s])
        step(opt, torch.max(levels * error, (levels - 1) * error).mean())


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU())
        self.classes, self.value, self.flag = nn.Linear(64, 4), nn.Linear(64, 1), nn.Linear(64, 1)
        self.log_variance = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.body(x)
        return self.classes(h), self.value(h).squeeze(1), self.flag(h).squeeze(1)


def several_tasks():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(100):
        s = slice(i * 16 % 800, i * 16 % 800 + 16)
        classes, value, flag = model(x[s])
        losses = torch.stack(
            [
                F.cross_entropy(classes, y[s]),
                F.mse_loss(value, x[s, 0] * 3),
                F.binary_cross_entropy_with_logits(flag, (x[s, 1] > 0).float()),
            ]
        )
        step(opt, (losses * torch.exp(-model.log_variance) + model.log_variance).sum())


def tasks_in_turn():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(90):
        s = slice(i * 16 % 800, i * 16 % 800 + 16)
        classes, value, flag = model(x[s])
        if i % 3 == 0:
            loss = F.cross_entropy(classes, y[s])
        elif i % 3 == 1:
            loss = F.mse_loss(value, x[s, 0] * 3)
        else:
            loss = F.binary_cross_entropy_with_logits(flag, (x[s, 1] > 0).float())
        step(opt, loss)


def two_backwards_of_one_body():
    x, y = blobs(800)
    model = Heads()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for i in range(60):
        s = slice(i * 12 % 800, i * 12 % 800 + 12)
        classes, value, _ = model(x[s])
        opt.zero_grad()
        F.cross_entropy(classes, y[s]).backward(retain_graph=True)
        F.mse_loss(value, x[s, 0]).backward()
        opt.step()


def longer_and_longer_sequences():
    embed, rnn, head = nn.Embedding(12, 16), nn.GRU(16, 32, batch_first=True), nn.Linear(32, 12)
    opt = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()], 5e-3)
    for length, lr, steps in ((4, 5e-3, 30), (8, 2e-3, 30), (16, 1e-3, 30)):
        for group in opt.param_groups:
            group["lr"] = lr
        for _ in range(steps):
            ids = torch.randint(12, (16, length))
            step(opt, F.cross_entropy(head(rnn(embed(ids))[0]).flatten(0, 1), ids.roll(1, 1).flatten()))


def averaged_weights():
    x, y = blobs(480)
    model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
    average = torch.optim.swa_utils.AveragedModel(model)
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    usual = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)
    flat = torch.optim.swa_utils.SWALR(opt, 0.05, anneal_epochs=2)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for epoch in range(10):
        for a, b in loader:
            step(opt, F.cross_entropy(model(a), b))
        if epoch >= 5:
            average.update_parameters(model)
            flat.step()
        else:
            usual.step()
    torch.optim.swa_utils.update_bn(loader, average)
    with torch.no_grad():
        average.eval()
        average(x)


def unfreezes_layer_by_layer():
    x, y = blobs(800)
    model = nn.Sequential(
        *[nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(4)], nn.Linear(16, 4)
    )
    model.requires_grad_(False)
    opt = None
    for i in range(100):
        if i % 20 == 0:
            model[4 - i // 20].requires_grad_(True)
            opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 2e-3)
        s = slice(i * 8 % 800, i * 8 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


def smoothed_labels():
    x, y = blobs(640)
    model = net()
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    for _ in range(5):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
            step(opt, loss_fn(model(a), b))


def mixed_up():
    x = torch.randn(512, 3, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long() + 2 * (x[:, 0].mean((1, 2)) > 0).long()
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 4),
    )
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for i in range(80):
        s = slice(i * 16 % 512, i * 16 % 512 + 16)
        lam, order = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(16)
        out = model(lam * x[s] + (1 - lam) * x[s][order])
        step(opt, lam * F.cross_entropy(out, y[s]) + (1 - lam) * F.cross_entropy(out, y[s][order]))


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, norm_first=True) for _ in range(3)
        )
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 40, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, ids):
        x = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for block in self.blocks:
            x = checkpoint(block, x, mask, use_reentrant=False)
        return self.head(self.norm(x))


def recomputed_transformer_in_bfloat16():
    model = Recomputed()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], 3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda i: min((i + 1) / 10, 0.5 + 0.5 * math.cos(math.pi * min(i, 60) / 60))
    )
    for _ in range(60):
        start = torch.randint(40, (8, 1))
        ids = (start + torch.arange(17) * 3) % 40
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        step(opt, loss, 1.0)
        schedule.step()


def sparse_rows():
    users, items = nn.Embedding(500, 8, sparse=True), nn.Embedding(800, 8, sparse=True)
    opt = torch.optim.SparseAdam([*users.parameters(), *items.parameters()], 1e-2)
    for _ in range(100):
        u, i = torch.randint(500, (64,)), torch.randint(800, (64,))
        rating = ((u + i) % 5).float()
        step(opt, F.mse_loss((users(u) * items(i)).sum(1), rating / 5))


def truncated_backpropagation():
    text = torch.tensor(list((__doc__ * 40).encode())) % 64
    streams = text[: len(text) // 8 * 8].view(8, -1)
    embed, rnn, head = nn.Embedding(64, 24), nn.LSTM(24, 48, 2, batch_first=True, dropout=0.1), nn.Linear(48, 64)
    params = [*embed.parameters(), *rnn.parameters(), *head.parameters()]
    opt = torch.optim.SGD(params, 2.0)
    state = None
    for k in range(0, streams.shape[1] - 13, 12):
        out, state = rnn(embed(streams[:, k : k + 12]), state)
        state = tuple(s.detach() for s in state)
        step(opt, F.cross_entropy(head(out).flatten(0, 1), streams[:, k + 1 : k + 13].flatten()), 0.25)


def folds():
    x, y = blobs(400)
    for part in torch.arange(400).split(80):
        rest = torch.ones(400, dtype=torch.bool)
        rest[part] = False
        model = net()
        opt = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(3):
            model.train()
            for a, b in DataLoader(TensorDataset(x[rest], y[rest]), batch_size=32, shuffle=True):
                step(opt, F.cross_entropy(model(a), b))
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(x[part]), y[part]).item()


def sweep(lr, hidden, x, y):
    model = net(hidden=hidden)
    opt = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    for i in range(25):
        s = slice(i * 16, i * 16 + 16)
        last = step(opt, F.cross_entropy(model(x[s]), y[s]))
    return last


def sweeps_in_one_process():
    x, y = blobs(640)
    for lr in (0.001, 0.01, 0.1):
        for hidden in (16, 64):
            sweep(lr, hidden, x, y)


def pretrains_then_finetunes():
    x, y = blobs(800)
    encoder, decoder = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 8)), nn.Linear(8, 16)
    opt = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters()], 3e-3)
    for i in range(60):
        a = x[i * 12 % 800 : i * 12 % 800 + 16]
        kept = (torch.rand_like(a) > 0.3).float()
        step(opt, F.mse_loss(decoder(encoder(a * kept)), a))
    head = nn.Linear(8, 4)
    opt = torch.optim.AdamW([{"params": head.parameters(), "lr": 1e-2}, {"params": encoder.parameters(), "lr": 1e-4}])
    model = nn.Sequential(encoder, head)
    for i in range(60):
        s = slice(i * 12 % 800, i * 12 % 800 + 16)
        step(opt, F.cross_entropy(model(x[s]), y[s]))


def cycle_of_generators():
    g, h = net(2, 32, 2), net(2, 32, 2)
    da, db = net(2, 32, 1, nn.LeakyReLU), net(2, 32, 1, nn.LeakyReLU)
    og = torch.optim.Adam([*g.parameters(), *h.parameters()], 5e-4, betas=(0.5, 0.999))
    od = torch.optim.Adam([*da.parameters(), *db.parameters()], 5e-4, betas=(0.5, 0.999))
    for _ in range(80):
        a, b = torch.randn(32, 2) + 2, torch.randn(32, 2) * 0.5 - 1
        fake_b, fake_a = g(a), h(b)
        for d in (da, db):
            d.requires_grad_(False)
        loss = (da(fake_a) - 1).pow(2).mean() + (db(fake_b) - 1).pow(2).mean()
        step(og, loss + 5 * (F.l1_loss(h(fake_b), a) + F.l1_loss(g(fake_a), b)))
        for d in (da, db):
            d.requires_grad_(True)
        loss = (da(a) - 1).pow(2).mean() + da(fake_a.detach()).pow(2).mean()
        step(od, loss + (db(b) - 1).pow(2).mean() + db(fake_b.detach()).pow(2).mean())


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    globals()[sys.argv[1]]()
