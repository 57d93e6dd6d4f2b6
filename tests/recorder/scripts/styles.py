"""Training loops of many styles: `python styles.py STYLE`. Knows nothing of firstfault.

Prints the losses and a checksum of the final weights as hexadecimal floats, so that two runs can be compared to the last bit,
and `steps N`: how many iterations the loop itself counted.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


def report(modules, losses, steps):
    for loss in losses:
        print(float(loss).hex())
    total = sum((p.detach().double() * (i + 1)).sum() for m in modules for i, p in enumerate(m.parameters()))
    buffers = sum(b.detach().double().sum() for m in modules for b in m.buffers())
    print("weights", float(total).hex(), float(buffers).hex())
    print("next random number", torch.rand(1).item().hex())
    print("steps", steps)


def digits(n=256, width=20, classes=4):
    x = torch.randn(n, width)
    return x, (x[:, :classes]).argmax(1)


def plain():
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        for a, b in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            losses.append(F.cross_entropy(model(x), y).item())
        model.train()
    report([model], losses, 12)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout2d(0.2)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = self.drop(self.act(self.norm(self.conv2(x))))
        return self.head(x.mean((2, 3)))


def cnn():
    x = torch.randn(96, 1, 14, 14)
    y = (x.mean((1, 2, 3)) * 20).long().clamp(-1, 2) + 1
    model = ConvNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for i in range(12):
        s = slice(i % 3 * 32, i % 3 * 32 + 32)
        loss = nn.CrossEntropyLoss()(model(x[s]), y[s])
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    report([model], losses, 12)


def accumulation():
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    losses = []
    for i, (a, b) in enumerate(DataLoader(TensorDataset(x, y), batch_size=16)):
        loss = F.cross_entropy(model(a), b) / 4
        loss.backward()
        losses.append(loss.item())
        if i % 4 == 3:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    report([model], losses, 4)


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        noise = torch.randn(10)
        return {"x": noise, "y": (noise**2).sum()}


def workers():
    model = nn.Sequential(nn.Linear(10, 16), nn.GELU(), nn.Linear(16, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        for batch in DataLoader(Squares(), batch_size=16, num_workers=2, shuffle=True):
            optimizer.zero_grad()
            loss = F.mse_loss(model(batch["x"]).squeeze(1), batch["y"])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    report([model], losses, 8)


def gan():
    real = torch.randn(200, 2) * 0.3 + 1
    g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    og, od = torch.optim.Adam(g.parameters(), 1e-3), torch.optim.Adam(d.parameters(), 1e-3)
    losses = []
    for i in range(10):
        batch = real[i * 20 : i * 20 + 20]
        fake = g(torch.randn(20, 4))
        od.zero_grad()
        loss_d = F.binary_cross_entropy_with_logits(d(batch), torch.ones(20, 1))
        loss_d.backward()
        loss_f = F.binary_cross_entropy_with_logits(d(fake.detach()), torch.zeros(20, 1))
        loss_f.backward()
        od.step()
        og.zero_grad()
        loss_g = F.binary_cross_entropy_with_logits(d(fake), torch.ones(20, 1))
        loss_g.backward()
        og.step()
        losses += [loss_d.item(), loss_g.item()]
    report([g, d], losses, 10)


def parametrized():
    """Weights that are computed when they are asked for: spectral norm goes on with its estimate at each time in train mode."""
    spectral, weight = nn.utils.parametrizations.spectral_norm, nn.utils.parametrizations.weight_norm
    model = nn.Sequential(
        spectral(nn.Embedding(10, 8)),
        nn.Flatten(),
        spectral(nn.Linear(40, 16), n_power_iterations=2),
        weight(nn.Linear(16, 16)),
        nn.ReLU(),
        nn.utils.spectral_norm(nn.Linear(16, 1)),
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for i in range(12):
        if i == 6:
            model.eval()
            with torch.no_grad():
                losses.append(model(torch.randint(10, (16, 5))).sum().item())
            model.train()
        tokens = torch.randint(10, (16, 5))
        loss = F.mse_loss(model(tokens)[:, 0], tokens.float().mean(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses += [buffer.double().sum().item() for buffer in model.buffers()]
    report([model], losses, 12)


def wasserstein():
    real = torch.randn(400, 2) * 0.3 + 1
    g, d = (
        nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)),
        nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1)),
    )
    og, od = torch.optim.RMSprop(g.parameters(), 1e-3), torch.optim.RMSprop(d.parameters(), 1e-3)
    losses = []
    for i in range(20):
        batch = real[i * 20 : i * 20 + 20]
        od.zero_grad()
        loss = d(g(torch.randn(20, 4)).detach()).mean() - d(batch).mean()
        loss.backward()
        od.step()
        losses.append(loss.item())
        if i % 5 == 0:
            og.zero_grad()
            loss = -d(g(torch.randn(20, 4))).mean()
            loss.backward()
            og.step()
    report([g, d], losses, 20)


def lbfgs():
    x = torch.randn(64, 5)
    y = x @ torch.randn(5, 1)
    model = nn.Linear(5, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    losses = []
    for _ in range(5):

        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
    report([model], losses, 5)


def scaler():
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scale = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=5)
    losses = []
    for i in range(20):
        a, b = x[i * 8 : i * 8 + 8], y[i * 8 : i * 8 + 8]
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.cross_entropy(model(a), b)
        scale.scale(loss).backward()
        scale.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scale.step(optimizer)
        scale.update()
        losses.append(loss.item())
    report([model], losses, 20)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 12, sparse=True)
        self.rnn = nn.LSTM(12, 16, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(16, 50)

    def forward(self, ids, *, labels):
        hidden, _ = self.rnn(self.embed(ids))
        logits = self.head(hidden)
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0), "logits": logits}


def recurrent():
    ids = torch.randint(50, (40, 9))
    model = Recurrent()
    dense = torch.optim.AdamW([p for n, p in model.named_parameters() if "embed" not in n], lr=1e-2)
    sparse = torch.optim.SparseAdam(list(model.embed.parameters()), lr=1e-2)
    losses = []
    for i in range(10):
        batch = ids[i * 4 : i * 4 + 4]
        out = model(ids=batch[:, :-1], labels=batch[:, 1:])
        out["loss"].backward()
        dense.step()
        sparse.step()
        model.zero_grad()
        losses.append(out["loss"].item())
    report([model], losses, 10)


def transformer():
    x = torch.randn(40, 7, 16)
    padding = torch.zeros(4, 7, dtype=torch.bool)
    padding[:, 5:] = True
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for i in range(10):
        optimizer.zero_grad()
        loss = model(x[i * 4 : i * 4 + 4], src_key_padding_mask=padding).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    report([model], losses, 10)


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.stem = nn.Linear(20, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.1), nn.SiLU()) for _ in range(3))
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.head(x)


def checkpointed():
    x, y = digits()
    models, losses = [Checkpointed(False), Checkpointed(True)], []
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[i * 32 : i * 32 + 32]), y[i * 32 : i * 32 + 32])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        del optimizer
    report(models, losses, 12)


def no_modules():
    w = torch.randn(5, 1, requires_grad=True)
    b = torch.zeros(1, requires_grad=True)
    x = torch.randn(64, 5)
    y = x @ torch.ones(5, 1)
    optimizer = torch.optim.SGD([w, b], lr=0.1)
    losses = []
    for _ in range(8):
        loss = ((x @ w + b - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(w.sum().item().hex())
    report([], losses, 8)


def double_backward():
    x = torch.randn(64, 3)
    d = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(d.parameters(), 1e-2)
    losses = []
    for i in range(8):
        batch = x[i * 8 : i * 8 + 8].clone().requires_grad_()
        score = d(batch)
        (slope,) = torch.autograd.grad(score.sum(), batch, create_graph=True)
        loss = score.mean() + 10 * (slope.norm(dim=1) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    report([d], losses, 8)


def step_in_backward():
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def hook(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    losses = []
    for i in range(8):
        loss = F.cross_entropy(model(x[i * 32 : i * 32 + 32]), y[i * 32 : i * 32 + 32])
        loss.backward()
        losses.append(loss.item())
    report([model], losses, 8)


def never_steps():
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for i in range(8):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[i * 32 : i * 32 + 32]), y[i * 32 : i * 32 + 32])
        loss.backward()
        losses.append(loss.item())
    report([model], losses, 8)


def zero_before_step():
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for i in range(8):
        loss = F.cross_entropy(model(x[i * 32 : i * 32 + 32]), y[i * 32 : i * 32 + 32])
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(loss.item())
    report([model], losses, 8)


def half_skipped():
    """The optimizer is left out in the second half."""
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for i in range(8):
        loss = F.cross_entropy(model(x[i * 32 : i * 32 + 32]), y[i * 32 : i * 32 + 32])
        optimizer.zero_grad()
        loss.backward()
        if i < 4:
            optimizer.step()
        losses.append(loss.item())
    report([model], losses, 8)


def by_hand():
    """No optimizer at all."""
    x, y = digits()
    model = nn.Linear(20, 4)
    losses = []
    for i in range(8):
        loss = F.cross_entropy(model(x[i * 32 : i * 32 + 32]), y[i * 32 : i * 32 + 32])
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
                p.grad = None
        losses.append(loss.item())
    report([model], losses, 8)


def gradients_returned():
    """torch.autograd.grad and updates by hand; a derivative with respect to the data now and then is none of the training's."""
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))
    losses = []
    for i in range(8):
        a, b = x[i * 32 : i * 32 + 32].clone().requires_grad_(), y[i * 32 : i * 32 + 32]
        loss = F.cross_entropy(model(a), b)
        if i % 3 == 0:
            losses.append(torch.autograd.grad(loss, a, retain_graph=True)[0].norm())
        with torch.no_grad():
            for p, g in zip(model.parameters(), torch.autograd.grad(loss, model.parameters()), strict=False):
                p.sub_(0.1 * g)
        losses.append(loss.item())
    report([model], losses, 8)


