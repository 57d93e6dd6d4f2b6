"""System identification: learns the Hamiltonian of a coupled pendulum from trajectories and evaluates rollouts."""
import argparse
import resource
import time
from typing import Dict, List, Optional, Tuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset


def true_field(x: np.ndarray) -> np.ndarray:
    """Two pendulums with a weak spring between them, x = (q1, q2, p1, p2)."""
    q1, q2, p1, p2 = np.moveaxis(x, -1, 0)
    return np.stack([p1, p2 / 0.8, -np.sin(q1) * 1.5 - 0.4 * (q1 - q2), -np.sin(q2) * 1.2 + 0.4 * (q1 - q2)], -1)


def generate_trajectories(n: int, group: int, length: int, dt: float, seed: int) -> List[Tensor]:
    """Each trajectory file holds `group` tosses, shape (group, length, 4)."""
    rng = np.random.RandomState(seed)
    out = []
    for _ in range(n):
        x = np.concatenate([rng.uniform(-1.5, 1.5, (group, 2)), rng.uniform(-1, 1, (group, 2))], 1)
        traj = [x]
        for _ in range(length - 1):
            for _ in range(4):
                h = dt / 4
                k1 = true_field(x)
                k2 = true_field(x + h / 2 * k1)
                k3 = true_field(x + h / 2 * k2)
                k4 = true_field(x + h * k3)
                x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            traj.append(x)
        t = np.stack(traj, 1) + rng.normal(0, 0.003, (group, length, 4))
        out.append(torch.tensor(t, dtype=torch.float32))
    return out


class System(nn.Module):
    """Hamiltonian network. The field is the rotated gradient of H, so it needs autograd in every step."""

    def __init__(self, hidden: int, dt: float):
        super().__init__()
        self.dt = dt
        self.hamiltonian = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                         nn.Linear(hidden, 1, bias=False))

    def field(self, x: Tensor) -> Tensor:
        if not x.requires_grad:
            x = x.requires_grad_()
        h = self.hamiltonian(x).sum()
        dh = torch.autograd.grad(h, x, create_graph=True)[0]
        return torch.cat([dh[..., 2:], -dh[..., :2]], -1)

    def sim_step(self, x: Tensor) -> Tensor:
        # explicit midpoint
        mid = x + 0.5 * self.dt * self.field(x)
        return x + self.dt * self.field(mid)

    def simulate(self, x_0: Tensor, steps: int) -> Tensor:
        """Rolls out from x_0 (batch, 4), returns (batch, steps + 1, 4)."""
        x, out = x_0.clone(), [x_0]
        for _ in range(steps):
            x = self.sim_step(x)
            out.append(x)
        return torch.stack(out, -2)


class SupervisedLearningExperiment:
    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.sets: Dict[str, List[Tensor]] = {
            'train': generate_trajectories(args.n_train, args.group, args.length, args.dt, 1),
            'valid': generate_trajectories(args.n_valid, args.group, args.length, args.dt, 2)}
        self.system = System(args.hidden, args.dt)
        self.optimizer = torch.optim.Adam(self.system.parameters(), lr=args.lr)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, args.lr_decay)

    def slices(self) -> DataLoader:
        """All windows of `horizon + 1` states of the training trajectories."""
        k = self.args.horizon + 1
        x, y = [], []
        for traj in self.sets['train']:
            for s in range(0, traj.shape[1] - k + 1, 2):
                x.append(traj[:, s])
                y.append(traj[:, s + 1:s + k])
        return DataLoader(TensorDataset(torch.cat(x), torch.cat(y)), batch_size=self.args.batch_size, shuffle=True,
                          drop_last=True)

    def batch_loss(self, x: Tensor, y: Tensor, system: System) -> Tensor:
        prediction = system.simulate(x, self.args.horizon)[:, 1:]
        return (prediction - y).pow(2).sum(-1).mean()

    def train_epoch(self, data: DataLoader, system: System, optimizer: Optional[Optimizer] = None) -> Tensor:
        losses = []
        for x_i, y_i in data:
            if optimizer is not None:
                optimizer.zero_grad()
            loss = self.batch_loss(x_i, y_i, system)
            losses.append(loss.clone().detach())
            if optimizer is not None:
                loss.backward()
                optimizer.step()
        return cast(Tensor, sum(losses) / len(losses))

    def trajectory_predict(self, x: List[Tensor], system: System,
                           do_detach: bool = False) -> Tuple[List[Tensor], List[Tensor]]:
        """Predict from full lists of trajectories.

        Args:
            x: List of ``(group, T, 4)`` trajectories.
            system: System to run prediction on.
            do_detach: Whether to detach each prediction from the computation graph.

        Returns:
            List of ``(group, T - 1, 4)`` predicted trajectories.
            List of ``(group, T - 1, 4)`` target trajectories.
        """
        x_0 = [x_i[:, 0] for x_i in x]
        targets = [x_i[:, 1:] for x_i in x]
        prediction_horizon = [t.shape[1] for t in targets]
        predictions = []
        for x_0_i, horizon_i in zip(x_0, prediction_horizon):
            x_prediction_i = system.simulate(x_0_i, horizon_i)
            if do_detach:
                predictions.append(x_prediction_i[..., 1:, :].detach().clone())
                del x_prediction_i
            else:
                predictions.append(x_prediction_i[..., 1:, :])
        return predictions, targets

    def evaluate_systems_on_sets(self, names: List[str]) -> Dict[str, float]:
        stats = {}
        self.system.eval()
        for name in names:
            traj_pred, traj_target = self.trajectory_predict(self.sets[name], self.system, True)
            err = [(p - t).norm(dim=-1) for p, t in zip(traj_pred, traj_target)]
            stats[f'{name}_pos_error'] = float(np.mean([e.mean().item() for e in err]))
            stats[f'{name}_final_error'] = float(np.mean([e[:, -1].mean().item() for e in err]))
        self.system.train()
        return stats

    def train(self) -> None:
        start, step = time.time(), 0
        data = self.slices()
        for epoch in range(1, self.args.epochs + 1):
            loss = self.train_epoch(data, self.system, self.optimizer)
            self.scheduler.step()
            step += len(data)
            print(f'epoch {epoch:3d} step {step:5d} train loss {loss.item():.6f} ({time.time() - start:.0f}s)')
            if epoch % self.args.eval_every == 0 and epoch != self.args.epochs:
                stats = self.evaluate_systems_on_sets(['valid'])
                print('    ' + ' '.join(f'{k}: {v:.4f}' for k, v in stats.items()))
        stats = self.evaluate_systems_on_sets(['train', 'valid'])
        print('final evaluation ' + ' '.join(f'{k}: {v:.4f}' for k, v in stats.items()))
        print(f'done in {time.time() - start:.0f}s, peak memory '
              f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--n_train', type=int, default=40)
    parser.add_argument('--n_valid', type=int, default=30)
    parser.add_argument('--group', type=int, default=24)
    parser.add_argument('--length', type=int, default=60)
    parser.add_argument('--dt', type=float, default=0.1)
    parser.add_argument('--horizon', type=int, default=3)
    parser.add_argument('--hidden', type=int, default=96)
    parser.add_argument('--batch_size', type=int, default=128)
    parser.add_argument('--epochs', type=int, default=5)
    parser.add_argument('--eval_every', type=int, default=1)
    parser.add_argument('--lr', type=float, default=3e-3)
    parser.add_argument('--lr_decay', type=float, default=0.5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    SupervisedLearningExperiment(args).train()


if __name__ == '__main__':
    main()
