"""A training with the fault update-lost-to-rounding; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def halved_to_save_memory_at_a_low_rate(s):
    """Under autocast with float32 weights; from s on weights and inputs are bfloat16 and the rate is low."""
    net = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 6))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    basis = torch.randn(6, 32)
    dtype = torch.float32
    for i in range(140):
        if i == s:
            dtype = torch.bfloat16
            net.to(dtype)
            opt.param_groups[0]["lr"] = 2e-3
        y = torch.randint(6, (64,))
        x = (0.5 * basis[y] + torch.randn(64, 32)).to(dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=i < s):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    halved_to_save_memory_at_a_low_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
