"""stable-baselines3's DQN on a Gymnasium environment of one's own, evaluated after learning."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor


class GoLeftEnv(gym.Env):
    """The agent walks on a line of cells and is to reach the left end."""

    def __init__(self, grid_size=10):
        super().__init__()
        self.grid_size = grid_size
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = gym.spaces.Box(low=0, high=1, shape=(2,), dtype=np.float32)

    def _observation(self):
        return np.array([self.agent_pos / self.grid_size, self.steps / 50], dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.agent_pos = int(self.np_random.integers(3, self.grid_size))
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        self.agent_pos = int(np.clip(self.agent_pos + (1 if action == 1 else -1), 0, self.grid_size))
        terminated = self.agent_pos == 0
        return self._observation(), 1.0 if terminated else -0.02, terminated, self.steps >= 50, {}


class PrintLosses(BaseCallback):
    def _on_step(self):
        if self.num_timesteps % 200 == 0 and "train/loss" in self.logger.name_to_value:
            print(self.num_timesteps, repr(float(self.logger.name_to_value["train/loss"])))
        return True


check_env(GoLeftEnv(), warn=True)
env = Monitor(GoLeftEnv())
model = DQN(
    "MlpPolicy",
    env,
    learning_rate=1e-3,
    buffer_size=2000,
    learning_starts=200,
    batch_size=32,
    target_update_interval=250,
    exploration_fraction=0.5,
    train_freq=4,
    policy_kwargs={"net_arch": [32, 32]},
    seed=0,
    device="cpu",
)
model.learn(total_timesteps=1600, callback=PrintLosses())
print(*evaluate_policy(model, env, n_eval_episodes=5))
with torch.no_grad():
    print(sum(p.sum().item() for p in model.policy.parameters()))
