"""Predict the dipole magnitude of small clusters with vector features."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(5)

CUTOFF = 2.6
N_ATOMS = 6


def make_clusters(n, seed):
    gen = torch.Generator().manual_seed(seed)
    pos = torch.randn(n, N_ATOMS, 3, generator=gen) * 0.5
    far = torch.rand(n, generator=gen) < 0.002
    pos[far, 0] = torch.tensor([4.0, 4.0, 4.0])
    kind = torch.randint(0, 3, (n, N_ATOMS), generator=gen)
    charge = torch.tensor([-1.0, 0.4, 0.8])[kind]
    near = (pos[:, :, None] - pos[:, None]).norm(dim=-1) < CUTOFF
    rel = pos[:, None] - pos[:, :, None]
    field = (charge[:, None, :, None] * rel * near[..., None]).sum(2)
    target = field.norm(dim=-1).mean(1)
    return pos, kind, (target - 1.87) / 0.7


class NormActivation(nn.Module):
    """Scale vectors by a nonlinearity of their norm."""

    def __init__(self, channels, scalar_nonlinearity, epsilon=1e-4):
        super().__init__()
        self.scalar_nonlinearity = scalar_nonlinearity
        self.epsilon = epsilon
        self.biases = nn.Parameter(torch.zeros(channels))

    def forward(self, v):
        norms = v.pow(2).sum(dim=-1)
        eps_squared = self.epsilon * self.epsilon
        norms = torch.where(norms < eps_squared, torch.full_like(norms, eps_squared), norms)
        norms = norms.sqrt()
        scalings = self.scalar_nonlinearity(norms + self.biases) / norms
        return v * scalings.unsqueeze(-1)


class VectorNet(nn.Module):
    def __init__(self, channels=16, hidden=48):
        super().__init__()
        self.radial = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, channels))
        self.kind = nn.Embedding(3, channels)
        self.mix = nn.Linear(channels, channels, bias=False)
        self.act = NormActivation(channels, torch.tanh)
        self.mix2 = nn.Linear(channels, channels, bias=False)
        self.readout = nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, 1))
        self.register_buffer("centers", torch.linspace(0.0, CUTOFF, 8))

    def forward(self, pos, kind):
        rel = pos[:, None] - pos[:, :, None]
        dist2 = rel.pow(2).sum(-1)
        edge = ((dist2 < CUTOFF ** 2) & ~torch.eye(N_ATOMS, dtype=torch.bool)).float()
        rbf = torch.exp(-6.0 * ((dist2 + 1e-8).sqrt().unsqueeze(-1) - self.centers) ** 2)
        weight = self.radial(rbf) * self.kind(kind)[:, None] * edge.unsqueeze(-1)
        v = torch.einsum("bijc,bijx->bicx", weight, rel)
        v = self.act(self.mix(v.transpose(2, 3)).transpose(2, 3))
        v = self.mix2(v.transpose(2, 3)).transpose(2, 3)
        invariants = v.pow(2).sum(-1)
        return self.readout(invariants).squeeze(-1).mean(1)


train_set = TensorDataset(*make_clusters(3200, seed=1))
test_set = TensorDataset(*make_clusters(400, seed=2))
train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
test_loader = DataLoader(test_set, batch_size=100)

model = VectorNet()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
step = 0
for epoch in range(2):
    model.train()
    for pos, kind, y in train_loader:
        loss = (model(pos, kind) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step:4d} loss {loss.item():.4f}")
        step += 1
    model.eval()
    with torch.no_grad():
        err = sum((model(p, k) - y).pow(2).mean().item() for p, k, y in test_loader) / len(test_loader)
    print(f"epoch {epoch} test mse {err:.4f}")
