import math

import torch
import torch.nn as nn
from torch.optim import Adam


class Task:
    def __init__(self, xc, yc, xt, yt):
        self.xc, self.yc, self.xt, self.yt = xc, yc, xt, yt


def sample_task(generator, n_context=20, n_target=30):
    """A smooth random field observed at a few stations."""
    n = n_context + n_target
    x = torch.rand(n, 1, generator=generator) * 4 - 2
    w = torch.randn(6, generator=generator) * torch.tensor([1.0, 0.8, 0.6, 0.4, 0.3, 0.2])
    phase = 2 * math.pi * torch.rand(6, generator=generator)
    k = torch.arange(1, 7) * 0.7
    y = (w * torch.sin(k * x + phase)).sum(-1, keepdim=True) + 0.05 * torch.randn(n, 1, generator=generator)
    return Task(x[:n_context], y[:n_context], x[n_context:], y[n_context:])


class AttentiveNP(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.key = nn.Sequential(nn.Linear(1, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.value = nn.Sequential(nn.Linear(2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.decoder = nn.Sequential(nn.Linear(dim + 1, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 2))
        self.scale = dim ** -0.5

    def forward(self, xc, yc, xt):
        k, q = self.key(xc), self.key(xt)
        v = self.value(torch.cat([xc, yc], dim=-1))
        att = torch.softmax(q @ k.transpose(1, 2) * self.scale, dim=-1)
        out = self.decoder(torch.cat([att @ v, xt], dim=-1))
        return out[..., :1], 0.05 + nn.functional.softplus(out[..., 1:])


def stack(tasks):
    return [torch.stack([getattr(t, n) for t in tasks]) for n in ("xc", "yc", "xt", "yt")]


def loss_fn(model, tasks):
    xc, yc, xt, yt = stack(tasks)
    mean, std = model(xc, yc, xt)
    return -torch.distributions.Normal(mean, std).log_prob(yt).mean()


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = Adam(model.parameters(), lr=lr)

    def __call__(self, tasks, batch_size=16):
        order = torch.randperm(len(tasks)).tolist()
        self.model.train()
        losses = []
        for i in range(0, len(order), batch_size):
            batch = [tasks[j] for j in order[i:i + batch_size]]
            self.opt.zero_grad()
            loss = loss_fn(self.model, batch)
            loss.backward()
            self.opt.step()
            losses.append(loss.item())
        return losses


def validate(model, tasks):
    model.eval()
    with torch.no_grad():
        return loss_fn(model, tasks).item()


def main():
    torch.manual_seed(42)
    g = torch.Generator().manual_seed(0)
    train_tasks = [sample_task(g) for _ in range(128)]
    val_tasks = [sample_task(g) for _ in range(64)]
    model = AttentiveNP()
    trainer = Trainer(model, lr=1e-3)
    for epoch in range(60):
        batch_losses = trainer(train_tasks)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1:3d} train {sum(batch_losses) / len(batch_losses):.4f} val {validate(model, val_tasks):.4f}")


if __name__ == "__main__":
    main()
