"""A training with the fault replayed-after-resume; arguments: [ONSET] [SEED]."""

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def resumes_at_the_first_sample(s):
    """Resumes in the middle of an epoch from a checkpoint, but the sampler begins at the first sample again."""
    onset = s

    def loader(epoch):
        x = torch.randn(1600, 10, generator=torch.Generator().manual_seed(0))
        y = x[:, :3].sum(1, keepdim=True)
        return DataLoader(TensorDataset(x, y), 20, shuffle=True, generator=torch.Generator().manual_seed(100 + epoch))

    def main():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
        opt = torch.optim.Adam(net.parameters(), 1e-3)
        path = Path(tempfile.mkdtemp()) / "last.pt"
        step = 0
        it = iter(loader(0))
        while step < 75:
            if step == onset:
                torch.save({"model": net.state_dict(), "opt": opt.state_dict(), "step": step}, path)
                saved = torch.load(path)
                net.load_state_dict(saved["model"])
                opt.load_state_dict(saved["opt"])
                it = iter(loader(0))  # from the start of the epoch again
            x, y = next(it)
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1

    main()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    resumes_at_the_first_sample(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
