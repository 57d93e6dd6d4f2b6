import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

WORLD = 2


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(4, 1, 10, 10, generator=torch.Generator().manual_seed(11))
    proto = F.avg_pool2d(proto, 3, 1, 1) * 2.0
    y = torch.randint(0, 4, (n,), generator=g)
    return proto[y] + 0.6 * torch.randn(n, 1, 10, 10, generator=g), y


def weak(x):
    return x + 0.05 * torch.randn_like(x)


def strong(x):
    keep = (torch.rand(x.size(0), 1, x.size(2), x.size(3)) > 0.2).float()
    return (x + 0.3 * torch.randn_like(x)) * keep


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.fc = nn.Linear(24 * 5 * 5, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.fc(x.flatten(1))


@torch.no_grad()
def test(model, x, y):
    model.eval()
    acc = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return acc


def main_worker(rank, port, epochs=4, threshold=0.95, lambda_u=1.0):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(5)

    labeled = TensorDataset(*make_split(320, 1))
    unlabeled = TensorDataset(make_split(640, 2)[0])
    test_x, test_y = make_split(200, 3)
    labeled_trainloader = DataLoader(labeled, batch_size=8, sampler=DistributedSampler(labeled), drop_last=True)
    unlabeled_trainloader = DataLoader(unlabeled, batch_size=16, sampler=DistributedSampler(unlabeled), drop_last=True)

    model = DDP(SmallNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True)
    torch.manual_seed(100 + rank)

    for epoch in range(epochs):
        model.train()
        total = total_x = 0.0
        for (inputs_x, targets_x), (inputs_u,) in zip(labeled_trainloader, unlabeled_trainloader):
            n = inputs_x.size(0)
            inputs_u_w, inputs_u_s = weak(inputs_u), strong(inputs_u)
            logits = model(torch.cat([weak(inputs_x), inputs_u_w, inputs_u_s]))
            logits_u_w, logits_u_s = logits[n:].chunk(2)
            Lx = F.cross_entropy(logits[:n], targets_x)
            max_probs, targets_u = torch.softmax(logits_u_w.detach(), dim=-1).max(dim=-1)
            mask = max_probs.ge(threshold).float()
            Lu = (F.cross_entropy(logits_u_s, targets_u, reduction="none") * mask).mean()
            loss = Lx + lambda_u * Lu

            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            total_x += Lx.item()
        if rank == 0:
            acc = test(model.module, test_x, test_y)
            print(f"Train Epoch: {epoch + 1}/{epochs}. Loss: {total / len(labeled_trainloader):.4f}. "
                  f"Loss_x: {total_x / len(labeled_trainloader):.4f}. top-1 acc: {acc:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(main_worker, args=(port,), nprocs=WORLD)
