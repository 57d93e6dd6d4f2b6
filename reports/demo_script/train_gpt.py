"""A small byte-level GPT, trained on the source text of Python's own standard library.

An ordinary training script: plain PyTorch, no network, no recording. With ``--fault NAME --fault-step N`` one
mistake is switched on, each in the way it happens in real life.
"""

import argparse
import math
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

PAD = 0  # no source text holds a NUL byte
IGNORED = -100
FAULTS = ("none", "fully-masked-attention-row", "lr-spike", "outlier-batch", "fp16-overflow", "killed", "shape-error")


@dataclass(frozen=True)
class Snippet:
    """A piece of a source file, with what is known of the file it was cut from."""

    text: bytes
    offset: int
    file_size: int
    channels_first: bool = False


class Snippets(Dataset):
    """Each item: bytes to read, bytes to predict, and two float channels about the layout of the text."""

    def __init__(self, snippets: list[Snippet], length: int) -> None:
        self.snippets = snippets
        self.length = length

    def __len__(self) -> int:
        return len(self.snippets)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        snippet = self.snippets[index]
        text = torch.frombuffer(bytearray(snippet.text.ljust(self.length + 1, b"\0")), dtype=torch.uint8).long()
        targets = text[1:].masked_fill(text[1:] == PAD, IGNORED)
        place = (snippet.offset + torch.arange(self.length)) / snippet.file_size  # 0 … 1 through the file
        blank = (text[:-1] == ord(" ")).float()
        layout = torch.stack([place, blank], dim=0 if snippet.channels_first else -1)
        return {"tokens": text[:-1], "targets": targets, "layout": layout}


class Attention(nn.Module):
    """Causal self-attention that does not look at padding."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        is_future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(is_future | is_padding[:, None, None, :], float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    """Two matrices with a ReLU between; in float16, ``gain`` lifts small activations out of its subnormals."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        self.half_precision = False
        self.gain = 1.0
        self.out_of_memory = False

    def forward(self, x: Tensor) -> Tensor:
        if self.out_of_memory:
            os.kill(os.getpid(), signal.SIGKILL)  # what the kernel does when memory is gone: no word, no clean-up
        with torch.autocast(x.device.type, dtype=torch.float16, enabled=self.half_precision):
            hidden = F.relu(self.up(x))
            if self.half_precision:
                return self.down(hidden * self.gain).float() / self.gain
            return self.down(hidden)


class Block(nn.Module):
    """Attention and MLP, each behind a norm and round a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), is_padding)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Predicts the next byte from the bytes so far and the layout channels."""

    def __init__(self, width: int = 96, heads: int = 4, depth: int = 3, length: int = 64) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.positions = nn.Embedding(length, width)
        self.layout = nn.Linear(2, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256)
        self.apply(self._init)

    @staticmethod
    def _init(module: nn.Module) -> None:
        if isinstance(module, nn.Embedding | nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, layout: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight + self.layout(layout)
        for block in self.blocks:
            x = block(x, tokens == PAD)
        return self.head(self.norm(x))


def read_snippets(length: int, limit: int = 3_000_000) -> list[Snippet]:
    """The standard library, cut into pieces of ``length + 1`` bytes; the last piece of a file is shorter."""
    snippets: list[Snippet] = []
    total = 0
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        text = path.read_bytes().replace(b"\0", b" ")
        cut = range(0, len(text) - 1, length + 1)
        snippets += [Snippet(text[at : at + length + 1], at, len(text)) for at in cut]
        total += len(text)
        if total > limit:
            break
    return snippets


def let_in_bad_batch(snippets: list[Snippet], batch: list[int], fault: str) -> list[int]:
    """What a missing check in the data pipeline lets through, as the indices of the batch that has it."""
    if fault == "fully-masked-attention-row":  # a piece cut behind the end of its file, which is nothing but padding
        size = snippets[batch[5]].file_size
        snippets.append(Snippet(b"", size, size))
        return [*batch[:5], len(snippets) - 1, *batch[6:]]
    if fault == "outlier-batch":  # the file size was not known, so the place in the file is not divided by it
        bad = [replace(snippets[i], file_size=1) for i in batch]
    elif fault == "shape-error":  # pieces from a cache that keeps channels first
        bad = [replace(snippets[i], channels_first=True) for i in batch]
    else:
        return batch
    snippets.extend(bad)
    return list(range(len(snippets) - len(bad), len(snippets)))


def learning_rate(step: int, peak: float, warmup: int, typo_at: int | None) -> float:
    """Linear warm-up, then constant; ``typo_at`` is where the table of the schedule lacks a minus sign: 1e0."""
    if typo_at is not None and typo_at <= step < typo_at + 4:
        return 1e0
    return peak * min(1.0, (step + 1) / warmup)


def main() -> None:
    """Train, and print the loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", metavar="FILE", help="write the losses and the final weights")
    parser.add_argument("--fault", choices=FAULTS, default="none")
    parser.add_argument("--fault-step", type=int, default=48)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    snippets = read_snippets(args.length)
    order = torch.randperm(len(snippets)).tolist()
    batches = [order[i * args.batch_size : (i + 1) * args.batch_size] for i in range(args.steps)]
    if args.fault_step < args.steps:
        batches[args.fault_step] = let_in_bad_batch(snippets, batches[args.fault_step], args.fault)
    loader = DataLoader(Snippets(snippets, args.length), batch_sampler=batches)

    model = GPT(length=args.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.01)
    typo_at = args.fault_step if args.fault == "lr-spike" else None
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate(step, args.lr, 10, typo_at) / args.lr
    )

    losses = []
    started = time.perf_counter()
    for step, batch in enumerate(loader):
        if args.fault == "fp16-overflow":
            mlp = model.blocks[1].mlp
            mlp.half_precision = True
            mlp.gain = 2.0**14 if step < args.fault_step else 2.0**18  # somebody hopes for more precision
        model.blocks[1].mlp.out_of_memory = args.fault == "killed" and step == args.fault_step

        logits = model(batch["tokens"], batch["layout"])
        loss = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        if step % 4 == 0 or step == args.steps - 1:
            print(f"step {step:3d}  loss {loss.item():.4f}  {time.perf_counter() - started:5.1f} s", flush=True)
    if args.save:
        torch.save({"losses": torch.stack(losses), "weights": model.state_dict()}, args.save)


if __name__ == "__main__":
    main()
