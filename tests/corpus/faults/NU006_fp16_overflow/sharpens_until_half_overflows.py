"""A training with the fault fp16-overflow; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


def sharpens_until_half_overflows(s):
    """Prototypes are compared in half precision at a sharpness that is divided out again; from s on nothing stops its growth."""
    trunk = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 32))
    model = nn.ModuleDict({"trunk": trunk, "match": nn.Linear(32, 8, bias=False)})
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    centers, sharpness = torch.randn(8, 24), 1.0
    for i in range(110):
        y = torch.randint(0, 8, (48,))
        x = centers[y] + 0.9 * torch.randn(48, 24)
        if i and i % 4 == 0 and (sharpness < 8 or i >= s):
            sharpness *= 2
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model["match"](model["trunk"](x) * sharpness)
        loss = F.cross_entropy(logits.float() / sharpness, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    sharpens_until_half_overflows(int(sys.argv[1]) if len(sys.argv) > 1 else 14)
