"""Soft actor-critic on a torque-limited pendulum swing-up."""
import argparse
import os
import tempfile

import numpy as np
import torch as T
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

T.distributions.Distribution.set_default_validate_args(False)

class PendulumEnv:
    """Pendulum with observation (cos, sin, speed) and one torque in [-2, 2]."""

    high = np.array([2.0], dtype=np.float32)
    obs_shape, n_actions, max_steps = (3,), 1, 200

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def _obs(self):
        return np.array([np.cos(self.th), np.sin(self.th), self.thdot / 4.0], dtype=np.float32)

    def reset(self):
        self.th, self.thdot, self.t = self.rng.uniform(-np.pi, np.pi), self.rng.uniform(-1, 1), 0
        return self._obs()

    def step(self, action):
        u = float(np.clip(action[0], -2.0, 2.0))
        angle = ((self.th + np.pi) % (2 * np.pi)) - np.pi
        cost = angle ** 2 + 0.1 * self.thdot ** 2 + 0.001 * u ** 2
        self.thdot = float(np.clip(self.thdot + (15.0 * np.sin(self.th) + 3.0 * u) * 0.05, -8, 8))
        self.th += self.thdot * 0.05
        self.t += 1
        return self._obs(), -cost / 8.0, self.t >= self.max_steps

class ReplayBuffer:
    def __init__(self, max_size, input_shape, n_actions):
        self.mem_size, self.mem_cntr = max_size, 0
        self.state_memory = np.zeros((max_size, *input_shape), dtype=np.float32)
        self.new_state_memory = np.zeros((max_size, *input_shape), dtype=np.float32)
        self.action_memory = np.zeros((max_size, n_actions), dtype=np.float32)
        self.reward_memory = np.zeros(max_size, dtype=np.float32)

    def store_transition(self, state, action, reward, state_):
        i = self.mem_cntr % self.mem_size
        self.state_memory[i], self.new_state_memory[i] = state, state_
        self.action_memory[i], self.reward_memory[i] = action, reward
        self.mem_cntr += 1

    def sample_buffer(self, batch_size):
        batch = np.random.choice(min(self.mem_cntr, self.mem_size), batch_size)
        return [T.from_numpy(m[batch]) for m in (self.state_memory, self.action_memory,
                                                 self.reward_memory, self.new_state_memory)]

def mlp(n_in, n_out, width):
    return nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, n_out))

class ActorNetwork(nn.Module):
    def __init__(self, alpha, input_dims, width, max_action, n_actions):
        super().__init__()
        self.max_action = T.tensor(max_action)
        self.reparam_noise = 1e-6
        self.fc1 = nn.Linear(*input_dims, width)
        self.fc2 = nn.Linear(width, width)
        self.mu, self.sigma = nn.Linear(width, n_actions), nn.Linear(width, n_actions)
        nn.init.constant_(self.sigma.bias, -2.0)
        self.optimizer = optim.Adam(self.parameters(), lr=alpha)

    def forward(self, state):
        prob = F.relu(self.fc2(F.relu(self.fc1(state))))
        return self.mu(prob), T.clamp(F.softplus(self.sigma(prob)), min=self.reparam_noise, max=1)

    def sample_normal(self, state, reparameterize=True):
        mu, sigma = self.forward(state)
        probabilities = T.distributions.Normal(mu, sigma)
        actions = probabilities.rsample() if reparameterize else probabilities.sample()
        action = T.tanh(actions) * self.max_action
        log_probs = probabilities.log_prob(actions)
        log_probs -= T.log(1 - T.tanh(actions).pow(2) + self.reparam_noise)
        return action, log_probs.sum(1)

class Agent:
    def __init__(self, env, lr=1e-3, tau=0.005, gamma=0.98, width=128, batch_size=128, reward_scale=5):
        self.gamma, self.tau, self.batch_size, self.scale = gamma, tau, batch_size, reward_scale
        self.memory = ReplayBuffer(100000, env.obs_shape, env.n_actions)
        n_in = env.obs_shape[0]
        self.actor = ActorNetwork(lr, env.obs_shape, width, env.high, env.n_actions)
        self.critic_1, self.critic_2 = (mlp(n_in + env.n_actions, 1, width) for _ in range(2))
        self.value, self.target_value = mlp(n_in, 1, width), mlp(n_in, 1, width)
        self.target_value.load_state_dict(self.value.state_dict())
        self.critic_optimizer = optim.Adam([*self.critic_1.parameters(), *self.critic_2.parameters()], lr=lr)
        self.value_optimizer = optim.Adam(self.value.parameters(), lr=lr)

    def choose_action(self, observation):
        with T.no_grad():
            actions, _ = self.actor.sample_normal(T.from_numpy(observation)[None], reparameterize=False)
        return actions.numpy()[0]

    def q_min(self, state, action):
        sa = T.cat([state, action], dim=1)
        return T.min(self.critic_1(sa), self.critic_2(sa)).view(-1)

    def learn(self):
        state, action, reward, state_ = self.memory.sample_buffer(self.batch_size)
        with T.no_grad():
            q_hat = self.scale * reward + self.gamma * self.target_value(state_).view(-1)
        sa = T.cat([state, action], dim=1)
        critic_loss = 0.5 * (F.mse_loss(self.critic_1(sa).view(-1), q_hat) + F.mse_loss(self.critic_2(sa).view(-1), q_hat))
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        actions, log_probs = self.actor.sample_normal(state)
        critic_value = self.q_min(state, actions)
        actor_loss = T.mean(log_probs - critic_value)
        self.actor.optimizer.zero_grad()
        actor_loss.backward()
        self.actor.optimizer.step()

        value_loss = 0.5 * F.mse_loss(self.value(state).view(-1), (critic_value - log_probs).detach())
        self.value_optimizer.zero_grad()
        value_loss.backward()
        self.value_optimizer.step()

        with T.no_grad():
            for p, tp in zip(self.value.parameters(), self.target_value.parameters()):
                tp.mul_(1 - self.tau).add_(self.tau * p)
        return critic_loss.item(), actor_loss.item(), value_loss.item()

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', default=None)
    parser.add_argument('--n-games', type=int, default=30)
    args = parser.parse_args()
    out = args.out or tempfile.mkdtemp()
    os.makedirs(out, exist_ok=True)
    np.random.seed(0)
    T.manual_seed(0)
    env = PendulumEnv(seed=1)
    agent = Agent(env)
    best_score, score_history, losses = -np.inf, [], (0.0, 0.0, 0.0)
    for i in range(args.n_games):
        observation, done, score = env.reset(), False, 0.0
        while not done:
            action = agent.choose_action(observation) if i >= 10 else np.random.uniform(-2, 2, 1).astype(np.float32)
            observation_, reward, done = env.step(action)
            agent.memory.store_transition(observation, action, reward, observation_)
            if i >= 1:
                losses = agent.learn()
            score += reward
            observation = observation_
        score_history.append(score)
        avg_score = np.mean(score_history[-5:])
        if avg_score > best_score:
            best_score = avg_score
            T.save(agent.actor.state_dict(), os.path.join(out, 'actor_sac.pt'))
        print('episode %d score %.1f trailing avg %.1f critic %.3f actor %.3f value %.3f' % (i, score, avg_score, *losses))
