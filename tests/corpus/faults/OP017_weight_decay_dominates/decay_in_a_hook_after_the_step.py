"""A training with the fault weight-decay-dominates; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def decay_in_a_hook_after_the_step(s):
    """From s on a hook of the optimizer shrinks weights by 5 % of themselves, and does not multiply that by lr."""
    t = torch.arange(6000).float()
    series = torch.sin(t / 7) + 0.6 * torch.sin(t / 19 + 1) + 0.3 * torch.cos(t / 3.3) + 0.05 * torch.randn(6000)
    net = nn.Sequential(nn.Conv1d(1, 24, 5), nn.SiLU(), nn.Conv1d(24, 24, 5, dilation=4), nn.SiLU(), nn.Flatten())
    net.append(nn.Linear(24 * 28, 4))
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, alpha=0.95)
    done = 0

    def shrink(optimizer, args, kwargs):
        nonlocal done
        for group in optimizer.param_groups:
            rate = 0.05 if done >= s else 0.05 * group["lr"]
            for p in group["params"]:
                if p.ndim > 1:
                    p.data.mul_(1 - rate)
        done += 1

    opt.register_step_post_hook(shrink)
    for _ in range(100):
        i = torch.randint(0, 5900, (32,))
        x, y = (torch.stack([series[k + a : k + b] for k in i.tolist()]) for a, b in ((0, 48), (48, 52)))
        loss = F.smooth_l1_loss(net(x.unsqueeze(1)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    decay_in_a_hook_after_the_step(onset)
