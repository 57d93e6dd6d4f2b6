import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.optim.optimizer import Optimizer

torch.manual_seed(0)
np.random.seed(0)


class LineSearchGD(Optimizer):
    def __init__(self, params, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, min_step_size=1e-8,
                 loss_minimal_decrement=1e-4, step_size_reduction=0.2):
        defaults = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                        min_step_size=min_step_size, loss_minimal_decrement=loss_minimal_decrement,
                        step_size_reduction=step_size_reduction)
        super(LineSearchGD, self).__init__(params, defaults)

    def add_grad(self, p, t, d_p):
        p.data.add_(d_p, alpha=t)

    def directional_evaluate(self, closure, p, t, d_p):
        for i in range(len(p)):
            self.add_grad(p[i], t, d_p[i])
        loss = closure()
        return loss

    def line_search(self, loss0, closure, p, t, d_p):
        for group in self.param_groups:
            loss_minimal_decrement = group['loss_minimal_decrement']
            step_size_reduction = group['step_size_reduction']
            min_step_size = group['min_step_size']

        increment = loss_minimal_decrement * torch.sum(torch.stack(
            [torch.sum(p[i].grad * d_p[i]) for i in range(len(p))]))
        t_prev = 0
        while t > min_step_size:
            loss = self.directional_evaluate(closure, p, t - t_prev, d_p)
            if loss <= loss0 + t * increment:
                return loss
            t_prev = t
            t *= step_size_reduction
        return loss

    def step(self, closure, loss0):
        p_all = []
        dp_all = []
        for group in self.param_groups:
            momentum = group['momentum']
            dampening = group['dampening']
            lr = group['lr']
            for p in group['params']:
                if p.grad is None:
                    continue
                d_p = p.grad.data
                if momentum != 0:
                    param_state = self.state[p]
                    if 'momentum_buffer' not in param_state:
                        buf = param_state['momentum_buffer'] = torch.clone(d_p).detach()
                    else:
                        buf = param_state['momentum_buffer']
                        buf.mul_(momentum).add_(d_p, alpha=1 - dampening)
                    d_p = buf
                p_all.append(p)
                dp_all.append(-d_p)
        return self.line_search(loss0, closure, p_all, lr, dp_all)


class AutonomousHybridLinearSystem:
    def __init__(self):
        self.x_dim = 2
        self.dtype = torch.float64
        theta = np.pi / 6
        A1 = 0.9 * np.array([[np.cos(theta), -1.6 * np.sin(theta)], [np.sin(theta) / 1.6, np.cos(theta)]])
        A2 = 0.9 * np.array([[np.cos(theta), -np.sin(theta) / 1.6], [1.6 * np.sin(theta), np.cos(theta)]])
        self.A = [torch.tensor(A1, dtype=self.dtype), torch.tensor(A2, dtype=self.dtype)]

    def step_forward(self, x):
        return self.A[0] @ x if x[0] * x[1] >= 0 else self.A[1] @ x


class SolutionPoolProgram:
    def __init__(self, objective, candidates, maximize):
        self.objective = objective
        self.candidates = candidates
        self.maximize = maximize

    def optimize(self, pool_solutions):
        with torch.no_grad():
            values = self.objective(self.candidates)
            order = torch.argsort(values, descending=self.maximize)[:pool_solutions]
        self.solutions = order
        self.solCount = len(order)
        self.ObjVal = values[order[0]].item()

    def compute_objective_from_mip_data_and_solution(self, solution_number):
        index = self.solutions[solution_number]
        return self.objective(self.candidates[index:index + 1]).squeeze()


