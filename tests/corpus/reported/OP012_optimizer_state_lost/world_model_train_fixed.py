"""Dreamer-style agent: a recurrent world model and an actor-critic trained on imagined latents, in restartable chunks."""
import argparse
import pathlib
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OBS, ACT, T = 8, 2, 16

def collect_episodes(n, seed):
    """A damped two-joint arm seen through a fixed nonlinear sensor, driven by smooth random actions."""
    sensor = np.random.default_rng(0).normal(size=(4, OBS))
    rng = np.random.default_rng(seed)
    q, v, a = rng.uniform(-1, 1, (n, 2)), np.zeros((n, 2)), np.zeros((n, ACT))
    obs, act, rew = [], [], []
    for _ in range(T):
        a = np.clip(0.7 * a + 0.5 * rng.normal(size=a.shape), -1, 1)
        v = 0.85 * v + 0.25 * a - 0.1 * np.sin(2 * q)
        q = q + 0.3 * v
        obs.append(np.tanh(np.concatenate([q, v], 1) @ sensor) + 0.02 * rng.normal(size=(n, OBS)))
        act.append(a)
        rew.append(np.exp(-2 * (q ** 2).sum(1)))
    return [torch.from_numpy(np.stack(x, 1).astype(np.float32)) for x in (obs, act, rew)]

class Optimizer:
    """Gradient clipping around Adam, one per group of networks."""

    def __init__(self, name, parameters, lr, clip):
        self._name, self._parameters, self._clip = name, list(parameters), clip
        self._opt = torch.optim.Adam(self._parameters, lr=lr, eps=1e-8)

    def __call__(self, loss):
        self._opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._parameters, self._clip)
        self._opt.step()
        return {f'{self._name}_loss': loss.item(), f'{self._name}_grad_norm': norm.item()}

def mlp(n_in, n_out, units=128):
    return nn.Sequential(nn.Linear(n_in, units), nn.SiLU(), nn.Linear(units, units), nn.SiLU(), nn.Linear(units, n_out))

class WorldModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.stoch, self.deter = config.stoch, config.deter
        self.encoder = mlp(OBS, 64)
        self.inp = nn.Linear(self.stoch + ACT, self.deter)
        self.cell = nn.GRUCell(self.deter, self.deter)
        self.prior = mlp(self.deter, 2 * self.stoch)
        self.post = mlp(self.deter + 64, 2 * self.stoch)
        self.heads = nn.ModuleDict({'decoder': mlp(self.deter + self.stoch, OBS), 'reward': mlp(self.deter + self.stoch, 1)})
        self._model_opt = Optimizer('model', self.parameters(), config.model_lr, 100.0)

    @staticmethod
    def dist(x):
        mean, std = x.chunk(2, -1)
        return torch.distributions.Normal(mean, F.softplus(std) + 0.1)

    def img_step(self, stoch, deter, action):
        deter = self.cell(F.silu(self.inp(torch.cat([stoch, action], -1))), deter)
        return self.dist(self.prior(deter)), deter

    def _train(self, obs, action, reward):
        B = obs.shape[0]
        stoch, deter = obs.new_zeros(B, self.stoch), obs.new_zeros(B, self.deter)
        embed, feats, kl = self.encoder(obs), [], 0.0
        for t in range(T):
            prior, deter = self.img_step(stoch, deter, action[:, t])
            post = self.dist(self.post(torch.cat([deter, embed[:, t]], -1)))
            stoch = post.rsample()
            feats.append(torch.cat([stoch, deter], -1))
            kl = kl + torch.distributions.kl_divergence(post, prior).sum(-1).clamp(min=0.3).mean() / T
        feat = torch.stack(feats, 1)
        recon = 50 * (self.heads['decoder'](feat) - obs).pow(2).sum(-1).mean()
        rew = 10 * (self.heads['reward'](feat).squeeze(-1) - reward).pow(2).mean()
        metrics = self._model_opt(recon + rew + kl)
        metrics.update(recon=recon.item(), reward=rew.item(), kl=kl.item())
        return feat.detach().flatten(0, 1), metrics

