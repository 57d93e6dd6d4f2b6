"""Dreamer on a small point-mass task: world model, imagination, actor and value."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class PointEnv:
    """Reach the goal on a plane; reward is felt near the goal only."""
    horizon = 30

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def obs(self):
        return np.concatenate([self.pos, self.goal, self.goal - self.pos]).astype(np.float32)

    def reset(self):
        self.pos, self.goal = self.rng.uniform(-1, 1, 2), self.rng.uniform(-0.8, 0.8, 2)
        self.t = 0
        return self.obs()

    def step(self, a):
        self.pos = np.clip(self.pos + 0.12 * np.clip(a, -1, 1), -1.2, 1.2)
        self.t += 1
        d = np.linalg.norm(self.pos - self.goal)
        return self.obs(), float(np.exp(-(d / 0.45) ** 2)), self.t >= self.horizon


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.ELU(), nn.Linear(h, h), nn.ELU(), nn.Linear(h, o))


class ActionDecoder(nn.Module):
    def __init__(self, latent, act):
        super().__init__()
        self.net = mlp(latent, 2 * act)

    def forward(self, z, sample=True):
        mean, std = self.net(z).chunk(2, -1)
        std = F.softplus(std) + 0.1
        return torch.tanh(mean + std * torch.randn_like(mean) if sample else mean)


class AgentModel(nn.Module):
    def __init__(self, obs=6, act=2, latent=32):
        super().__init__()
        self.observation_encoder = mlp(obs, latent)
        self.observation_decoder = mlp(latent, obs)
        self.transition = mlp(latent + act, latent)
        self.reward_model = nn.Sequential(mlp(latent, 1), nn.Sigmoid())
        self.action_decoder = ActionDecoder(latent, act)
        self.value_model = mlp(latent, 1)

    def dynamics(self, z, a):
        return z + 0.3 * torch.tanh(self.transition(torch.cat([z, a], -1)))


def get_parameters(modules):
    return [p for module in modules for p in module.parameters()]


class FreezeParameters:
    def __init__(self, modules):
        self.params = get_parameters(modules)

    def __enter__(self):
        for p in self.params:
            p.requires_grad = False

    def __exit__(self, *exc):
        for p in self.params:
            p.requires_grad = True


def compute_return(reward, value, discount, lam, bootstrap):
    nxt = torch.cat([value[1:], bootstrap[None]], 0)
    target = reward + discount * nxt * (1 - lam)
    out, last = [], bootstrap
    for t in reversed(range(len(reward))):
        last = target[t] + discount * lam * last
        out.append(last)
    return torch.stack(out[::-1])


class Dreamer:
    def __init__(self, args):
        self.args = args
        self.agent = AgentModel()
        self.optim_initialize()

    def optim_initialize(self):
        m = self.agent
        self.model_modules = [m.observation_encoder, m.observation_decoder, m.reward_model, m.transition]
        self.actor_modules = [m.action_decoder]
        self.value_modules = [m.value_model]
        self.model_optimizer = torch.optim.Adam(get_parameters(self.model_modules), lr=self.args.model_lr)
        self.actor_optimizer = torch.optim.Adam(get_parameters(self.actor_modules), lr=self.args.actor_lr)
        self.value_optimizer = torch.optim.Adam(get_parameters(self.value_modules), lr=self.args.value_lr)

    def loss(self, obs, act, rew):
        m, a = self.agent, self.args
        z = m.observation_encoder(obs[:, 0])
        recon = F.mse_loss(m.observation_decoder(z), obs[:, 0])
        pred_r, zs = 0, [z]
        for t in range(act.shape[1]):
            z = m.dynamics(z, act[:, t])
            enc = m.observation_encoder(obs[:, t + 1])
            recon = recon + F.mse_loss(m.observation_decoder(z), obs[:, t + 1]) + 0.1 * F.mse_loss(z, enc.detach())
            pred_r = pred_r + F.mse_loss(m.reward_model(z).squeeze(-1), rew[:, t])
            zs.append(enc)
        model_loss = (recon + 5 * pred_r) / act.shape[1]
        start = torch.cat(zs).detach()
        with FreezeParameters(self.model_modules + self.value_modules):
            z, imag, reward = start, [], []
            for _ in range(a.horizon):
                z = m.dynamics(z, m.action_decoder(z))
                imag.append(z)
                reward.append(m.reward_model(z).squeeze(-1))
            imag, reward = torch.stack(imag), torch.stack(reward)
            value = m.value_model(imag).squeeze(-1)
            returns = compute_return(reward[:-1], value[:-1], a.discount, a.discount_lambda, value[-1])
            discount = a.discount ** torch.arange(len(returns)).float()[:, None]
            actor_loss = -(discount * returns).mean()
        pred = m.value_model(imag[:-1].detach()).squeeze(-1)
        value_loss = 0.5 * (discount * (pred - returns.detach()) ** 2).mean()
        return model_loss, actor_loss, value_loss, pred.mean(), returns.mean()

    def optimize(self, batch):
        model_loss, actor_loss, value_loss, v, r = self.loss(*batch)
        for optimizer in (self.model_optimizer, self.actor_optimizer, self.value_optimizer):
            optimizer.zero_grad()
        model_loss.backward()
        actor_loss.backward()
        value_loss.backward()
        for modules in (self.model_modules, self.actor_modules, self.value_modules):
            torch.nn.utils.clip_grad_norm_(get_parameters(modules), self.args.grad_clip)
        for optimizer in (self.model_optimizer, self.actor_optimizer, self.value_optimizer):
            optimizer.step()
        return [x.item() for x in (model_loss, actor_loss, value_loss, v, r)]


@torch.no_grad()
def rollout(env, agent, rng, mode):
    obs, acts, rews, done = [env.reset()], [], [], False
    while not done:
        z = agent.observation_encoder(torch.from_numpy(obs[-1])[None])
        a = rng.uniform(-1, 1, 2) if mode == 'random' else agent.action_decoder(z, sample=mode == 'train')[0].numpy()
        o, r, done = env.step(a)
        obs.append(o)
        acts.append(a)
        rews.append(r)
    return np.array(obs, np.float32), np.array(acts, np.float32), np.array(rews, np.float32)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--iterations', type=int, default=14)
    ap.add_argument('--train_steps', type=int, default=40)
    ap.add_argument('--batch_size', type=int, default=24)
    ap.add_argument('--batch_length', type=int, default=5)
    ap.add_argument('--horizon', type=int, default=6)
    ap.add_argument('--discount', type=float, default=0.9)
    ap.add_argument('--discount_lambda', type=float, default=0.95)
    ap.add_argument('--model_lr', type=float, default=3e-3)
    ap.add_argument('--actor_lr', type=float, default=1e-3)
    ap.add_argument('--value_lr', type=float, default=1e-3)
    ap.add_argument('--grad_clip', type=float, default=100.0)
    ap.add_argument('--seed', type=int, default=1)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    t0 = time.time()
    env, eval_env, algo = PointEnv(args.seed), PointEnv(1000), Dreamer(args)
    replay = [rollout(env, algo.agent, rng, 'random') for _ in range(120)]
    for it in range(args.iterations):
        log = []
        for _ in range(args.train_steps):
            ep = rng.integers(0, len(replay), args.batch_size)
            st = rng.integers(0, env.horizon - args.batch_length + 1, args.batch_size)
            L = args.batch_length
            batch = (np.stack([replay[e][0][s:s + L + 1] for e, s in zip(ep, st)]),
                     np.stack([replay[e][1][s:s + L] for e, s in zip(ep, st)]),
                     np.stack([replay[e][2][s:s + L] for e, s in zip(ep, st)]))
            log.append(algo.optimize([torch.from_numpy(b) for b in batch]))
        replay += [rollout(env, algo.agent, rng, 'train') for _ in range(4)]
        ret = np.mean([rollout(eval_env, algo.agent, rng, 'eval')[2].sum() for _ in range(10)])
        ml, al, vl, v, r = np.mean(log, 0)
        print('iter %d model_loss %.4f actor_loss %.4f value_loss %.4f | value %.3f imagined return %.3f | eval return %.2f' % (
            it, ml, al, vl, v, r, ret), flush=True)
    print('time %.1f' % (time.time() - t0))


if __name__ == '__main__':
    main()
