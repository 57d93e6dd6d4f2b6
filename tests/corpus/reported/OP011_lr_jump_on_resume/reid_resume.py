import math
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LRScheduler

torch.set_num_threads(1)
IDS = 12


class DelayedCosineAnnealingLR(LRScheduler):
    def __init__(self, optimizer, delay_iters, max_iters, eta_min=1e-5, last_epoch=-1):
        self.delay_iters, self.max_iters, self.eta_min = delay_iters, max_iters, eta_min
        self.annealing = False
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == self.delay_iters:
            self.annealing = True
        if not self.annealing:
            return list(self.base_lrs)
        t = (self.last_epoch - self.delay_iters) / (self.max_iters - self.delay_iters)
        return [self.eta_min + (lr - self.eta_min) * (1 + math.cos(math.pi * t)) / 2 for lr in self.base_lrs]


class ReidNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
        self.bnneck = nn.BatchNorm1d(32)
        self.classifier = nn.Linear(32, IDS, bias=False)

    def forward(self, x):
        return self.classifier(self.bnneck(self.backbone(x)))


def make_crops(n, seed):
    g = torch.Generator().manual_seed(seed)
    protos = torch.randn(IDS, 32, generator=torch.Generator().manual_seed(55))
    y = torch.randint(0, IDS, (n,), generator=g)
    return 0.6 * protos[y] + 0.9 * torch.randn(n, 32, generator=g), y


class DefaultTrainer:
    def __init__(self, output_dir, max_iters=300, delay_iters=80, base_lr=0.02):
        self.path = os.path.join(output_dir, "model.pth")
        self.max_iters, self.delay_iters = max_iters, delay_iters
        self.model = ReidNet()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=base_lr, momentum=0.9, weight_decay=5e-4)
        self.start_iter = 0
        self.scheduler = None

    def resume_or_load(self, resume):
        last = -1
        if resume:
            ckpt = torch.load(self.path)
            self.model.load_state_dict(ckpt["model"])
            self.optimizer.load_state_dict(ckpt["optimizer"])
            self.start_iter = ckpt["iteration"]
            last = self.start_iter - 1
        self.scheduler = DelayedCosineAnnealingLR(self.optimizer, self.delay_iters, self.max_iters, last_epoch=last)

    def train(self, data, valid, stop_iter):
        x, y = data
        for it in range(self.start_iter, stop_iter):
            self.model.train()
            idx = torch.randint(0, len(x), (48,))
            loss = F.cross_entropy(self.model(x[idx]), y[idx])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            if (it + 1) % 30 == 0:
                self.model.eval()
                with torch.no_grad():
                    val = F.cross_entropy(self.model(valid[0]), valid[1]).item()
                print(f"iter {it + 1} loss {loss.item():.4f} valid {val:.4f} lr {self.optimizer.param_groups[0]['lr']:.5f}")
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "iteration": stop_iter}, self.path)


def main():
    torch.manual_seed(1)
    train_set, valid_set = make_crops(3000, 1), make_crops(400, 2)
    with tempfile.TemporaryDirectory() as out:
        trainer = DefaultTrainer(out)
        trainer.resume_or_load(resume=False)
        trainer.train(train_set, valid_set, stop_iter=150)
        trainer = DefaultTrainer(out)
        trainer.resume_or_load(resume=True)
        trainer.train(train_set, valid_set, stop_iter=300)


if __name__ == "__main__":
    main()