def bare_tensors():
    """Neither modules nor an optimizer; two passes for each update."""
    x, y = digits()
    hidden, out = torch.randn(20, 16) * 0.2, torch.randn(16, 4) * 0.2
    weights = [w.requires_grad_() for w in (hidden, out)]
    losses = []
    for i in range(8):
        loss = F.cross_entropy(torch.relu(x[i * 32 : i * 32 + 32] @ hidden) @ out, y[i * 32 : i * 32 + 32])
        (loss / 2).backward()
        if i % 2:
            with torch.no_grad():
                for w in weights:
                    w.sub_(0.1 * w.grad)
                    w.grad.zero_()
        losses.append(loss.item())
    losses += [w.detach().sum() for w in weights]
    report([], losses, 4)


def transformed():
    """torch.func: parameters in a dictionary, new ones at every step."""
    x, y = digits()
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))
    values = {name: p.detach().clone() for name, p in model.named_parameters()}

    def error(values, a, b):
        return F.cross_entropy(torch.func.functional_call(model, values, (a,)), b)

    losses = []
    for i in range(8):
        gradients, loss = torch.func.grad_and_value(error)(values, x[i * 32 : i * 32 + 32], y[i * 32 : i * 32 + 32])
        values = {name: value - 0.1 * gradients[name] for name, value in values.items()}
        losses.append(loss.item())
    losses += [value.sum() for value in values.values()]
    report([model], losses, 8)


def meta():
    """Weights that are to learn well: derivatives inside the loss, an optimizer outside."""
    x, y = digits()
    model = nn.Linear(20, 4)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for i in range(6):
        a, b = x[i * 32 : i * 32 + 32], y[i * 32 : i * 32 + 32]
        inner = torch.autograd.grad(F.cross_entropy(model(a), b), list(model.parameters()), create_graph=True)
        w, bias = (p - 0.1 * g for p, g in zip(model.parameters(), inner, strict=True))
        optimizer.zero_grad()
        loss = F.cross_entropy(F.linear(a, w, bias), b)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    report([model], losses, 6)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
