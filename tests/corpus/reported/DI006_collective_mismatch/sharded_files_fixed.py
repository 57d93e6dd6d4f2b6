import datetime
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.utils.data import DataLoader, Subset, TensorDataset

WORLD, BATCH, NUM_SAMPLES = 2, 16, 415


def make_samples(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    w = torch.randn(12, 3, generator=torch.Generator().manual_seed(5))
    y = (x @ w + 0.2 * torch.randn(n, 3, generator=g)).argmax(1)
    return TensorDataset(x, y)


class Framework:
    def __init__(self, rank, port):
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
        dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=datetime.timedelta(seconds=25))
        self.rank = rank

    def barrier(self):
        dist.barrier()

    def average_gradients(self, model):
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= WORLD


class Benchmark:
    def __init__(self, rank, port):
        torch.set_num_threads(1)
        torch.manual_seed(21)
        self.framework = Framework(rank, port)
        self.rank = rank
        self.model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()
        self.dataset = make_samples(NUM_SAMPLES, 1)
        self.val = make_samples(200, 2)
        num_samples = len(self.dataset) // WORLD * WORLD
        files = list(range(rank, num_samples, WORLD))
        self.loader = DataLoader(Subset(self.dataset, files), batch_size=BATCH, shuffle=True, drop_last=True,
                                 generator=torch.Generator().manual_seed(30 + rank))

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.framework.average_gradients(self.model)
            self.optimizer.step()
            self.framework.barrier()
            total += loss.item()
        return total / len(self.loader)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        x, y = self.val.tensors
        return (self.model(x).argmax(1) == y).float().mean().item()

    def run(self, epochs=12):
        for epoch in range(epochs):
            loss = self.train_epoch()
            acc = self.evaluate()
            if self.rank == 0:
                print(f"epoch {epoch} steps {len(self.loader)} loss {loss:.4f} val acc {acc:.3f}", flush=True)
            self.framework.barrier()
        dist.destroy_process_group()


def worker(rank, port):
    Benchmark(rank, port).run()


if __name__ == "__main__":
    mp.spawn(worker, args=(29611,), nprocs=WORLD)
