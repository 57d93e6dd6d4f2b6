"""A training with the fault clip-before-unscale; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.n1, self.n2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return torch.relu(x + self.n2(self.b(torch.relu(self.n1(self.a(x))))))


def limits(parameters, ceiling):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.stack([g.float().norm() for g in grads]).norm()
    if total > ceiling:
        torch._foreach_mul_(grads, (ceiling / total).item())


def clips_by_hand_what_is_still_scaled(s):
    """From s on the script's own clipping comes before the gradients are divided."""
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        Residual(16),
        nn.MaxPool2d(2),
        Residual(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 6),
    )
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=500)
    kernels = torch.randn(6, 3, 8, 8)
    for i in range(90):
        y = torch.randint(0, 6, (24,))
        x = kernels[y] + torch.randn(24, 3, 8, 8)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        if i < s:
            scaler.unscale_(opt)
        limits(list(net.parameters()), 2.0)
        scaler.step(opt)
        scaler.update()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    clips_by_hand_what_is_still_scaled(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
