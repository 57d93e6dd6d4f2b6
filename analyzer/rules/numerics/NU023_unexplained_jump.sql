/*
code = "NU023"
name = "unexplained-jump"
severity = "error"
phase = "forward"
signal = "abs_max"
message = "At step {step} {tensor} reached {value}, after {usual} on average in all other steps. It is made by code{after_}. Nothing that was measured before it in this forward pass was larger than usual. Nothing recorded says why."
fix = "Run the batch of step {step} again and look at the code that makes {tensor}. Print the smallest divisor and the largest result of each operation there."
seeks = ["unexplained_leaps: NOT bounded"]
explains = ["loss-off-course", "nonfinite-values", "exploding-gradients", "exploding-activations", "lr-too-high", "dead-relu", "saturated-activation", "gradients-vanish", "bad-init-scale", "optimizer-state-drift", "unnormalised-input", "loss-scale-collapse", "representation-collapse"]
generic = true
[say.after_]
root = " after the root module"
module = " after module {after_module}"
[needs]
tables = ["tensor_stats", "steps"]
kinds = ["activation"]
steps = 6
[doc]
what = "In one step the input of a module is a hundred thousand times its usual size. Or the output of a module of the script is. The inputs and all activations before it are as ever. No other rule has evidence for a cause."
why = "The jump began there. Whether code, data or hardware made it, the numbers alone do not say."
not_this = "Jumps with a cause that was seen (tiny-denominator, outlier-batch), modules of torch that make nothing large of ordinary numbers (silent-data-corruption)."
source = "Order of capture, and the run's own history."
*/
SELECT rank, step, microbatch, seq, 'forward' AS phase, coalesce(after_module, module) AS module, tensor,
    top AS value, usual, after_module,
    CASE WHEN after_module = '' THEN 'root' WHEN after_module IS NOT NULL THEN 'module' END AS after_
FROM unexplained_leaps WHERE NOT bounded
ORDER BY step, rank, seq
