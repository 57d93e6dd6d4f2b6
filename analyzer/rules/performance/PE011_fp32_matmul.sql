/*
code = "PE011"
name = "fp32-matmul"
severity = "warning"
phase = "step"
signal = "kernel"
message = "Tensor cores are idle. Matrix products in full float32 take {percent} % of the device's time ({name_}, {value} calls in the profile). Products in low precision take {low_} %."
fix = "torch.set_float32_matmul_precision('high') for TF32, or torch.autocast('cuda', dtype=torch.bfloat16); from Ampere on products become several times faster. Volta and Turing know neither: dtype=torch.float16 with a GradScaler there."
seeks = ["device_events: kind IN ('kernel', 'communication') AND dur_ns > 0"]
explains = []
[params.share]
value = 0.3
doc = "Share of the kernels' time from which it is worth a word."
source = "convention: of this project, a third of the time"
[params.low]
value = 0.25
doc = "Time of products in low precision, over that of the others, up to which tensor cores stand idle."
source = "convention: of this project, a quarter: low precision is then the exception"
[needs]
tables = ["profiler_events"]
[doc]
what = "Kernels of float32 products take a large share of the device's time. Those in TF32, bfloat16 or half precision take next to none."
why = "Since Ampere such products run 8 to 16 times faster on tensor cores."
not_this = "Runs without a device, runs in which a good part of the products is in low precision already."
source = "Names of cuBLAS and CUTLASS kernels: sgemm and simt are float32 without tensor cores. The names tf32, s16816, s1688, h, bf16 are not. Not verified on a GPU by this project, only on rows as a GPU's profile gives them."
*/
WITH kernels AS (
    SELECT rank, step, name, dur_ns,
        regexp_matches(lower(name), 'sgemm|simt.*gemm|gemm.*simt|gemmsn|f32f32_f32f32_f32')
            AND NOT regexp_matches(lower(name),
                'tf32|16816|1688|bf16|hgemm|h884|fp16|half|64x64x16|wgmma|hmma') AS full_,
        regexp_matches(lower(name),
            'tf32|16816|1688|bf16|hgemm|h884|fp16|wgmma|hmma|nv_bfloat16|__half') AS low_
    FROM device_events WHERE kind IN ('kernel', 'communication') AND dur_ns > 0
)
SELECT rank, min(step) FILTER (full_) AS step, count(*) FILTER (full_) AS value,
    percent_of_whole(sum(dur_ns) FILTER (full_), sum(dur_ns)) AS percent,
    percent_of_whole(coalesce(sum(dur_ns) FILTER (low_), 0), sum(dur_ns)) AS low_,
        arg_max(name, dur_ns) FILTER (full_) AS name_
FROM kernels GROUP BY rank
HAVING sum(dur_ns) FILTER (full_) > $share * sum(dur_ns)
    AND coalesce(sum(dur_ns) FILTER (low_), 0) < $low * sum(dur_ns) FILTER (full_)
ORDER BY step NULLS FIRST, rank