class LyapunovDiscreteTimeHybridSystem:
    def __init__(self, system, grid_size=41):
        self.system = system
        axis = torch.linspace(-1, 1, grid_size, dtype=system.dtype)
        grid = torch.stack(torch.meshgrid(axis, axis, indexing='ij'), dim=-1).reshape(-1, 2)
        self.grid = grid[grid.abs().sum(dim=1) > 0.05]
        self.grid_next = torch.stack([system.step_forward(x) for x in self.grid])

    def lyapunov_value(self, relu, x, x_equilibrium, relu_at_equilibrium, V_rho):
        return relu(x).squeeze(-1) - relu_at_equilibrium + V_rho * (x - x_equilibrium).abs().sum(dim=-1)

    def lyapunov_positivity_as_milp(self, relu, x_equilibrium, V_rho, epsilon):
        def objective(x):
            V = self.lyapunov_value(relu, x, x_equilibrium, relu(x_equilibrium), V_rho)
            return V - epsilon * (x - x_equilibrium).abs().sum(dim=-1)
        return SolutionPoolProgram(objective, self.grid, maximize=False)

    def lyapunov_derivative_as_milp(self, relu, x_equilibrium, V_rho, epsilon):
        def objective(pair):
            x, x_next = pair[:, :2], pair[:, 2:]
            relu_at_equilibrium = relu(x_equilibrium)
            V = self.lyapunov_value(relu, x, x_equilibrium, relu_at_equilibrium, V_rho)
            V_next = self.lyapunov_value(relu, x_next, x_equilibrium, relu_at_equilibrium, V_rho)
            return V_next - V + epsilon * V
        return SolutionPoolProgram(objective, torch.cat((self.grid, self.grid_next), dim=1), maximize=True)

    def lyapunov_positivity_loss_at_samples(self, relu, relu_at_equilibrium, x_equilibrium, state_samples, V_rho, epsilon):
        V = self.lyapunov_value(relu, state_samples, x_equilibrium, relu_at_equilibrium, V_rho)
        return torch.relu(-V + epsilon * (state_samples - x_equilibrium).abs().sum(dim=-1)).mean()

    def lyapunov_derivative_loss_at_samples_and_next_states(self, relu, V_rho, epsilon, state_samples, state_next, x_equilibrium):
        relu_at_equilibrium = relu(x_equilibrium)
        V = self.lyapunov_value(relu, state_samples, x_equilibrium, relu_at_equilibrium, V_rho)
        V_next = self.lyapunov_value(relu, state_next, x_equilibrium, relu_at_equilibrium, V_rho)
        return torch.relu(V_next - V + epsilon * V).mean()


