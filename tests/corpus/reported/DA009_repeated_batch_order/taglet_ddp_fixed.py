"""Fine-tune a labeler on several processes."""
import os
import socket

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def features(n, seed):
    rng = np.random.RandomState(seed)
    x = rng.randn(n, 24).astype(np.float32)
    teacher = np.random.RandomState(0).randn(24, 4)
    y = (np.tanh(x @ teacher * 0.5) + 0.15 * rng.randn(n, 4)).argmax(1)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class Trainable:
    def __init__(self, train_data, val_data, n_proc=2, num_epochs=4, batch_size=32, lr=3e-3):
        self.train_data, self.val_data = train_data, val_data
        self.n_proc, self.num_epochs, self.batch_size, self.lr = n_proc, num_epochs, batch_size, lr
        self.seed = 0

    def build_model(self):
        return nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    def train(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["MASTER_PORT"] = str(port)
        mp.spawn(self._do_train, nprocs=self.n_proc)

    def _do_train(self, rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rank=rank, world_size=self.n_proc)
        torch.manual_seed(self.seed)
        sampler = DistributedSampler(self.train_data, num_replicas=self.n_proc, rank=rank, shuffle=True)
        train_loader = DataLoader(self.train_data, batch_size=self.batch_size, sampler=sampler)
        val_loader = DataLoader(self.val_data, batch_size=200)
        model = DistributedDataParallel(self.build_model())
        optimizer = torch.optim.Adam(model.parameters(), lr=self.lr)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        for epoch in range(self.num_epochs):
            sampler.set_epoch(epoch)
            train_loss = self._train_epoch(model, train_loader, optimizer)
            scheduler.step()
            dist.barrier()
            if rank == 0:
                val_loss, val_acc = self._validate(model.module, val_loader)
                print(f"epoch {epoch} train loss {train_loss:.4f} val loss {val_loss:.4f} val acc {val_acc:.3f}", flush=True)
            dist.barrier()
        dist.destroy_process_group()

    def _train_epoch(self, model, loader, optimizer):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total / len(loader)

    def _validate(self, model, loader):
        model.eval()
        loss, hits, count = 0.0, 0, 0
        with torch.no_grad():
            for x, y in loader:
                out = model(x)
                loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
                hits += (out.argmax(1) == y).sum().item()
                count += len(y)
        return loss / count, hits / count


if __name__ == "__main__":
    torch.set_num_threads(1)
    Trainable(features(4096, 1), features(600, 2)).train()
