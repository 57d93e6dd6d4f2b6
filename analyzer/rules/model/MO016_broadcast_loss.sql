/*
code = "MO016"
name = "broadcast-loss"
severity = "error"
phase = "loss"
signal = "shape"
message = "At step {step} the {saved} was stretched to {shape_} against the target: every sample is compared with every target."
fix = "Give both the same shape: prediction.squeeze(-1), or target.unsqueeze(-1)."
explains = ["plateau", "underfit", "representation-collapse", "shuffled-labels", "input-dtype-or-shape-change", "divergence", "loss-spike"]
[needs]
tables = ["operators"]
columns = ["operators.op"]
[doc]
what = "A subtraction in the loss whose operands (N, 1) and (N) broadcast to (N, N)."
why = "The best answer is then the mean of all targets: the loss ends at their variance."
not_this = "Pairwise losses between two stretched tensors of the model, other broadcasting."
source = "Shapes of the operands."
*/
SELECT rank, step, microbatch, seq, saved, shape::VARCHAR AS shape_, shape::VARCHAR AS value FROM operators
WHERE op = 'Broadcast' ORDER BY step, rank, seq
