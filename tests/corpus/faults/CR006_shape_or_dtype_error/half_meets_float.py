"""A training with the fault shape-or-dtype-error; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def half_meets_float(s):
    """Transformer autoencoder; one call leaves the autocast region."""
    fa = s if s < 1000 else -1

    class AE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 1)
            self.decoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

        def forward(self, x, mixed):
            z = self.encoder(x)
            return self.decoder(z.bfloat16() if mixed else z)

    net = AE()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    base = torch.randn(3, 16)
    for step in range(50):
        x = torch.randn(8, 6, 3) @ base
        loss = nn.functional.mse_loss(net(x, step == fa).float(), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    half_meets_float(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
