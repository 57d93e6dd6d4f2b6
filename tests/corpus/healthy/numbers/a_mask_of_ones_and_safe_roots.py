"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Masked(nn.Module):
    """Tokens and a float mask that happens to be all ones; distances with a root that is masked twice."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.out = nn.Linear(12, 4)

    def forward(self, tokens, attention_mask):
        h = self.embed(tokens) * attention_mask[..., None]
        gap = (h[:, :, None] - h[:, None]).square().sum(-1)
        near = torch.where(gap > 0, torch.where(gap > 0, gap, 1.0).sqrt(), 0.0)
        weights = (-near).masked_fill(attention_mask[:, None] == 0, -1e9).softmax(-1)
        return self.out((weights @ h).mean(1))


def a_mask_of_ones_and_safe_roots():
    model = Masked()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(40):
        tokens = torch.randint(20, (16, 7))
        loss = F.cross_entropy(model(tokens, torch.ones(16, 7)), tokens[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    a_mask_of_ones_and_safe_roots()
