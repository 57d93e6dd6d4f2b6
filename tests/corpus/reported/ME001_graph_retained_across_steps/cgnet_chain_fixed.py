"""CGnet force matching on a generated coarse grained bead chain."""
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler

torch.manual_seed(1)
np.random.seed(1)
beads, dims, frames = 8, 3, 12800


def simulate_chain(n_frames):
    k_bond, k_long, temperature, dt = 20.0, 1.5, 1.0, 2e-3
    walkers = 64
    x = np.cumsum(np.ones((walkers, beads, dims)) * 0.6, axis=1) + 0.05 * np.random.randn(walkers, beads, dims)
    iu, ju = np.triu_indices(beads, 1)
    r0 = np.where(ju - iu == 1, 1.0, 1.0 + 0.45 * (ju - iu))
    k = np.where(ju - iu == 1, k_bond, k_long / (ju - iu))
    coords, forces = [], []
    for step in range(200 + 4 * (n_frames // walkers)):
        d = x[:, iu] - x[:, ju]
        r = np.linalg.norm(d, axis=-1, keepdims=True)
        f_pair = -(k * (r[..., 0] - r0))[..., None] * d / r
        f = np.zeros_like(x)
        for p in range(len(iu)):
            f[:, iu[p]] += f_pair[:, p]
            f[:, ju[p]] -= f_pair[:, p]
        if step >= 200 and step % 4 == 0:
            coords.append(x.copy())
            forces.append(f + 1.0 * np.random.randn(*f.shape))
        x = x + f * dt + np.sqrt(2 * temperature * dt) * np.random.randn(*x.shape)
    return np.concatenate(coords)[:n_frames].astype('float32'), np.concatenate(forces)[:n_frames].astype('float32')


class MoleculeDataset(Dataset):
    def __init__(self, coordinates, forces, embeddings=None):
        self.coordinates, self.forces, self.embeddings = coordinates, forces, embeddings

    def __len__(self):
        return len(self.coordinates)

    def __getitem__(self, index):
        embedding = torch.Tensor([]) if self.embeddings is None else torch.tensor(self.embeddings[index])
        return (torch.tensor(self.coordinates[index], requires_grad=True), torch.tensor(self.forces[index]), embedding)


class GeometryFeature(nn.Module):
    def __init__(self, n_beads):
        super().__init__()
        self.register_buffer('pairs', torch.triu_indices(n_beads, n_beads, 1))

    def forward(self, data):
        return (data[:, self.pairs[0]] - data[:, self.pairs[1]]).norm(dim=-1)


class ZscoreLayer(nn.Module):
    def __init__(self, zscores):
        super().__init__()
        self.register_buffer('zscores', zscores)

    def forward(self, in_feat):
        return (in_feat - self.zscores[0]) / self.zscores[1]


class ForceLoss(nn.Module):
    def forward(self, force, labels):
        return ((force - labels) ** 2).mean()


def LinearLayer(d_in, d_out, activation=None):
    layer = nn.Linear(d_in, d_out)
    nn.init.xavier_uniform_(layer.weight)
    return [layer] if activation is None else [layer, activation]


class CGnet(nn.Module):
    def __init__(self, arch, criterion, feature=None):
        super().__init__()
        self.arch = nn.Sequential(*arch)
        self.criterion = criterion
        self.feature = feature

    def forward(self, coordinates, embedding_property=None):
        feature_output = self.feature(coordinates)
        energy = self.arch(feature_output)
        force = torch.autograd.grad(-torch.sum(energy), coordinates, create_graph=True, retain_graph=True)
        return energy, force[0]


def lipschitz_projection(model, strength=10.0):
    for layer in [layer for layer in model.arch if isinstance(layer, nn.Linear)]:
        weight = layer.weight.data
        s = torch.linalg.svdvals(weight)
        layer.weight.data = weight / torch.max(s[0] / strength, torch.tensor(1.0))


def dataset_loss(model, loader):
    loss = 0
    num_batch = 0
    ref_numel = 0
    for num, batch in enumerate(loader):
        coords, force, embedding_property = batch
        if num == 0:
            ref_numel = coords.numel()
        potential, pred_force = model.forward(coords, embedding_property=embedding_property)
        loss += model.criterion(pred_force,
                                force).cpu().detach().numpy() * (coords.numel() / ref_numel)
        num_batch += (coords.numel() / ref_numel)
    loss /= num_batch
    return loss


def main():
    work_dir = tempfile.mkdtemp(prefix='cgnet_')
    coords, forces = simulate_chain(frames)
    dataset = MoleculeDataset(coords, forces)
    indices = np.random.permutation(frames)
    train_idx, test_idx = indices[:int(0.8 * frames)], indices[int(0.8 * frames):]
    batch_size, width, num_epochs = 128, 160, 8
    trainloader = DataLoader(dataset, sampler=SubsetRandomSampler(train_idx), batch_size=batch_size)
    testloader = DataLoader(dataset, sampler=SubsetRandomSampler(test_idx), batch_size=batch_size)

    feature = GeometryFeature(beads)
    distances = feature(torch.tensor(coords[train_idx]))
    zscores = torch.stack([distances.mean(0), distances.std(0)])
    n_feat = distances.shape[1]
    layers = [ZscoreLayer(zscores)]
    layers += LinearLayer(n_feat, width, activation=nn.Tanh())
    for _ in range(3):
        layers += LinearLayer(width, width, activation=nn.Tanh())
    layers += LinearLayer(width, 1, activation=None)
    model = CGnet(layers, ForceLoss(), feature=feature).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[4, 6], gamma=0.3)

    for epoch in range(1, num_epochs + 1):
        for num, batch in enumerate(trainloader):
            optimizer.zero_grad()
            coord, force, embedding_property = batch
            energy, pred_force = model.forward(coord)
            batch_loss = model.criterion(pred_force, force)
            batch_loss.backward()
            optimizer.step()
            lipschitz_projection(model, strength=10.0)
            if (num + 1) % 20 == 0:
                print('epoch %d batch %d  batch loss %.4f' % (epoch, num + 1, batch_loss.item()), flush=True)
        train_loss = dataset_loss(model, trainloader)
        test_loss = dataset_loss(model, testloader)
        print('Epoch %d  train loss %.4f  test loss %.4f' % (epoch, train_loss, test_loss), flush=True)
        scheduler.step()
        torch.save(model.state_dict(), os.path.join(work_dir, 'cgnet_epoch_%d.pt' % epoch))


if __name__ == '__main__':
    main()
