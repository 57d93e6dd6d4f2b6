import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class InitialConditionDataset(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.rand(n, generator=g) * 2 - 1

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i]
        return torch.stack([x, torch.zeros_like(x)]), torch.sin(math.pi * x)


class CollocationDataset(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.points = torch.stack([torch.rand(n, generator=g) * 2 - 1, torch.rand(n, generator=g)], dim=1)

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        return self.points[i]


class MLP(nn.Module):
    def __init__(self, width=40, depth=3):
        super().__init__()
        layers, d = [], 2
        for _ in range(depth):
            layers += [nn.Linear(d, width), nn.Tanh()]
            d = width
        layers.append(nn.Linear(d, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


class InitialCondition:
    def __init__(self, dataset, weight=10.0):
        self.dataset = dataset
        self.weight = weight
        self.norm = nn.MSELoss()

    def __call__(self, x, model, gt_y):
        prediction = model(x)
        return self.norm(prediction, gt_y)


class PDELoss:
    def __init__(self, dataset, alpha=0.1):
        self.dataset = dataset
        self.alpha = alpha

    def __call__(self, x, model):
        x = x.clone().requires_grad_(True)
        u = model(x)
        grads = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        u_x, u_t = grads[:, 0], grads[:, 1]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0][:, 0]
        return ((u_t - self.alpha * u_xx) ** 2).mean()


class PINN:
    def __init__(self, model, initial_condition, pde_loss):
        self.model = model
        self.ic = initial_condition
        self.pde = pde_loss

    def fit(self, epochs, optimizer, batch_size=64):
        ic_loader = DataLoader(self.ic.dataset, batch_size=batch_size, shuffle=True)
        pde_loader = DataLoader(self.pde.dataset, batch_size=batch_size * 2, shuffle=True)
        for epoch in range(epochs):
            for (x0, y0), xf in zip(ic_loader, pde_loader):
                ic = self.ic(x0, self.model, y0)
                pde = self.pde(xf, self.model)
                loss = self.ic.weight * ic + pde
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if epoch % 10 == 9:
                print(f"Epoch {epoch + 1:3d} loss {loss.item():.5f} initial {ic.item():.5f} pde {pde.item():.5f} "
                      f"error {self.relative_error():.4f}")

    @torch.no_grad()
    def relative_error(self):
        x = torch.linspace(-1, 1, 41)
        t = torch.linspace(0, 1, 11)
        grid = torch.cartesian_prod(x, t)
        exact = torch.exp(-self.pde.alpha * math.pi ** 2 * grid[:, 1]) * torch.sin(math.pi * grid[:, 0])
        return ((self.model(grid)[:, 0] - exact).norm() / exact.norm()).item()


if __name__ == "__main__":
    torch.manual_seed(4)
    pinn = PINN(MLP(), InitialCondition(InitialConditionDataset(512, 0)), PDELoss(CollocationDataset(1024, 1)))
    pinn.fit(50, torch.optim.Adam(pinn.model.parameters(), lr=2e-3))
