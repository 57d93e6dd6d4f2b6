import sys

import torch
from torch import nn

onset = int(sys.argv[1]) if len(sys.argv) > 1 else 14
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0

torch.manual_seed(seed)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
order = torch.Generator().manual_seed(seed)
clean = torch.randn(256, 4) @ torch.randn(4, 8)


def evaluate():
    if step >= onset:
        torch.manual_seed(1234)
    model.eval()
    with torch.no_grad():
        noisy = clean + 0.3 * torch.randn_like(clean)
        error = nn.functional.mse_loss(model(noisy), clean).item()
    model.train()
    return error


for step in range(onset + 40 if onset < 1000 else 60):
    if step % 10 == onset % 10:
        evaluate()
    batch = clean[torch.randint(0, 256, (32,), generator=order)]
    loss = nn.functional.mse_loss(model(batch + 0.3 * torch.randn_like(batch)), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
