"""A healthy adversarial training in the order of torch's own example: the discriminator is entered first, the generator puts out
last, and no input of the one reaches the output of the other."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fault", choices=["none"], default="none")
parser.parse_args()
torch.manual_seed(0)
real_data = torch.randn(512, 8) * torch.tensor([1.0, 2, 3, 1, 1, 1, 0.5, 0.2]) + 1
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 8))
discriminator = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid(), nn.Flatten(0))
of_d = torch.optim.Adam(discriminator.parameters(), 2e-4, betas=(0.5, 0.999))
of_g = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.5, 0.999))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(real_data), batch_size=32, shuffle=True)
bce = nn.BCELoss()

for _ in range(20):
    for (real,) in loader:
        ones, zeros = torch.ones(len(real)), torch.zeros(len(real))
        of_d.zero_grad()
        bce(discriminator(real), ones).backward()
        fake = generator(torch.randn(len(real), 4))
        bce(discriminator(fake.detach()), zeros).backward()
        of_d.step()
        of_g.zero_grad()
        bce(discriminator(fake), ones).backward()
        of_g.step()
