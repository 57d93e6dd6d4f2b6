"""A healthy training that looks odd; argument: [SEED]."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def clouds(n=640, width=10, classes=4, noise=1.0):
    y = torch.randint(classes, (n,))
    return torch.randn(classes, width)[y] * 1.5 + noise * torch.randn(n, width), y


def plain(width=10, hidden=48, out=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, out))


def update(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()


class Momentum(nn.Module):
    """Contrastive learning with a queue of keys made by a slow copy of the encoder."""

    def __init__(self, width=10, d=16, size=256):
        super().__init__()
        self.query = plain(width, 48, d)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(size, d), dim=1))
        self.at = 0

    def forward(self, a, b):
        q = F.normalize(self.query(a), dim=1)
        with torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
            k = F.normalize(self.key(b), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().T], 1) / 0.07
        self.queue[self.at : self.at + len(k)] = k
        self.at = (self.at + len(k)) % len(self.queue)
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def contrast_with_a_queue():
    """All targets are zero by design, and the loss rises while the queue fills with harder keys."""
    x, _ = clouds(800)
    model = Momentum()
    opt = optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    for _ in range(100):
        a = x[torch.randint(800, (32,))]
        update(opt, model(a + 0.3 * torch.randn_like(a), a + 0.3 * torch.randn_like(a)))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    contrast_with_a_queue()
