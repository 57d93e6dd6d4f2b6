import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class TrajectoryDataset(Dataset):
    """Expert paths stored task by task, as they were written by the planner."""

    def __init__(self, n_tasks=40, n_per_task=80, n_support=16, seed=0):
        g = torch.Generator().manual_seed(seed)
        t = torch.linspace(0, 1, n_support)[:, None]
        trajs, contexts = [], []
        for _ in range(n_tasks):
            start = torch.rand(2, generator=g) * 2 - 1
            goal = torch.rand(2, generator=g) * 2 - 1
            for _ in range(n_per_task):
                bend = 0.3 * torch.randn(2, generator=g)
                path = start * (1 - t) + goal * t + bend * torch.sin(math.pi * t)
                trajs.append(path)
                contexts.append(torch.cat([start, goal]))
        self.trajs = torch.stack(trajs)
        self.contexts = torch.stack(contexts)

    def __len__(self):
        return len(self.trajs)

    def __getitem__(self, i):
        return self.trajs[i], self.contexts[i]


class Denoiser(nn.Module):
    def __init__(self, n_support=16, hidden=192):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_support * 2 + 4 + 16, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, n_support * 2),
        )
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(50.0), 8)))

    def forward(self, x, t, context):
        ang = t[:, None] * self.freqs[None]
        emb = torch.cat([ang.sin(), ang.cos()], dim=-1)
        return self.net(torch.cat([x.flatten(1), context, emb], dim=-1)).view_as(x)


class GaussianDiffusion(nn.Module):
    def __init__(self, model, n_steps=25):
        super().__init__()
        self.model = model
        self.n_steps = n_steps
        betas = torch.linspace(1e-3, 0.25, n_steps)
        self.register_buffer("alphas_cumprod", torch.cumprod(1 - betas, 0))

    def loss(self, x, context):
        t = torch.randint(0, self.n_steps, (x.size(0),))
        a = self.alphas_cumprod[t][:, None, None]
        noise = torch.randn_like(x)
        x_noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        pred = self.model(x_noisy, t.float() / self.n_steps, context)
        return ((pred - noise) ** 2).mean()


def get_dataloaders(batch_size=64):
    train_dataset = TrajectoryDataset(seed=0)
    val_dataset = TrajectoryDataset(n_tasks=16, n_per_task=20, seed=1)
    train_dataloader = DataLoader(train_dataset, batch_size=batch_size, shuffle=True)
    val_dataloader = DataLoader(val_dataset, batch_size=batch_size)
    return train_dataloader, val_dataloader


def train(model, train_dataloader, val_dataloader, epochs=10, lr=1e-3):
    optim = torch.optim.Adam(model.parameters(), lr=lr)
    step = 0
    for epoch in range(epochs):
        model.train()
        for traj, context in train_dataloader:
            loss = model.loss(traj, context)
            optim.zero_grad()
            loss.backward()
            optim.step()
            if step % 50 == 0:
                print(f"step {step:4d} train loss {loss.item():.4f}")
            step += 1
        model.eval()
        with torch.no_grad():
            val = [model.loss(traj, context).item() for traj, context in val_dataloader]
        print(f"epoch {epoch} val loss {sum(val) / len(val):.4f}")


if __name__ == "__main__":
    torch.manual_seed(30)
    diffusion = GaussianDiffusion(Denoiser())
    train(diffusion, *get_dataloaders())
