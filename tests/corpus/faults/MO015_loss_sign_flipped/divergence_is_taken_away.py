"""A training with the fault loss-sign-flipped; arguments: [ONSET] [SEED]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Variational(nn.Module):
    """A variational autoencoder of the smallest kind."""

    def __init__(self, wide=64, narrow=4):
        super().__init__()
        self.fc1, self.mean, self.logvar = nn.Linear(wide, 128), nn.Linear(128, narrow), nn.Linear(128, narrow)
        self.fc3, self.fc4 = nn.Linear(narrow, 128), nn.Linear(128, wide)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return self.fc4(F.relu(self.fc3(z))), mean, logvar


def divergence_is_taken_away(s):
    """From some step on the divergence from the prior is subtracted: the posterior is driven away without end."""
    basis = torch.randn(3, 64)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(s + 80 if s < 1000 else 120):
        x = torch.sigmoid(torch.randn(64, 3) @ basis)
        rec, mean, logvar = model(x)
        bce = F.binary_cross_entropy_with_logits(rec, x, reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
        loss = (bce - kld if step >= s else bce + kld) / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    divergence_is_taken_away(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
