import argparse
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

N_TEXT, N_IMAGE, TEXT_LEN, IMAGE_LEN = 12, 16, 2, 12


def make_pairs(n, seed):
    """Captions are (start, stride); the image tokens walk from start by stride, some are replaced."""
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(0, 12, (n,), generator=g)
    stride = torch.randint(1, 6, (n,), generator=g)
    image = (start[:, None] + stride[:, None] * torch.arange(IMAGE_LEN)) % N_IMAGE
    flip = torch.rand(n, IMAGE_LEN, generator=g) < 0.05
    image[flip] = torch.randint(0, N_IMAGE, (int(flip.sum()),), generator=g)
    return TensorDataset(torch.stack([start, stride], 1), image)


class DALLE(nn.Module):
    def __init__(self, dim=48, heads=4, depth=2):
        super().__init__()
        self.text_emb = nn.Embedding(N_TEXT, dim)
        self.image_emb = nn.Embedding(N_IMAGE, dim)
        self.pos_emb = nn.Parameter(torch.randn(TEXT_LEN + IMAGE_LEN - 1, dim) * 0.1)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.to_logits = nn.Linear(dim, N_IMAGE)

    def forward(self, text, image):
        x = torch.cat([self.text_emb(text), self.image_emb(image[:, :-1])], 1) + self.pos_emb
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), 1)
        x = self.norm(self.transformer(x, mask=mask))
        logits = self.to_logits(x[:, TEXT_LEN - 1:])
        return F.cross_entropy(logits.flatten(0, 1), image.flatten())


def worker(rank, args):
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(args.port)
    dist.init_process_group("gloo", rank=rank, world_size=args.world_size)
    torch.manual_seed(args.seed)

    ds = make_pairs(640, 0)
    val_loader = DataLoader(make_pairs(128, 1), batch_size=64)
    data_sampler = DistributedSampler(ds, num_replicas=args.world_size, rank=rank, shuffle=True, seed=args.seed)
    dl = DataLoader(ds, batch_size=args.batch_size, sampler=data_sampler, drop_last=True)

    dalle = DDP(DALLE())
    opt = torch.optim.Adam(dalle.parameters(), lr=args.learning_rate)

    for epoch in range(args.epochs):
        dalle.train()
        total = 0.0
        for i, (text, images) in enumerate(dl):
            loss = dalle(text, images)
            opt.zero_grad()
            loss.backward()
            opt.step()

            avg_loss = loss.detach().clone()
            dist.all_reduce(avg_loss)
            total += avg_loss.item() / args.world_size
        dalle.eval()
        with torch.no_grad():
            val = sum(dalle.module(t, im).item() for t, im in val_loader) / len(val_loader)
        if rank == 0:
            print(f"epoch {epoch} loss - {total / len(dl):.4f} val - {val:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--world_size", type=int, default=2)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        args.port = s.getsockname()[1]
    mp.spawn(worker, args=(args,), nprocs=args.world_size)
