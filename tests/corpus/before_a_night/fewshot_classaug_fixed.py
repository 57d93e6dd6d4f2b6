"""Prototypical networks on drawn characters, with class augmentation."""
import argparse
import os
import random
from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 20


class ClassTransform:
    """A transformation of all images of a class, which makes a new class."""

    def __call__(self, images):
        raise NotImplementedError

    def __eq__(self, other):
        return repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))


class Rotation(ClassTransform):
    def __init__(self, angle):
        self.angle = angle

    def __call__(self, images):
        return torch.rot90(images, self.angle // 90, dims=(-2, -1))

    def __repr__(self):
        return f"Rotation({self.angle})"


class Flip(ClassTransform):
    def __init__(self, axis):
        self.axis = axis

    def __call__(self, images):
        return images.flip(-1 if self.axis == "horizontal" else -2)

    def __repr__(self):
        return f"Flip({self.axis})"


class Transpose(ClassTransform):
    def __call__(self, images):
        return images.transpose(-2, -1)

    def __repr__(self):
        return "Transpose()"


def draw_character(strokes, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    img = np.zeros((SIZE, SIZE), dtype=np.float32)
    shift = rng.uniform(-2.0, 2.0, 2)
    scale = rng.uniform(0.85, 1.1)
    for pts in strokes:
        pts = (pts - SIZE / 2) * scale + SIZE / 2 + shift + rng.normal(0, 1.0, pts.shape)
        for (x0, y0), (x1, y1) in zip(pts[:-1], pts[1:]):
            dx, dy = x1 - x0, y1 - y0
            t = np.clip(((xx - x0) * dx + (yy - y0) * dy) / (dx * dx + dy * dy + 1e-6), 0, 1)
            img = np.maximum(img, np.exp(-((xx - x0 - t * dx) ** 2 + (yy - y0 - t * dy) ** 2) / 0.9))
    return img


def make_alphabet(num_characters, per_character, seed):
    """Tensor (characters, drawings, 1, SIZE, SIZE)."""
    rng = np.random.RandomState(seed)
    alphabet = []
    for _ in range(num_characters):
        strokes = [rng.uniform(3, SIZE - 3, (rng.randint(2, 5), 2)) for _ in range(rng.randint(2, 4))]
        drawings = [draw_character(strokes, rng) for _ in range(per_character)]
        alphabet.append(np.stack(drawings).astype(np.float32))
    return torch.from_numpy(np.stack(alphabet)).unsqueeze(2)


class ClassDataset:
    """The classes of an alphabet and those made by the class augmentations."""

    def __init__(self, alphabet, class_augmentations):
        unique_augmentations = OrderedDict()
        for augmentations in class_augmentations:
            for transform in augmentations:
                unique_augmentations[transform] = True
        self.class_augmentations = list(unique_augmentations)
        self.alphabet = alphabet

    @property
    def num_classes(self):
        return len(self.alphabet) * (len(self.class_augmentations) + 1)

    def __getitem__(self, index):
        if index < len(self.alphabet):
            return self.alphabet[index]
        transform = self.class_augmentations[index // len(self.alphabet) - 1]
        return transform(self.alphabet[index % len(self.alphabet)])


class TaskSampler:
    """Random N-way K-shot tasks."""

    def __init__(self, dataset, num_ways, num_shots, num_queries, seed):
        self.dataset = dataset
        self.num_ways, self.num_shots, self.num_queries = num_ways, num_shots, num_queries
        self.rng = random.Random(seed)

    def task(self):
        support, query = [], []
        for index in self.rng.sample(range(self.dataset.num_classes), self.num_ways):
            images = self.dataset[index]
            order = self.rng.sample(range(len(images)), self.num_shots + self.num_queries)
            support.append(images[order[:self.num_shots]])
            query.append(images[order[self.num_shots:]])
        labels = torch.arange(self.num_ways)
        return (torch.cat(support), labels.repeat_interleave(self.num_shots),
                torch.cat(query), labels.repeat_interleave(self.num_queries))


class Embedding(nn.Module):
    def __init__(self, hidden=32, out=32):
        super().__init__()

        def block(cin, cout):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                                 nn.MaxPool2d(2))

        self.encoder = nn.Sequential(block(1, hidden), block(hidden, hidden), block(hidden, out), nn.Flatten())

    def forward(self, x):
        return self.encoder(x)


def prototypical_loss(model, task, num_ways):
    support, support_labels, query, query_labels = task
    emb = model(torch.cat([support, query]))
    support_emb, query_emb = emb[:len(support)], emb[len(support):]
    prototypes = torch.stack([support_emb[support_labels == k].mean(0) for k in range(num_ways)])
    logits = -torch.cdist(query_emb, prototypes).pow(2)
    accuracy = (logits.argmax(1) == query_labels).float().mean().item()
    return F.cross_entropy(logits, query_labels), accuracy


def main(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True)
    os.makedirs(args.output_folder, exist_ok=True)

    augmentations = [[Rotation(90), Rotation(180), Rotation(270)], [Flip("horizontal"), Flip("vertical"), Rotation(180)],
                     [Transpose()]]
    train_set = ClassDataset(make_alphabet(args.train_characters, args.drawings, seed=args.seed), augmentations)
    valid_set = ClassDataset(make_alphabet(args.valid_characters, args.drawings, seed=args.seed + 1), augmentations)
    sampler = TaskSampler(train_set, args.num_ways, args.num_shots, args.num_queries, seed=args.seed)
    print(f"classes: {train_set.num_classes} for training, {valid_set.num_classes} for validation")

    model = Embedding()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=args.num_tasks // 4, gamma=0.5)
    best = 0.0
    for it in range(1, args.num_tasks + 1):
        model.train()
        loss, accuracy = prototypical_loss(model, sampler.task(), args.num_ways)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if it % 10 == 0:
            print(f"task {it} loss {loss.item():.5f} accuracy {accuracy:.3f}", flush=True)
        if it % args.valid_every == 0:
            model.eval()
            tasks = TaskSampler(valid_set, args.num_ways, args.num_shots, args.num_queries, seed=1)
            with torch.no_grad():
                acc = np.mean([prototypical_loss(model, tasks.task(), args.num_ways)[1] for _ in range(50)])
            print(f"task {it} validation accuracy {acc:.4f}", flush=True)
            if acc > best:
                best = acc
                torch.save(model.state_dict(), os.path.join(args.output_folder, "protonet.pt"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser("Prototypical networks")
    parser.add_argument("--train-characters", type=int, default=120)
    parser.add_argument("--valid-characters", type=int, default=40)
    parser.add_argument("--drawings", type=int, default=20)
    parser.add_argument("--num-ways", type=int, default=10)
    parser.add_argument("--num-shots", type=int, default=1)
    parser.add_argument("--num-queries", type=int, default=5)
    parser.add_argument("--num-tasks", type=int, default=60000)
    parser.add_argument("--valid-every", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output-folder", default="runs/protonet")
    main(parser.parse_args())
