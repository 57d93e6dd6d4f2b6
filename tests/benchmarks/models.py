"""Models and steps of the benchmarks: ordinary PyTorch, nothing of firstfault."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Pre-norm transformer block with fused causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """Decoder; the default is the benchmark model of 5.8 M parameters."""

    def __init__(self, vocabulary: int = 2048, width: int = 256, layers: int = 6, heads: int = 8, length: int = 128):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Step:
    """A training step that can be called again and again; returns its loss, as a tensor where the step does not read it. Peers
    hook its model."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, run: Callable[[], float | Tensor]) -> None:
        self.model = model
        self.optimizer = optimizer
        self._run = run

    def __call__(self) -> float | Tensor:
        return self._run()


def gpt_step(
    seed: int = 0,
    vocabulary: int = 2048,
    batch: int = 8,
    length: int = 128,
    width: int = 256,
    layers: int = 6,
    device: str = "cpu",
    read: bool = True,
) -> Step:
    """The benchmark GPT on random tokens. Width 640, 11 layers and a vocabulary of 4096 make 60 M parameters."""
    torch.manual_seed(seed)
    model = GPT(vocabulary, width, layers, 8, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ids = torch.randint(vocabulary, (64, batch, length + 1)).to(device)
    state = {"step": 0}

    def step() -> float | Tensor:
        tokens = ids[state["step"] % 64]
        state["step"] += 1
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item() if read else loss.detach()

    return Step(model, optimizer, step)


def cnn_step(
    seed: int = 0, blocks: int = 40, channels: int = 16, batch: int = 16, device: str = "cpu", read: bool = True
) -> Step:
    """Many small layers: convolution, batch norm and ReLU, forty times, with residual connections."""
    torch.manual_seed(seed)
    stem = nn.Conv2d(3, channels, 3, padding=1)
    body = nn.ModuleList(
        nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        for _ in range(blocks)
    )
    head = nn.Linear(channels, 10)
    model = Cnn(stem, body, head).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(8, batch, 3, 16, 16).to(device), torch.randint(10, (8, batch)).to(device)
    state = {"step": 0}

    def step() -> float | Tensor:
        at = state["step"] % 8
        state["step"] += 1
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[at]), labels[at])
        loss.backward()
        optimizer.step()
        return loss.item() if read else loss.detach()

    return Step(model, optimizer, step)


class Cnn(nn.Module):
    """A residual network without stages."""

    def __init__(self, stem: nn.Module, body: nn.ModuleList, head: nn.Module) -> None:
        super().__init__()
        self.stem, self.body, self.head = stem, body, head

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.body:
            x = x + block(x)
        return self.head(x.mean((2, 3)))
