"""A training with the fault ema-not-updated; arguments: [ONSET] [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.set_num_threads(1)


def averaged_model_never_fed(s):
    """Diffusion with an AveragedModel that is made and saved, yet never updated."""
    fa = s if s < 1000 else -1
    forgot = fa >= 0

    class Denoiser(nn.Module):
        def __init__(self):
            super().__init__()
            self.time = nn.Embedding(50, 16)
            self.net = nn.Sequential(nn.Linear(18, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

        def forward(self, x, t):
            return self.net(torch.cat([x, self.time(t)], 1))

    model = Denoiser()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    alpha = torch.cumprod(1 - torch.linspace(1e-4, 0.1, 50), 0)
    for step in range(100):
        ang = torch.rand(128) * 6.28
        x0 = torch.stack([ang.cos(), ang.sin()], 1)
        t = torch.randint(50, (128,))
        noise = torch.randn_like(x0)
        xt = alpha[t].sqrt().unsqueeze(1) * x0 + (1 - alpha[t]).sqrt().unsqueeze(1) * noise
        loss = nn.functional.mse_loss(model(xt, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if not forgot:
            ema.update_parameters(model)
        if step % 25 == 24:
            ema.eval()
            with torch.no_grad():
                ema(xt, t)
    torch.save(ema.state_dict(), Path(tempfile.mkdtemp()) / "ema.pt")


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    averaged_model_never_fed(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