class ImagBehavior(nn.Module):
    def __init__(self, config, world_model):
        super().__init__()
        self._wm, n = [world_model], config.stoch + config.deter
        self.actor, self.value = mlp(n, ACT), mlp(n, 1)
        self._actor_opt = Optimizer('actor', self.actor.parameters(), config.ac_lr, 10.0)
        self._value_opt = Optimizer('value', self.value.parameters(), config.ac_lr, 10.0)

    def _train(self, start, horizon=5, discount=0.9):
        wm = self._wm[0]
        start = start[torch.randperm(len(start))[:128]]
        stoch, deter = start.split([wm.stoch, wm.deter], -1)
        feats, rewards = [start], []
        for _ in range(horizon):
            prior, deter = wm.img_step(stoch, deter, torch.tanh(self.actor(feats[-1])))
            stoch = prior.mean
            feats.append(torch.cat([stoch, deter], -1))
            rewards.append(wm.heads['reward'](feats[-1]).squeeze(-1))
        target = self.value(feats[-1]).squeeze(-1)
        for r in reversed(rewards):
            target = r + discount * target
        metrics = self._actor_opt(-target.mean())
        metrics.update(self._value_opt((self.value(feats[0]).squeeze(-1) - target.detach()).pow(2).mean()))
        return metrics

class Dreamer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self._wm = WorldModel(config)
        self._task_behavior = ImagBehavior(config, self._wm)

    def optimizers(self):
        behavior = self._task_behavior
        return {'model': self._wm._model_opt._opt, 'actor': behavior._actor_opt._opt, 'value': behavior._value_opt._opt}

    def _train(self, batch):
        start, metrics = self._wm._train(*batch)
        metrics.update(self._task_behavior._train(start))
        return metrics

def run_chunk(config, logdir, data):
    torch.manual_seed(0)
    agent, step = Dreamer(config), 0
    if (logdir / 'latest.pt').exists():
        checkpoint = torch.load(logdir / 'latest.pt')
        agent.load_state_dict(checkpoint['agent_state_dict'])
        for name, opt in agent.optimizers().items():
            opt.load_state_dict(checkpoint['optims_state_dict'][name])
        torch.set_rng_state(checkpoint['rng_state'])
        step = checkpoint['step']
        print(f'continue from step {step}')
    end, logs = min(config.steps, step + config.steps_per_chunk), []
    while step < end:
        idx = torch.randint(len(data[0]), (config.batch_size,))
        logs.append(agent._train([x[idx] for x in data]))
        step += 1
        if step % config.log_every == 0:
            print(f'[{step}] ' + ' / '.join(f'{k} {np.mean([m[k] for m in logs]):.3f}' for k in logs[0]))
            logs = []
        if step % config.eval_every == 0 or step == end:
            items_to_save = {'agent_state_dict': agent.state_dict(),
                             'optims_state_dict': {name: opt.state_dict() for name, opt in agent.optimizers().items()},
                             'rng_state': torch.get_rng_state(), 'step': step}
            torch.save(items_to_save, logdir / 'latest.pt')
    return step

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', default=None)
    for key, value in dict(steps=1000, steps_per_chunk=500, eval_every=100, log_every=20, batch_size=32, stoch=16, deter=96).items():
        parser.add_argument(f'--{key}', type=int, default=value)
    for key, value in dict(model_lr=1e-3, ac_lr=3e-4).items():
        parser.add_argument(f'--{key}', type=float, default=value)
    config = parser.parse_args()
    logdir = pathlib.Path(config.out or tempfile.mkdtemp())
    logdir.mkdir(parents=True, exist_ok=True)
    data, step = collect_episodes(2000, seed=1), 0
    while step < config.steps:
        step = run_chunk(config, logdir, data)
