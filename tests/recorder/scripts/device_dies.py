"""A training on a device that dies: a label beyond the classes makes a kernel assert, and from then on every question to the
device is answered by the same error. The host stands in for it, and for the words that CUDA prints."""

import sys

import torch
from firstfault.recorder.tensors import device, moments
from torch import nn

ASSERTION = "nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [8,0,0] Assertion `t >= 0 && t < n_classes` failed."
moments.LATE_DEVICES.clear()
moments.LATE_DEVICES.add("cpu")
dead = False


class Event:
    def query(self) -> bool:
        if dead:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return True

    synchronize = query


class Page(device.Page):
    def seal(self) -> None:
        super().seal()
        self.event = Event()


device.Page = Page

torch.manual_seed(0)
x, y = torch.randn(1024, 8), torch.randint(4, (1024,))
y[600] = 4
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for a, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32):
    if dead:
        raise RuntimeError(
            "CUDA error: device-side assert triggered\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
        )
    logits = model(a)
    if b.max() == 4:
        dead = True
        print(f"/pytorch/aten/src/ATen/native/cuda/Loss.cu:245: {ASSERTION}", file=sys.stderr, flush=True)
    optimizer.zero_grad()
    nn.functional.cross_entropy(logits, b.clamp(max=3)).backward()
    optimizer.step()
