/*
code = "NU021"
name = "nonfinite-only-compiled"
severity = "error"
phase = "forward"
signal = "nonfinite_count"
message = "Code of torch.compile lost a value at step {step} that the same call without compilation does not lose. There activation {tensor} held {nan_count} NaN and {inf_count} infinite of {numel} elements{compiled_}. Run once more, separately and uncompiled, on the same arguments and weights, the model put out finite values."
fix = "Run this step with torch.compile(backend='aot_eager'). If it stays finite, the inductor backend is at fault, else the decompositions. Then take activation {tensor} out of the compiled code (torch.compiler.disable on its module) or keep its intermediate values in float32. Report it with the capture as input."
seeks = ["captured_steps: only_compiled"]
explains = ["nonfinite-values", "loss-off-course", "exploding-gradients", "division-by-zero", "nonfinite-operator", "domain-error", "infinite-slope", "silent-data-corruption"]
[say.compiled_]
operator = " ({operator})"
operator_at = " ({operator} at {source})"
[needs]
tables = ["captured_steps", "tensor_stats"]
[doc]
what = "The first lost value of a step lies inside code that torch.compile made. The captured call of the same model, run a second time eagerly, put out finite values without drawing random numbers."
why = "The model's arithmetic is sound: what the compiler made of it is not, or rounds where eager code does not. Neither the data nor the learning rate will mend it."
not_this = "Values that the uncompiled replay loses too. Models that draw random numbers, whose replay draws others. Losses that were lost outside the compiled model."
source = "Comparison of one call compiled and uncompiled."
*/
SELECT o.rank, o.step, o.microbatch, o.seq, o.phase, o.module, o.tensor,
    o.nan_count + o.inf_count AS value, o.nan_count, o.inf_count, o.numel, o.dtype, o.shape,
    v.operator, v.source,
    CASE WHEN v.source IS NOT NULL THEN 'operator_at' WHEN v.operator IS NOT NULL THEN 'operator' END
        AS compiled_
FROM nonfinite_origin o
JOIN captured_steps c ON c.rank = o.rank AND c.step = o.step AND c.only_compiled
LEFT JOIN compiled_values v ON v.rank = o.rank AND v.step = o.step AND v.stat_seq = o.seq
WHERE o.kind = 'activation'
QUALIFY row_number() OVER (PARTITION BY o.rank, o.step ORDER BY c.capture) = 1
ORDER BY step, rank
