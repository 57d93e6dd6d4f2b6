"""Knowledge distillation with a small "training box": a wide teacher, a narrow student."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CONFIG = {
    "teacher": {
        "width": 32, "num_epochs": 4, "batch_size": 64, "lr": 2e-3,
        "grad_accum_step": 1, "max_grad_norm": 5.0, "scheduling_step": 1,
    },
    "student": {
        "width": 8, "num_epochs": 9, "batch_size": 32, "lr": 4e-3,
        "grad_accum_step": 4, "max_grad_norm": 5.0, "scheduling_step": 1,
        "temperature": 3.0, "alpha": 0.5,
    },
}
N_CLASSES = 8
SIZE = 24


def sample_image(kind, rng):
    """Blobs of one of four layouts in one of two colour orders, over clutter."""
    layout, order = kind // 2, kind % 2
    cy, cx = rng.uniform(9, 15, 2)
    d = rng.uniform(4.0, 6.0)
    a = rng.normal(0, 0.25) + (0.0, math.pi / 2, math.pi / 4, -math.pi / 4)[layout]
    offs = np.array([np.sin(a), np.cos(a)]) * d
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    img = rng.normal(0, 0.35, (3, SIZE, SIZE))
    for s in (0, 1):
        by, bx = (cy, cx) + (offs if s else -offs)
        blob = np.exp(-((yy - by) ** 2 + (xx - bx) ** 2) / (2 * rng.uniform(1.6, 2.4) ** 2))
        img[(s + order) % 2] += rng.uniform(1.0, 1.6) * blob
    for _ in range(3):
        by, bx = rng.uniform(0, SIZE, 2)
        blob = np.exp(-((yy - by) ** 2 + (xx - bx) ** 2) / (2 * rng.uniform(1.2, 2.0) ** 2))
        img[rng.integers(0, 3)] += rng.uniform(0.2, 0.6) * blob
    return img


def make_dataset(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    x = np.stack([sample_image(int(k), rng) for k in y]).astype(np.float32)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class ConvNet(nn.Module):
    def __init__(self, width):
        super().__init__()

        def block(cin, cout):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(),
                                 nn.MaxPool2d(2))

        self.body = nn.Sequential(block(3, width), block(width, 2 * width), block(2 * width, 2 * width))
        self.fc = nn.Linear(2 * width * 9, N_CLASSES)

    def forward(self, x):
        return self.fc(self.body(x).flatten(1))


class KDLoss(nn.Module):
    def __init__(self, temperature, alpha):
        super().__init__()
        self.t, self.alpha = temperature, alpha

    def forward(self, student_logits, targets, teacher_logits):
        soft = F.kl_div(F.log_softmax(student_logits / self.t, dim=1), F.softmax(teacher_logits / self.t, dim=1),
                        reduction="batchmean") * self.t ** 2
        return self.alpha * F.cross_entropy(student_logits, targets) + (1 - self.alpha) * soft


class TrainingBox:
    def __init__(self, model, dataset, config, teacher=None):
        self.model, self.teacher = model, teacher
        self.num_epochs = config["num_epochs"]
        self.grad_accum_step = config["grad_accum_step"]
        self.max_grad_norm = config["max_grad_norm"]
        self.scheduling_step = config["scheduling_step"]
        self.loader = DataLoader(dataset, config["batch_size"], shuffle=True, drop_last=True)
        self.kd_loss = KDLoss(config["temperature"], config["alpha"]) if teacher is not None else None
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=1e-4)
        num_iterations = len(self.loader) // self.grad_accum_step
        num_training_steps = num_iterations * self.num_epochs
        num_warmup_steps = num_training_steps // 20

        def linear_with_warmup(step):
            if step < num_warmup_steps:
                return (step + 1) / max(1, num_warmup_steps)
            return max(0.0, (num_training_steps - step) / max(1, num_training_steps - num_warmup_steps))

        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, linear_with_warmup)
        self.stage_grad_count = 0

    def forward_process(self, x, y):
        logits = self.model(x)
        if self.teacher is None:
            return F.cross_entropy(logits, y)
        with torch.no_grad():
            teacher_logits = self.teacher(x)
        return self.kd_loss(logits, y, teacher_logits)

    def post_forward_process(self, loss):
        self.stage_grad_count += 1
        if self.grad_accum_step > 1:
            loss = loss / self.grad_accum_step
        loss.backward()
        if self.stage_grad_count % self.grad_accum_step == 0:
            target_params = [p for group in self.optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(target_params, self.max_grad_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()
        # step-wise scheduler step
        if self.scheduling_step > 0 and self.stage_grad_count % self.scheduling_step == 0:
            self.lr_scheduler.step()

    def train_one_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.loader:
            loss = self.forward_process(x, y)
            self.post_forward_process(loss)
            total += loss.item()
        return total / len(self.loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, hit, n = 0.0, 0, 0
    for x, y in loader:
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        hit += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hit / n


def run_stage(name, box, val_loader):
    for epoch in range(box.num_epochs):
        t0 = time.time()
        train_loss = box.train_one_epoch()
        val_loss, acc = evaluate(box.model, val_loader)
        print("%s epoch %2d: lr %.2e train loss %.4f val loss %.4f acc %.4f (%.1fs)"
              % (name, epoch, box.optimizer.param_groups[0]["lr"], train_loss, val_loss, acc, time.time() - t0), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--train_size", type=int, default=4096)
    p.add_argument("--val_size", type=int, default=1024)
    p.add_argument("--seed", type=int, default=21)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    train_set = make_dataset(args.train_size, 1)
    val_loader = DataLoader(make_dataset(args.val_size, 2), 256)
    teacher = ConvNet(CONFIG["teacher"]["width"])
    run_stage("teacher", TrainingBox(teacher, train_set, CONFIG["teacher"]), val_loader)
    teacher.eval()
    for param in teacher.parameters():
        param.requires_grad_(False)

    student = ConvNet(CONFIG["student"]["width"])
    run_stage("student", TrainingBox(student, train_set, CONFIG["student"], teacher), val_loader)


if __name__ == "__main__":
    main()
