"""Force training of an ANI style potential on generated conformations (H, C, N, O)."""
import math
import os
import tempfile

import numpy as np
import torch

torch.manual_seed(7)
np.random.seed(7)
device = torch.device('cpu')
work_dir = tempfile.mkdtemp(prefix='ani_')

MOLECULES = {
    'water': ([3, 0, 0], [[0, 0, 0.12], [0, 0.76, -0.48], [0, -0.76, -0.48]]),
    'ammonia': ([2, 0, 0, 0], [[0, 0, 0.1], [0, 0.94, -0.27], [0.81, -0.47, -0.27], [-0.81, -0.47, -0.27]]),
    'methane': ([1, 0, 0, 0, 0], [[0, 0, 0], [.63, .63, .63], [-.63, -.63, .63], [-.63, .63, -.63], [.63, -.63, -.63]]),
    'methanol': ([1, 3, 0, 0, 0, 0], [[-.05, .66, 0], [-.05, -.76, 0], [-1.09, .98, 0], [.44, 1.07, .89],
                                      [.44, 1.07, -.89], [.87, -1.05, 0]]),
}
R0 = torch.tensor([[0.9, 1.09, 1.01, 0.97], [1.09, 1.5, 1.47, 1.42], [1.01, 1.47, 1.4, 1.4], [0.97, 1.42, 1.4, 1.4]])
DEPTH = torch.tensor([[.04, .16, .15, .17], [.16, .13, .12, .14], [.15, .12, .1, .1], [.17, .14, .1, .1]])
max_atoms = 6


def reference(species, coordinates):
    coordinates = coordinates.clone().requires_grad_(True)
    i, j = torch.triu_indices(species.shape[1], species.shape[1], 1)
    r = (coordinates[:, i] - coordinates[:, j]).norm(dim=-1)
    r0, depth = R0[species[:, i], species[:, j]], DEPTH[species[:, i], species[:, j]]
    energies = (depth * ((1 - torch.exp(-1.6 * (r - r0))) ** 2 - 1)).sum(1)
    forces = -torch.autograd.grad(energies.sum(), coordinates)[0]
    return energies.detach(), forces


def build_dataset(per_molecule):
    rows = []
    for species, xyz in MOLECULES.values():
        n = len(species)
        s = torch.tensor(species).expand(per_molecule, n)
        c = torch.tensor(xyz, dtype=torch.float32) + 0.09 * torch.randn(per_molecule, n, 3)
        e, f = reference(s, c)
        e = e - e.mean()
        for k in range(per_molecule):
            sp = torch.full((max_atoms,), -1)
            co, fo = torch.zeros(max_atoms, 3), torch.zeros(max_atoms, 3)
            sp[:n], co[:n], fo[:n] = s[k], c[k], f[k]
            rows.append((sp, co, e[k], fo))
    order = torch.randperm(len(rows))
    return [rows[k] for k in order]


class AEVComputer(torch.nn.Module):
    def __init__(self, Rcr=4.0, EtaR=12.0, num_shifts=12, num_species=4):
        super().__init__()
        self.Rcr, self.EtaR, self.num_species = Rcr, EtaR, num_species
        self.register_buffer('ShfR', torch.linspace(0.7, 2.9, num_shifts))
        self.aev_length = num_species * num_shifts

    def forward(self, species_coordinates):
        species, coordinates = species_coordinates
        n = species.shape[1]
        vec = coordinates[:, :, None] - coordinates[:, None]
        eye = torch.eye(n, dtype=torch.bool)
        pair = (species[:, :, None] >= 0) & (species[:, None] >= 0) & ~eye
        distances = torch.where(pair, (vec ** 2).sum(-1), torch.ones(())).sqrt()
        fc = (0.5 * torch.cos(distances * (math.pi / self.Rcr)) + 0.5) * (distances < self.Rcr) * pair
        ret = 0.25 * torch.exp(-self.EtaR * (distances[..., None] - self.ShfR) ** 2) * fc[..., None]
        onehot = torch.nn.functional.one_hot(species.clamp(min=0), self.num_species).float()
        aevs = torch.einsum('bijr,bjs->bisr', ret, onehot)
        return species, aevs.flatten(2)


