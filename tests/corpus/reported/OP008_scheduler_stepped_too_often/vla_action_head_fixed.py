"""Action head training for a small vision-language-action model, with gradient accumulation."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_episodes(n, seed):
    g = torch.Generator().manual_seed(seed)
    obj = torch.rand(n, 3, 2, generator=g) * 2 - 1             # three objects, x/y
    instr = torch.randint(0, 3, (n,), generator=g)             # which object to reach
    arm = torch.rand(n, 2, generator=g) * 2 - 1
    goal = obj[torch.arange(n), instr]
    steps = torch.linspace(0.25, 1.0, 4)[None, :, None]
    chunk = (goal - arm)[:, None] * steps + 0.05 * torch.randn(n, 4, 2, generator=g)
    return TensorDataset(torch.cat([obj.flatten(1), arm], 1), instr, chunk)


class ActionModel(nn.Module):
    def __init__(self, dim=64, horizon=4):
        super().__init__()
        self.horizon = horizon
        self.vision = nn.Linear(8, dim)
        self.language = nn.Embedding(3, dim)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
                                    for _ in range(3))
        self.out = nn.Linear(dim, horizon * 2)

    def forward(self, obs, instr):
        h = self.vision(obs) * (1 + self.language(instr))
        for b in self.blocks:
            h = h + b(h)
        return self.out(h).view(-1, self.horizon, 2)


def get_cosine_with_min_lr(optimizer, num_warmup_steps, num_training_steps, min_lr_rate=0.05):
    def fn(step):
        if step < num_warmup_steps:
            return (step + 1) / num_warmup_steps
        progress = (step - num_warmup_steps) / max(1, num_training_steps - num_warmup_steps)
        factor = 0.5 * (1.0 + math.cos(math.pi * progress))
        return max(0.0, factor * (1 - min_lr_rate) + min_lr_rate)

    return LambdaLR(optimizer, fn)


class VLATrainer:
    def __init__(self, cfg, model):
        self.cfg, self.model = cfg, model
        self.train_loader = DataLoader(make_episodes(4096, 0), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
        self.val = make_episodes(512, 1).tensors
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
        self.lr_scheduler = get_cosine_with_min_lr(self.optimizer, cfg.warmup, cfg.max_train_steps)
        self.completed_steps = 0
        self.micro = 0

    def _train_step(self, batch):
        obs, instr, action = batch
        self.micro += 1
        sync_gradients = self.micro % self.cfg.gradient_accumulation_steps == 0
        loss = F.mse_loss(self.model(obs, instr), action)
        (loss / self.cfg.gradient_accumulation_steps).backward()
        if sync_gradients:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.completed_steps += 1
            self.lr_scheduler.step()
        return loss.item(), sync_gradients

    @torch.no_grad()
    def eval_action_model(self):
        self.model.eval()
        obs, instr, action = self.val
        mse = F.mse_loss(self.model(obs, instr), action).item()
        self.model.train()
        return mse

    def train(self):
        running = []
        while self.completed_steps < self.cfg.max_train_steps:
            for batch in self.train_loader:
                loss, synced = self._train_step(batch)
                running.append(loss)
                if synced and self.completed_steps % 50 == 0:
                    print(f"step {self.completed_steps:4d} | loss {sum(running) / len(running):.4f} | "
                          f"eval mse {self.eval_action_model():.4f}")
                    running = []
                if self.completed_steps >= self.cfg.max_train_steps:
                    break
        print("done")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--gradient_accumulation_steps", type=int, default=4)
    p.add_argument("--max_train_steps", type=int, default=350)
    p.add_argument("--warmup", type=int, default=20)
    cfg = p.parse_args()
    torch.manual_seed(0)
    VLATrainer(cfg, ActionModel()).train()
