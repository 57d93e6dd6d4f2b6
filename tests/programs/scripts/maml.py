"""Model-agnostic meta-learning of sines: inner steps by functional_call, outer gradient through them."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
meta_batch, shots, inner_lr, iterations = 6, 10, 0.02, 60
model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
meta_optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.MSELoss()


def sample_task():
    amplitude, phase = 0.5 + 3 * torch.rand(1), 3.14 * torch.rand(1)

    def sample(n):
        x = 10 * torch.rand(n, 1) - 5
        return x, amplitude * torch.sin(x + phase)

    return sample(shots), sample(shots)


def adapt(params, support, steps=1):
    for _ in range(steps):
        loss = criterion(functional_call(model, params, support[0]), support[1])
        grads = torch.autograd.grad(loss, tuple(params.values()), create_graph=True)
        params = {name: p - inner_lr * g for (name, p), g in zip(params.items(), grads)}
    return params


for iteration in range(iterations):
    meta_optimizer.zero_grad()
    meta_loss = 0.0
    for _ in range(meta_batch):
        support, query = sample_task()
        fast = adapt(dict(model.named_parameters()), support)
        meta_loss = meta_loss + criterion(functional_call(model, fast, query[0]), query[1]) / meta_batch
    meta_loss.backward()
    meta_optimizer.step()
    if iteration % 5 == 0:
        print(iteration, meta_loss.item())
