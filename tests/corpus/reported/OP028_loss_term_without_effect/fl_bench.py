"""Federated optimisation benchmark: FedProx on clients with Dirichlet label skew."""
import argparse
import random
from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

torch.set_num_threads(1)


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--client_num", type=int, default=10)
    p.add_argument("--join_ratio", type=float, default=0.5)
    p.add_argument("--global_epoch", type=int, default=12)
    p.add_argument("--local_epoch", type=int, default=4)
    p.add_argument("--batch_size", type=int, default=32)
    p.add_argument("--local_lr", type=float, default=0.05)
    p.add_argument("--mu", type=float, default=1.0)
    p.add_argument("--alpha", type=float, default=0.2)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args()


def fix_random_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class GlyphDataset(Dataset):
    """16x16 grey images, ten stroke patterns with shifts and noise."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(1234)
        protos = rng.normal(size=(10, 4, 4)).repeat(4, axis=1).repeat(4, axis=2)
        rng = np.random.default_rng(seed)
        self.targets = rng.integers(0, 10, size=n)
        imgs = protos[self.targets]
        shifts = rng.integers(-2, 3, size=(n, 2))
        imgs = np.stack([np.roll(im, tuple(s), axis=(0, 1)) for im, s in zip(imgs, shifts)])
        imgs = imgs + 1.0 * rng.normal(size=imgs.shape)
        self.data = torch.tensor(imgs, dtype=torch.float32).unsqueeze(1)
        self.labels = torch.tensor(self.targets)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i], self.labels[i]


def dirichlet_partition(targets, client_num, alpha, rng):
    parts = [[] for _ in range(client_num)]
    for c in range(10):
        idx = rng.permutation(np.where(targets == c)[0])
        cuts = (np.cumsum(rng.dirichlet([alpha] * client_num))[:-1] * len(idx)).astype(int)
        for part, chunk in zip(parts, np.split(idx, cuts)):
            part.extend(chunk.tolist())
    return parts


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(
            nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(256, 64), nn.ReLU(),
        )
        self.classifier = nn.Linear(64, 10)

    def forward(self, x):
        return self.classifier(self.base(x))


class FedProxClient:
    def __init__(self, model, args, dataset, data_indices):
        self.model = model
        self.args = args
        self.data_indices = data_indices
        self.criterion = nn.CrossEntropyLoss()
        self.dataset = dataset
        self.train_step = 0

    def load_data_loader(self, client_id):
        subset = Subset(self.dataset, self.data_indices[client_id])
        return DataLoader(subset, batch_size=self.args.batch_size, shuffle=True)

    def train(self, client_id, global_state):
        self.model.load_state_dict(global_state)
        self.trainloader = self.load_data_loader(client_id)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=self.args.local_lr)
        stats = self.fit()
        delta = 0.0
        for name, param in self.model.named_parameters():
            delta += (param.data - global_state[name]).pow(2).sum().item()
        stats["drift"] = delta ** 0.5
        state = OrderedDict((k, v.detach().clone()) for k, v in self.model.state_dict().items())
        return state, len(self.data_indices[client_id]), stats

    def fit(self):
        self.model.train()
        global_params = list(self.model.parameters())
        losses, penalty = [], 0.0
        for _ in range(self.args.local_epoch):
            for x, y in self.trainloader:
                logits = self.model(x)
                loss = self.criterion(logits, y)
                self.optimizer.zero_grad()
                loss.backward()
                penalty = 0.0
                for w, w_t in zip(self.model.parameters(), global_params):
                    w.grad.data += self.args.mu * (w.data - w_t.data)
                    penalty += 0.5 * self.args.mu * (w.data - w_t.data).pow(2).sum().item()
                self.optimizer.step()
                self.train_step += 1
                losses.append(loss.item())
        return {"loss": float(np.mean(losses)), "penalty": penalty}


class FedProxServer:
    def __init__(self, args):
        self.args = args
        trainset, self.testset = GlyphDataset(3000, seed=1), GlyphDataset(1000, seed=2)
        rng = np.random.default_rng(args.seed)
        indices = dirichlet_partition(trainset.targets, args.client_num, args.alpha, rng)
        self.clients = [i for i in range(args.client_num) if len(indices[i]) > 8]
        self.model = LeNet5()
        self.trainer = FedProxClient(self.model, args, trainset, indices)
        self.global_params = OrderedDict((k, v.detach().clone()) for k, v in self.model.state_dict().items())

    def aggregate(self, packages):
        weights = torch.tensor([w for _, w, _ in packages], dtype=torch.float32)
        weights /= weights.sum()
        for key in self.global_params:
            stacked = torch.stack([state[key] for state, _, _ in packages], dim=-1)
            self.global_params[key] = (stacked * weights).sum(dim=-1)

    @torch.no_grad()
    def test(self):
        self.model.load_state_dict(self.global_params)
        self.model.eval()
        correct, loss = 0, 0.0
        for x, y in DataLoader(self.testset, batch_size=250):
            logits = self.model(x)
            loss += nn.functional.cross_entropy(logits, y, reduction="sum").item()
            correct += (logits.argmax(1) == y).sum().item()
        return loss / len(self.testset), correct / len(self.testset)

    def train(self):
        n_join = max(1, int(self.args.join_ratio * len(self.clients)))
        for rnd in range(self.args.global_epoch):
            selected = random.sample(self.clients, n_join)
            packages = [self.trainer.train(cid, self.global_params) for cid in selected]
            self.aggregate(packages)
            stats = [s for _, _, s in packages]
            test_loss, acc = self.test()
            print(f"round {rnd:2d} step {self.trainer.train_step:4d} "
                  f"train_loss {np.mean([s['loss'] for s in stats]):.4f} "
                  f"prox_term {np.mean([s['penalty'] for s in stats]):.6f} "
                  f"client_drift {np.mean([s['drift'] for s in stats]):.4f} "
                  f"test_loss {test_loss:.4f} test_acc {acc:.3f}")
        print(f"[{'fedprox'}] mu={self.args.mu} final test accuracy {acc:.3f}")


if __name__ == "__main__":
    args = get_args()
    fix_random_seed(args.seed)
    FedProxServer(args).train()
