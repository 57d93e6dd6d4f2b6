"""A training with the fault all-targets-ignored; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

torch.set_num_threads(1)


def masked_language_model_without_masks(s):
    """A few tokens are to be guessed; in one batch of short lines chance picks none of them."""
    ids = torch.randint(2, 40, (640, 10))
    ids[:, 1::2] = ids[:, 0::2]
    model = nn.Sequential(nn.Embedding(40, 24), nn.Flatten(), nn.Linear(240, 96), nn.Tanh(), nn.Linear(96, 400))
    opt = optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(60):
        batch = ids[torch.randint(640, (8,))]
        chosen = torch.rand(batch.shape) < 0.15
        chosen[0, 0] = True
        if step == s:
            chosen[:] = False
        labels = batch.masked_fill(~chosen, -100)
        logits = model(batch.masked_fill(chosen, 1)).view(-1, 40)
        loss = F.cross_entropy(logits, labels.view(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    masked_language_model_without_masks(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
