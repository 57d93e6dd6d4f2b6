"""N-BEATS on a stream of synthetic seasonal series."""
import os
from argparse import ArgumentParser

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F

CHECKPOINT_NAME = 'nbeats-training-checkpoint.th'


def get_script_arguments():
    parser = ArgumentParser()
    parser.add_argument('--forecast-length', type=int, default=24)
    parser.add_argument('--backcast-length', type=int, default=72)
    parser.add_argument('--batch-size', type=int, default=512)
    parser.add_argument('--hidden-units', type=int, default=256)
    parser.add_argument('--grad-steps', type=int, default=60000)
    parser.add_argument('--lr', type=float, default=5e-4)
    parser.add_argument('--test-every', type=int, default=250)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--work-dir', default='nbeats_runs')
    return parser.parse_args()


def get_data(num_samples, backcast_length, forecast_length, rng):
    """Yield (history, future) batches; sales-like series with growth, two seasons and noise."""
    length = backcast_length + forecast_length
    t = np.arange(length)[None, :]
    shape = (num_samples, 1)

    while True:
        omega = 2 * np.pi / rng.choice([7, 12, 24], shape)
        level = rng.uniform(2.0, 20.0, shape)
        growth = rng.normal(0.0, 0.01, shape)
        x = level * np.exp(growth * (t - backcast_length))
        x = x * (1 + rng.uniform(0.1, 0.5, shape) * np.sin(omega * t + rng.uniform(0, 2 * np.pi, shape))
                 + rng.uniform(0.0, 0.2, shape) * np.sin(2 * omega * t + rng.uniform(0, 2 * np.pi, shape)))
        # growth changes at a random time
        knee = rng.integers(backcast_length // 2, length, shape)
        x = x * np.exp(rng.normal(0.0, 0.02, shape) * np.maximum(t - knee, 0))
        x = x + 0.03 * level * rng.standard_normal((num_samples, length))
        x = torch.tensor(x, dtype=torch.float32)
        history = x[:, :backcast_length]
        x = x - history.amin(dim=1, keepdim=True).clamp(max=0)
        x = x / history.abs().amax(dim=1, keepdim=True)
        yield x[:, :backcast_length], x[:, backcast_length:]


class Block(nn.Module):
    def __init__(self, units, thetas_dim, backcast_length, forecast_length):
        super().__init__()
        self.fc1 = nn.Linear(backcast_length, units)
        self.fc2 = nn.Linear(units, units)
        self.fc3 = nn.Linear(units, units)
        self.fc4 = nn.Linear(units, units)
        self.theta = nn.Linear(units, thetas_dim)

    def stem(self, x):
        for fc in (self.fc1, self.fc2, self.fc3, self.fc4):
            x = F.relu(fc(x))
        return x


def time_grid(backcast_length, forecast_length):
    grid = torch.arange(backcast_length + forecast_length, dtype=torch.float32) / (backcast_length + forecast_length)
    return grid[:backcast_length], grid[backcast_length:]


class TrendBlock(Block):
    def __init__(self, units, backcast_length, forecast_length, degree=4):
        super().__init__(units, 2 * degree, backcast_length, forecast_length)
        back, fore = time_grid(backcast_length, forecast_length)
        self.register_buffer('back_basis', torch.stack([back ** i for i in range(degree)]))
        self.register_buffer('fore_basis', torch.stack([fore ** i for i in range(degree)]))

    def forward(self, x):
        b, f = self.theta(self.stem(x)).chunk(2, dim=1)
        return b @ self.back_basis, f @ self.fore_basis


class SeasonalityBlock(Block):
    def __init__(self, units, backcast_length, forecast_length, harmonics=16):
        super().__init__(units, 4 * harmonics, backcast_length, forecast_length)
        back, fore = time_grid(backcast_length, forecast_length)
        k = torch.arange(1, harmonics + 1, dtype=torch.float32)[:, None]
        self.register_buffer('back_basis', torch.cat([torch.cos(2 * np.pi * k * back), torch.sin(2 * np.pi * k * back)]))
        self.register_buffer('fore_basis', torch.cat([torch.cos(2 * np.pi * k * fore), torch.sin(2 * np.pi * k * fore)]))

    def forward(self, x):
        b, f = self.theta(self.stem(x)).chunk(2, dim=1)
        return b @ self.back_basis, f @ self.fore_basis


class GenericBlock(Block):
    def __init__(self, units, backcast_length, forecast_length, thetas_dim=32):
        super().__init__(units, thetas_dim, backcast_length, forecast_length)
        self.back_fc = nn.Linear(thetas_dim, backcast_length)
        self.fore_fc = nn.Linear(thetas_dim, forecast_length)

    def forward(self, x):
        theta = F.relu(self.theta(self.stem(x)))
        return self.back_fc(theta), self.fore_fc(theta)


class NBeatsNet(nn.Module):
    def __init__(self, backcast_length, forecast_length, units, blocks_per_stack=2):
        super().__init__()
        self.forecast_length = forecast_length
        blocks = []
        for block_type in (TrendBlock, SeasonalityBlock, GenericBlock):
            blocks += [block_type(units, backcast_length, forecast_length) for _ in range(blocks_per_stack)]
        self.blocks = nn.ModuleList(blocks)

    def forward(self, backcast):
        forecast = backcast.new_zeros(backcast.size(0), self.forecast_length)
        for block in self.blocks:
            b, f = block(backcast)
            backcast = backcast - b
            forecast = forecast + f
        return backcast, forecast


def save(path, model, optimiser, scheduler, grad_step):
    torch.save({'grad_step': grad_step, 'model_state_dict': model.state_dict(),
                'optimizer_state_dict': optimiser.state_dict(), 'scheduler_state_dict': scheduler.state_dict()}, path)


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    mse = np.mean([F.mse_loss(model(x)[1], y).item() for x, y in batches])
    mape = np.mean([((model(x)[1] - y).abs() / y.abs().clamp(min=0.1)).mean().item() for x, y in batches])
    naive = np.mean([F.mse_loss(x[:, -1:].expand_as(y), y).item() for x, y in batches])
    model.train()
    return mse, mape, naive


def main():
    args = get_script_arguments()
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.work_dir, exist_ok=True)

    train_gen = get_data(args.batch_size, args.backcast_length, args.forecast_length, np.random.default_rng(args.seed))
    test_gen = get_data(args.batch_size, args.backcast_length, args.forecast_length, np.random.default_rng(args.seed + 1))
    test_batches = [next(test_gen) for _ in range(4)]

    net = NBeatsNet(args.backcast_length, args.forecast_length, args.hidden_units)
    optimiser = optim.Adam(net.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.MultiStepLR(optimiser, [args.grad_steps // 2, args.grad_steps * 3 // 4, args.grad_steps * 9 // 10], 0.3)

    for grad_step in range(1, args.grad_steps + 1):
        x, target = next(train_gen)
        optimiser.zero_grad()
        _, forecast = net(x)
        loss = F.mse_loss(forecast, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        scheduler.step()
        if grad_step % 50 == 0:
            print(f'grad_step = {grad_step:06d}, loss = {loss.item():.6f}', flush=True)
        if grad_step % args.test_every == 0:
            mse, mape, naive = evaluate(net, test_batches)
            print(f'test: mse = {mse:.6f} mape = {mape:.4f} (last value repeated: {naive:.6f})', flush=True)
            save(os.path.join(args.work_dir, CHECKPOINT_NAME), net, optimiser, scheduler, grad_step)


if __name__ == '__main__':
    main()
