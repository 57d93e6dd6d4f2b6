"""A training with the fault no-optimizer-step; arguments: [ONSET] [SEED]."""

import sys

import torch
from torch import nn

torch.set_num_threads(1)


def speech_loop_lost_its_step(s):
    """Speech loop lost its step."""
    fa = s if s < 1000 else -1
    fault_at = fa

    class Recogniser(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(12, 24, 3, padding=1)
            self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
            self.proj = nn.Linear(48, 9)

        def forward(self, x):
            h = torch.relu(self.conv(x)).transpose(1, 2)
            h, _ = self.lstm(h)
            return self.proj(h).log_softmax(-1)

    net = Recogniser()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    ctc = nn.CTCLoss(zero_infinity=True)
    codes = torch.randn(9, 12)
    for step in range(60):
        target = torch.randint(1, 9, (8, 5))
        frames = codes[target].repeat_interleave(4, dim=1) + 0.3 * torch.randn(8, 20, 12)
        logp = net(frames.transpose(1, 2)).transpose(0, 1)
        loss = ctc(logp, target, torch.full((8,), 20), torch.full((8,), 5))
        opt.zero_grad()
        loss.backward()
        if fault_at < 0 or step < fault_at:
            opt.step()


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    speech_loop_lost_its_step(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
