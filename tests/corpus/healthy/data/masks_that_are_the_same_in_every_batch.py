"""A healthy training that looks odd; argument: [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def masks_that_are_the_same_in_every_batch():
    """All recordings have one length and are padded to the same frame; the loader hands the mask out with each batch."""
    kinds = torch.randint(4, (2000,))
    x = torch.randn(4, 24, 6)[kinds] + 0.7 * torch.randn(2000, 24, 6)
    kept = (torch.arange(24) < 20).long().expand(2000, 24).contiguous()
    loader = DataLoader(TensorDataset(x * kept[:, :, None], kept, kinds), 20, shuffle=True)
    net = nn.GRU(6, 32, batch_first=True)
    head = nn.Linear(32, 4)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=3e-3)
    for frames, mask, kind in loader:
        states = net(frames)[0] * mask[:, :, None]
        loss = F.cross_entropy(head(states.sum(1) / mask.sum(1, keepdim=True)), kind)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    masks_that_are_the_same_in_every_batch()
