# Learned post-processing of filtered back-projections.
import pathlib
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def phantoms(n, seed):
    g = torch.Generator().manual_seed(seed)
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, 40), torch.linspace(-1, 1, 40), indexing="ij")
    img = torch.zeros(n, 40, 40)
    for _ in range(3):
        c = 1.2 * torch.rand(n, 2, 1, 1, generator=g) - 0.6
        r = 0.15 + 0.25 * torch.rand(n, 1, 1, generator=g)
        img = img + (((xs - c[:, 0]) ** 2 + (ys - c[:, 1]) ** 2) < r ** 2).float() * 0.7
    streak = torch.sin(14 * (xs * 0.8 + ys * 0.6))[None] * (0.3 + 0.2 * torch.rand(n, 1, 1, generator=g))
    recon = img + streak + 0.35 * torch.randn(n, 40, 40, generator=g)
    return TensorDataset(recon[:, None], img[:, None])


class FBPConvNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
                                 nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU())
        self.low = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(),
                                 nn.ConvTranspose2d(2 * c, c, 2, stride=2))
        self.dec = nn.Sequential(nn.Conv2d(2 * c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, 1, 1))

    def forward(self, x):
        a = self.enc(x)
        return x + self.dec(torch.cat([a, self.low(a)], 1))


torch.manual_seed(9)
dataloader = DataLoader(phantoms(320, 0), batch_size=8, shuffle=True)
validation_dataloader = DataLoader(phantoms(128, 1), batch_size=64)
model = FBPConvNet()
loss_fcn = nn.MSELoss()
optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
savefolder = pathlib.Path(tempfile.mkdtemp())
min_valid_loss = float("inf")

for epoch in range(5):
    model.train()
    train_loss = 0.0
    for recon, target in dataloader:
        optimiser.zero_grad()
        loss = loss_fcn(model(recon), target)
        loss.backward()
        optimiser.step()
        train_loss += loss.item()
    valid_loss = 0.0
    model.eval()
    with torch.no_grad():
        for recon, target in validation_dataloader:
            output = model(recon)
            loss = loss_fcn(output, target)
            valid_loss += loss.item()
    valid_loss /= len(validation_dataloader)
    print(f"Epoch {epoch + 1} Training Loss: {train_loss / len(dataloader):.4f} Validation Loss: {valid_loss:.4f}")
    if valid_loss < min_valid_loss:
        min_valid_loss = valid_loss
        torch.save(model.state_dict(), savefolder / "FBPConvNet_min_val.pt")
print(f"best validation loss {min_valid_loss:.4f}")
