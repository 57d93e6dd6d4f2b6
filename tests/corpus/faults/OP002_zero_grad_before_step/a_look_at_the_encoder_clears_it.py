"""A training with the fault zero-grad-before-step; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def a_look_at_the_encoder_clears_it(s):
    """From s on a probe that looks at the encoder's gradients before the step clears them when it has done."""
    net = nn.ModuleDict(
        {
            "encoder": nn.ModuleDict({"emb": nn.Embedding(12, 16), "rnn": nn.GRU(16, 48, batch_first=True)}),
            "emb": nn.Embedding(13, 16),
            "rnn": nn.GRU(16, 48, batch_first=True),
            "out": nn.Linear(48, 12),
        }
    )
    opt, seen = torch.optim.AdamW(net.parameters(), lr=6e-3, weight_decay=0.0), []
    for i in range(90):
        x = torch.randint(0, 12, (48, 5))
        y = x.flip(1)
        _, h = net["encoder"]["rnn"](net["encoder"]["emb"](x))
        out, _ = net["rnn"](net["emb"](torch.cat([torch.full((48, 1), 12), y[:, :-1]], 1)), h)
        opt.zero_grad()
        F.cross_entropy(net["out"](out).flatten(0, 1), y.flatten()).backward()
        if i >= s:
            seen.append(sum(float(p.grad.square().sum()) for p in net["encoder"].parameters()) ** 0.5)
            net["encoder"].zero_grad(set_to_none=False)
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()


if __name__ == "__main__":
    onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    a_look_at_the_encoder_clears_it(onset)