class ANIModel(torch.nn.ModuleList):
    def forward(self, species_aev):
        species, aev = species_aev
        output = aev.new_zeros(species.shape)
        for i, m in enumerate(self):
            mask = species == i
            if mask.any():
                output = output.masked_scatter(mask, m(aev[mask]).flatten())
        return species, output.sum(dim=1)


def atomic_network(aev_length):
    return torch.nn.Sequential(
        torch.nn.Linear(aev_length, 64), torch.nn.CELU(0.1),
        torch.nn.Linear(64, 48), torch.nn.CELU(0.1),
        torch.nn.Linear(48, 1))


aev_computer = AEVComputer()
H_network, C_network, N_network, O_network = [atomic_network(aev_computer.aev_length) for _ in range(4)]
nn = ANIModel([H_network, C_network, N_network, O_network])
model = torch.nn.Sequential(aev_computer, nn).to(device)

dataset = build_dataset(800)
training = torch.utils.data.DataLoader(dataset[:2800], batch_size=64, shuffle=True)
validation = torch.utils.data.DataLoader(dataset[2800:], batch_size=80)
optimizer = torch.optim.Adam(nn.parameters(), lr=1e-3)
mse = torch.nn.MSELoss(reduction='none')


def hartree2kcal(x):
    return 627.509 * x


def validate():
    mse_sum = torch.nn.MSELoss(reduction='sum')
    total_mse, count, force_mse, force_count = 0.0, 0, 0.0, 0
    for species, coordinates, true_energies, true_forces in validation:
        coordinates.requires_grad_(True)
        _, predicted_energies = model((species, coordinates))
        forces = -torch.autograd.grad(predicted_energies.sum(), coordinates)[0]
        total_mse += mse_sum(predicted_energies.detach(), true_energies).item()
        force_mse += mse_sum(forces, true_forces).item()
        count += predicted_energies.shape[0]
        force_count += 3 * int((species >= 0).sum())
    return hartree2kcal(math.sqrt(total_mse / count)), hartree2kcal(math.sqrt(force_mse / force_count))


scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=4)
max_epochs = 32
early_stopping_learning_rate = 1.0E-5
force_coefficient = 1
best_model_checkpoint = os.path.join(work_dir, 'force-training-best.pt')
latest_checkpoint = os.path.join(work_dir, 'force-training-latest.pt')

for epoch in range(max_epochs):
    rmse, force_rmse = validate()
    print('epoch %d  RMSE %.3f kcal/mol  force RMSE %.3f kcal/mol/A' % (epoch, rmse, force_rmse), flush=True)
    learning_rate = optimizer.param_groups[0]['lr']
    if learning_rate < early_stopping_learning_rate:
        break
    if rmse < scheduler.best:
        torch.save(nn.state_dict(), best_model_checkpoint)
    scheduler.step(rmse)

    running = 0.0
    for species, coordinates, true_energies, true_forces in training:
        num_atoms = (species >= 0).sum(dim=1).to(true_energies.dtype)
        coordinates.requires_grad_(True)

        _, predicted_energies = model((species, coordinates))
        forces = -torch.autograd.grad(predicted_energies.sum(), coordinates, create_graph=True, retain_graph=True)[0]
        force_loss = mse(true_forces, forces).sum(dim=(1, 2)) / num_atoms

        energy_loss = (mse(predicted_energies, true_energies) / num_atoms).mean()
        energy_loss = 0.5 * (torch.exp(2 * energy_loss) - 1)
        force_loss = force_loss.mean()
        loss = energy_loss + force_coefficient * force_loss

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    print('    batch loss %.5f (last energy %.5f force %.5f)' % (running / len(training), energy_loss.item(), force_loss.item()))
    torch.save({'nn': nn.state_dict(), 'optimizer': optimizer.state_dict(), 'scheduler': scheduler.state_dict()},
               latest_checkpoint)
print('done', validate())
