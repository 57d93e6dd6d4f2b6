"""Trains with torch.distributed in a world of one, plain or wrapped by DistributedDataParallel."""

import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.Linear(4, 2)
if sys.argv[1] == "replicated":
    model = nn.parallel.DistributedDataParallel(model)
for step in range(12):
    model(torch.randn(3, 4)).square().mean().backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight.sub_(0.1 * weight.grad)
            weight.grad = None
    if step % 3 == 0 and sys.argv[1] == "plain":
        dist.all_reduce(torch.ones(5))
dist.destroy_process_group()