class TrainLyapunovReLU:
    def __init__(self, lyapunov_hybrid_system, V_rho, x_equilibrium):
        self.lyapunov_hybrid_system = lyapunov_hybrid_system
        self.V_rho = V_rho
        self.x_equilibrium = x_equilibrium
        self.learning_rate = 0.02
        self.max_iterations = 250
        self.momentum = 0.
        self.lyapunov_positivity_mip_cost_weight = 10.
        self.lyapunov_positivity_mip_pool_solutions = 10
        self.lyapunov_derivative_mip_cost_weight = 10.
        self.lyapunov_derivative_mip_pool_solutions = 10
        self.lyapunov_mip_cost_decay_rate = 0.9
        self.lyapunov_positivity_epsilon = 0.01
        self.lyapunov_derivative_epsilon = 0.01
        self.lyapunov_positivity_convergence_tol = 1E-6
        self.lyapunov_derivative_convergence_tol = 3e-5
        self.output_folder = tempfile.mkdtemp(prefix='lyapunov_')

    def total_loss(self, relu, state_samples_all, state_samples_next):
        dtype = self.lyapunov_hybrid_system.system.dtype
        positivity_mip = self.lyapunov_hybrid_system.lyapunov_positivity_as_milp(
            relu, self.x_equilibrium, self.V_rho, self.lyapunov_positivity_epsilon)
        positivity_mip.optimize(self.lyapunov_positivity_mip_pool_solutions)
        derivative_mip = self.lyapunov_hybrid_system.lyapunov_derivative_as_milp(
            relu, self.x_equilibrium, self.V_rho, self.lyapunov_derivative_epsilon)
        derivative_mip.optimize(self.lyapunov_derivative_mip_pool_solutions)

        positivity_sample_loss = self.lyapunov_hybrid_system.lyapunov_positivity_loss_at_samples(
            relu, relu(self.x_equilibrium), self.x_equilibrium, state_samples_all, self.V_rho,
            self.lyapunov_positivity_epsilon)
        derivative_sample_loss = self.lyapunov_hybrid_system.lyapunov_derivative_loss_at_samples_and_next_states(
            relu, self.V_rho, self.lyapunov_derivative_epsilon, state_samples_all, state_samples_next, self.x_equilibrium)
        decay = torch.tensor(self.lyapunov_mip_cost_decay_rate, dtype=dtype)
        positivity_mip_loss = 0.
        for mip_sol_number in range(positivity_mip.solCount):
            positivity_mip_loss += self.lyapunov_positivity_mip_cost_weight * torch.pow(decay, mip_sol_number) * \
                -positivity_mip.compute_objective_from_mip_data_and_solution(mip_sol_number)
        derivative_mip_loss = 0.
        for mip_sol_number in range(derivative_mip.solCount):
            derivative_mip_loss += self.lyapunov_derivative_mip_cost_weight * torch.pow(decay, mip_sol_number) * \
                derivative_mip.compute_objective_from_mip_data_and_solution(mip_sol_number)
        loss = positivity_sample_loss + derivative_sample_loss + positivity_mip_loss + derivative_mip_loss
        return loss, positivity_mip.ObjVal, derivative_mip.ObjVal, positivity_sample_loss, derivative_sample_loss, \
            positivity_mip_loss, derivative_mip_loss

    def train_with_line_search(self, relu, state_samples_all):
        state_samples_next = torch.stack([self.lyapunov_hybrid_system.system.step_forward(x) for x in state_samples_all])
        lyapunov_positivity_mip_costs = [None] * self.max_iterations
        lyapunov_derivative_mip_costs = [None] * self.max_iterations
        losses = [None] * self.max_iterations

        iter_count = 0

        def closure():
            loss, lyapunov_positivity_mip_costs[iter_count],\
                lyapunov_derivative_mip_costs[iter_count], _, _, _, _ = \
                self.total_loss(relu, state_samples_all, state_samples_next)
            return loss

        loss = closure()
        loss.backward()
        losses[0] = loss.item()
        iter_count = 1
        optimizer = LineSearchGD(
            relu.parameters(), lr=self.learning_rate, momentum=self.momentum, min_step_size=1e-8,
            loss_minimal_decrement=-1e-4, step_size_reduction=0.2)
        while iter_count < self.max_iterations:
            loss = optimizer.step(closure, losses[iter_count-1])
            optimizer.zero_grad()
            loss.backward()
            losses[iter_count] = loss.item()
            if lyapunov_positivity_mip_costs[iter_count] > -self.lyapunov_positivity_convergence_tol and \
                    lyapunov_derivative_mip_costs[iter_count] < self.lyapunov_derivative_convergence_tol:
                return True
            if iter_count % 25 == 0:
                print(f"iter {iter_count}, loss {losses[iter_count]:.5f}, positivity mip cost "
                      f"{lyapunov_positivity_mip_costs[iter_count]:.5f}, derivative mip cost "
                      f"{lyapunov_derivative_mip_costs[iter_count]:.5f}")
                torch.save(relu.state_dict(), os.path.join(self.output_folder, "relu.pt"))
            iter_count += 1
        return False


if __name__ == "__main__":
    system = AutonomousHybridLinearSystem()
    relu = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.1), nn.Linear(16, 8), nn.LeakyReLU(0.1), nn.Linear(8, 1)).double()
    dut = TrainLyapunovReLU(LyapunovDiscreteTimeHybridSystem(system), 0.1, torch.zeros(2, dtype=torch.float64))
    state_samples_all = torch.rand(400, 2, dtype=torch.float64) * 2 - 1
    result = dut.train_with_line_search(relu, state_samples_all)
    print("Lyapunov function found:", result)
