"""A training with the fault update-lost-to-rounding; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def becomes_bfloat16_for_the_last_small_rate(s):
    """At s the rate falls to a hundredth; the model is cast as well."""
    table = torch.randn(40, 7)
    net = nn.Sequential(nn.Embedding(40, 16), nn.Flatten(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 7))
    opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    for i in range(90):
        if i == min(s, 30):
            opt.param_groups[0]["lr"] *= 0.005
            if i == s:
                net.to(torch.bfloat16)
        x = torch.randint(40, (64, 4))
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(x)
        loss = F.cross_entropy(logits.float(), table[x].sum(1).argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    becomes_bfloat16_for_the_last_small_rate(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
