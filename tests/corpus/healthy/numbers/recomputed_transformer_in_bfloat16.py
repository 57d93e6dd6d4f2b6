"""A healthy training that looks odd; argument: [SEED]."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)


def step(opt, loss, clip=None):
    opt.zero_grad()
    loss.backward()
    if clip:
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], clip)
    opt.step()
    return loss.item()


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, norm_first=True) for _ in range(3)
        )
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 40, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, ids):
        x = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for block in self.blocks:
            x = checkpoint(block, x, mask, use_reentrant=False)
        return self.head(self.norm(x))


def recomputed_transformer_in_bfloat16():
    model = Recomputed()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], 3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda i: min((i + 1) / 10, 0.5 + 0.5 * math.cos(math.pi * min(i, 60) / 60))
    )
    for _ in range(60):
        start = torch.randint(40, (8, 1))
        ids = (start + torch.arange(17) * 3) % 40
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        step(opt, loss, 1.0)
        schedule.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    recomputed_transformer_in_bfloat16()
