/*
code = "PE011"
name = "fp32-matmul"
severity = "warning"
phase = "step"
signal = "kernel"
message = "{percent} % of the device's time goes into matrix products in full float32 ({name_}, {value} calls in the profile), none into low precision: tensor cores stand idle."
fix = "torch.set_float32_matmul_precision('high') for TF32, or torch.autocast('cuda', dtype=torch.bfloat16); on the H100 and A100 products become several times faster."
explains = []
[params.share]
value = 0.3
doc = "Share of the kernels' time from which it is worth a word."
[params.steps]
value = 2
unit = "steps"
doc = "Profiled steps to judge by."
[needs]
tables = ["profiler_events"]
[doc]
what = "Kernels of float32 products take a large share of the device's time, and no kernel computes in TF32, bfloat16 or half precision."
why = "Since Ampere such products run 8 to 16 times faster on tensor cores."
not_this = "Runs without a device, runs in which some products are in low precision already."
source = "Names of cuBLAS and CUTLASS kernels: sgemm and simt are float32 without tensor cores, tf32, s16816, s1688, h, bf16 are not. Not verified on a GPU by this project, only on rows as a GPU's profile gives them."
*/
WITH kernels AS (
    SELECT rank, step, name, dur_ns,
        regexp_matches(lower(name), 'sgemm|simt.*gemm|gemm.*simt|gemmsn|f32f32_f32f32_f32') AND NOT regexp_matches(lower(name), 'tf32|16816|1688|bf16|hgemm|h884|fp16|half|64x64x16|wgmma|hmma') AS full_,
        regexp_matches(lower(name), 'tf32|16816|1688|bf16|hgemm|h884|fp16|wgmma|hmma|nv_bfloat16|__half') AS low_
    FROM profiler_events WHERE cat = 'kernel' AND dur_ns > 0
)
SELECT rank, min(step) FILTER (full_) AS step, count(*) FILTER (full_) AS value, round(100 * sum(dur_ns) FILTER (full_) / sum(dur_ns))::INT AS percent,
    arg_max(name, dur_ns) FILTER (full_) AS name_
FROM kernels GROUP BY rank
HAVING count(DISTINCT step) >= $steps AND sum(dur_ns) FILTER (full_) > $share * sum(dur_ns) AND count(*) FILTER (low_) = 0 ORDER BY step, rank
