import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class ResMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(dim + 2, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, feat, coord):
        return feat + self.layers(torch.cat([feat, coord], -1))


class ResMLPs(nn.Module):
    def __init__(self, dim, hidden, depth=4):
        super().__init__()
        self.mlps = [ResMLP(dim, hidden) for _ in range(depth)]
        self.coord_mlp = nn.Linear(2, dim)
        self.expand = nn.Linear(dim, 1)

    def forward(self, feat, coord):
        h = feat + self.coord_mlp(coord)
        for mlp in self.mlps:
            h = mlp(h, coord)
        return self.expand(F.relu(h)).squeeze(-1)


class ImplicitSR(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, dim))
        self.decoder = ResMLPs(dim, 64)

    def forward(self, low, coord):
        feat = self.encoder(low).unsqueeze(1).expand(-1, coord.shape[1], -1)
        return self.decoder(feat, coord)


def render(params, coord):
    cx, cy, r, amp = (p.unsqueeze(1) for p in params)
    d = ((coord[..., 0] - cx) ** 2 + (coord[..., 1] - cy) ** 2) / r ** 2
    return amp * torch.exp(-d)


def make_scenes(n, seed):
    g = torch.Generator().manual_seed(seed)
    centre = torch.rand(2, n, generator=g) * 1.2 - 0.6
    r = 0.4 + 0.4 * torch.rand(n, generator=g)
    amp = (1 + torch.rand(n, generator=g)) * (2 * torch.randint(0, 2, (n,), generator=g) - 1)
    params = (centre[0], centre[1], r, amp)
    axis = torch.linspace(-1, 1, 8)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).view(1, 64, 2).expand(n, -1, -1)
    low = render(params, grid)
    coord = torch.rand(n, 64, 2, generator=g) * 2 - 1
    return low, coord, render(params, coord)


def main(steps=240, batch=16):
    torch.manual_seed(29)
    low, coord, target = make_scenes(1000, 1)
    v_low, v_coord, v_target = make_scenes(200, 2)
    model = ImplicitSR()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    print("parameters", sum(p.numel() for p in model.parameters()))
    order, cursor = torch.randperm(len(low)), 0
    for step in range(steps):
        if cursor + batch > len(low):
            order, cursor = torch.randperm(len(low)), 0
        idx = order[cursor:cursor + batch]
        cursor += batch
        model.train()
        loss = F.mse_loss(model(low[idx], coord[idx]), target[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 30 == 0:
            model.eval()
            with torch.no_grad():
                val = F.mse_loss(model(v_low, v_coord), v_target).item()
            print(f"step {step + 1} loss {loss.item():.4f} valid {val:.4f}")


if __name__ == "__main__":
    main()
