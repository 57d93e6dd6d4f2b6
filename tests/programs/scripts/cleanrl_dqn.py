"""DQN in one file, the way of cleanrl: replay buffer, epsilon schedule, target network copied by a factor."""

import random

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F

seed, total_timesteps, buffer_size, batch_size = 1, 1500, 1000, 64
learning_rate, gamma, tau, target_network_frequency = 2.5e-4, 0.99, 1.0, 250
learning_starts, train_frequency = 300, 5
random.seed(seed)
torch.manual_seed(seed)
rng = np.random.default_rng(seed)


class QNetwork(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(int(np.array(env.observation_space.shape).prod()), 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, int(env.action_space.n)),
        )

    def forward(self, x):
        return self.network(x)


env = gym.make("CartPole-v1")
q_network = QNetwork(env)
optimizer = optim.Adam(q_network.parameters(), lr=learning_rate)
target_network = QNetwork(env)
target_network.load_state_dict(q_network.state_dict())
replay = []
obs, _ = env.reset(seed=seed)
for global_step in range(total_timesteps):
    epsilon = max(1 - global_step / (0.5 * total_timesteps), 0.05)
    if random.random() < epsilon:
        action = int(rng.integers(env.action_space.n))
    else:
        action = int(torch.argmax(q_network(torch.Tensor(obs)[None]), dim=1).item())
    next_obs, reward, terminated, truncated, _ = env.step(action)
    replay.append((obs, next_obs, action, float(reward), float(terminated)))
    del replay[:-buffer_size]
    obs = env.reset()[0] if terminated or truncated else next_obs
    if global_step > learning_starts:
        if global_step % train_frequency == 0:
            chosen = [replay[i] for i in rng.integers(len(replay), size=batch_size)]
            states, following, taken, gains, ends = (torch.tensor(np.array(column)) for column in zip(*chosen))
            with torch.no_grad():
                target_max, _ = target_network(following).max(dim=1)
                td_target = gains.float() + gamma * target_max * (1 - ends.float())
            old_val = q_network(states).gather(1, taken[:, None]).squeeze()
            loss = F.mse_loss(td_target, old_val)
            if global_step % 100 == 0:
                print(global_step, loss.item(), old_val.mean().item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if global_step % target_network_frequency == 0:
            for target_param, param in zip(target_network.parameters(), q_network.parameters()):
                target_param.data.copy_(tau * param.data + (1.0 - tau) * target_param.data)
env.close()
