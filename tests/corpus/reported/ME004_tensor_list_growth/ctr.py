"""Multi-task click model with windowed metrics."""
import argparse
import time
from typing import Dict, List

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


class ClickLog:
    """An endless stream of impressions: id features, dense features, labels of several tasks."""

    def __init__(self, tables: List[int], dense: int, tasks: int, seed: int):
        self.rng = np.random.default_rng(seed)
        hidden = np.random.default_rng(99)
        self.tables = tables
        self.vectors = [hidden.normal(0, 1, (n, 6)) for n in tables]
        self.w_dense = hidden.normal(0, 0.4, (dense, tasks))
        self.heads = hidden.normal(0, 0.6, (tasks, 6))
        self.dense = dense

    def batch(self, n: int):
        # popular ids come more often
        ids = np.stack([(self.rng.random(n) ** 3 * t).astype(np.int64) for t in self.tables], axis=1)
        dense = self.rng.standard_normal((n, self.dense))
        user = self.vectors[0][ids[:, 0]]
        item = sum(v[ids[:, k]] for k, v in enumerate(self.vectors) if k) / np.sqrt(len(self.tables) - 1)
        logits = (user * item) @ self.heads.T + dense @ self.w_dense - 1.0
        labels = (self.rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)
        weights = self.rng.uniform(0.5, 1.5, logits.shape).astype(np.float32)
        return (torch.from_numpy(ids), torch.from_numpy(dense).float(),
                torch.from_numpy(labels), torch.from_numpy(weights))


class MultiTaskModel(nn.Module):
    def __init__(self, tables: List[int], dim: int, dense: int, tasks: int):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, dim) for n in tables])
        for e in self.embeddings:
            nn.init.normal_(e.weight, std=0.1)
        self.dense_arch = nn.Sequential(nn.Linear(dense, 32), nn.ReLU(), nn.Linear(32, dim), nn.ReLU())
        pairs = (len(tables) + 1) * len(tables) // 2
        self.register_buffer('pairs', torch.triu_indices(len(tables) + 1, len(tables) + 1, 1), persistent=False)
        self.over = nn.Sequential(nn.Linear(pairs + (len(tables) + 1) * dim, 96), nn.ReLU(),
                                  nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, tasks))

    def forward(self, ids, dense):
        fields = torch.stack([e(ids[:, k]) for k, e in enumerate(self.embeddings)] + [self.dense_arch(dense)], dim=1)
        dots = torch.bmm(fields, fields.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.over(torch.cat([dots, fields.flatten(1)], dim=1))


def compute_auc(predictions: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """weighted AUC of every task, inputs [n_tasks, n_examples]"""
    order = torch.argsort(predictions, dim=1, descending=True)
    labels, weights = labels.gather(1, order), weights.gather(1, order)
    fp = torch.cumsum(weights * (1.0 - labels), dim=1)
    tp = torch.cumsum(weights * labels, dim=1)
    auc = torch.trapezoid(tp, fp, dim=1) / (fp[:, -1] * tp[:, -1])
    return torch.where(fp[:, -1] * tp[:, -1] == 0, torch.full_like(auc, 0.5), auc)


class AUCMetric:
    """AUC over the last window_size examples."""

    def __init__(self, n_tasks: int, window_size: int):
        self.n_tasks, self._window_size = n_tasks, window_size
        self._num_samples = 0
        self._state: Dict[str, List[torch.Tensor]] = {'predictions': [], 'labels': [], 'weights': []}

    @torch.no_grad()
    def update(self, predictions: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> None:
        # the tensors are only joined when the metric is computed
        for name, value in (('predictions', predictions), ('labels', labels), ('weights', weights)):
            self._state[name].append(value.detach().double())
        self._num_samples += predictions.size(-1)

    @torch.no_grad()
    def compute(self) -> List[float]:
        joined = {name: torch.cat(values, dim=-1)[:, -self._window_size:] for name, values in self._state.items()}
        return compute_auc(joined['predictions'], joined['labels'], joined['weights']).tolist()


class NEMetric:
    """Normalised entropy since the start."""

    def __init__(self, n_tasks: int):
        self.cross_entropy = torch.zeros(n_tasks, dtype=torch.double)
        self.positive, self.total = torch.zeros(n_tasks, dtype=torch.double), torch.zeros(n_tasks, dtype=torch.double)

    @torch.no_grad()
    def update(self, predictions, labels, weights):
        p = predictions.double().clamp(1e-7, 1 - 1e-7)
        ce = -(labels * p.log() + (1 - labels) * (1 - p).log())
        self.cross_entropy += (weights * ce).sum(-1)
        self.positive += (weights * labels).sum(-1)
        self.total += weights.sum(-1)

    def compute(self):
        ctr = self.positive / self.total
        base = -(ctr * ctr.log() + (1 - ctr) * (1 - ctr).log())
        return (self.cross_entropy / self.total / base).tolist()


class RecMetricModule:
    def __init__(self, n_tasks: int, window_size: int, compute_interval_steps: int):
        self.metrics = {'auc': AUCMetric(n_tasks, window_size), 'ne': NEMetric(n_tasks)}
        self.compute_interval_steps = compute_interval_steps
        self.trained_batches = 0

    def update(self, logits, labels, weights) -> None:
        predictions = torch.sigmoid(logits.detach()).T
        for metric in self.metrics.values():
            metric.update(predictions, labels.T, weights.T)
        self.trained_batches += 1

    def should_compute(self) -> bool:
        return self.trained_batches % self.compute_interval_steps == 0

    def compute(self):
        return {name: metric.compute() for name, metric in self.metrics.items()}


@torch.no_grad()
def evaluate(model, log, batches, batch_size):
    model.eval()
    outs = [(torch.sigmoid(model(ids, dense)), labels, weights)
            for ids, dense, labels, weights in (log.batch(batch_size) for _ in range(batches))]
    model.train()
    return compute_auc(*(torch.cat(t).T.double() for t in zip(*outs))).tolist()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=1000)
    parser.add_argument('--batch-size', type=int, default=2048)
    parser.add_argument('--tasks', type=int, default=4)
    parser.add_argument('--dim', type=int, default=16)
    parser.add_argument('--window-size', type=int, default=20480)
    parser.add_argument('--compute-interval-steps', type=int, default=50)
    parser.add_argument('--lr', type=float, default=4e-3)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    tables = [2000, 1000, 300, 50]
    train_log, eval_log = ClickLog(tables, 8, args.tasks, args.seed), ClickLog(tables, 8, args.tasks, args.seed + 1)
    model = MultiTaskModel(tables, args.dim, 8, args.tasks)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.BCEWithLogitsLoss(reduction='none')
    metrics = RecMetricModule(args.tasks, args.window_size, args.compute_interval_steps)

    show = lambda values: ' '.join('%.4f' % v for v in values)
    start = time.time()
    for step in range(1, args.steps + 1):
        ids, dense, labels, weights = train_log.batch(args.batch_size)
        logits = model(ids, dense)
        loss = (criterion(logits, labels) * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.update(logits, labels, weights)
        if metrics.should_compute():
            values = metrics.compute()
            print('step %4d  loss %.4f  window auc %s  lifetime ne %s  (%.1fs)' % (
                step, loss.item(), show(values['auc']), show(values['ne']), time.time() - start))
    print('held-out auc ' + show(evaluate(model, eval_log, 10, args.batch_size)))


if __name__ == '__main__':
    main()
