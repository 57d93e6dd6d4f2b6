/*
code = "PE015"
name = "debug-mode-on"
severity = "error"
phase = "optimizer"
signal = "debug_modes"
message = "{debug_modes} was on at {steps} steps from step {step} to the end. A debug mode slows down every step, and nothing was lost in this run for it to find."
fix = "Switch it off for the long run: torch.autograd.set_detect_anomaly(False), profiler.stop() or leaving its with block, CUDA_LAUNCH_BLOCKING unset. Switch it on again for the few steps around a fault."
seeks = ["steps: debug_modes IS NOT NULL"]
explains = []
[params.least]
value = 200
unit = "steps"
doc = "Steps with the mode on, without a pause up to the end, that are no debugging session any more."
source = "convention: of this project, a session of debugging is over by then"
[needs]
tables = ["steps"]
[doc]
what = "Anomaly detection, a profiler or blocking launches that stay on for hundreds of steps until the run ends."
why = "Anomaly detection keeps a traceback for each operator and checks every gradient for NaN. A profiler gathers events without end. Blocking launches wait for each kernel."
not_this = "Short sessions and windows of a profiler. Runs in which a value was lost: the mode is there to find it."
source = "Convention: PyTorch's documentation of detect_anomaly says to enable it only for debugging, since its checks slow the program down."
*/
WITH last_without AS (
    SELECT rank, max(step) FILTER (debug_modes IS NULL) AS step FROM steps GROUP BY rank
)
SELECT s.rank, min(s.step) AS step, any_value(s.debug_modes) AS debug_modes,
    -- those in between that went unwatched have no row
    max(s.step) - min(s.step) + 1 AS steps, max(s.step) - min(s.step) + 1 AS value
FROM steps s JOIN last_without w ON w.rank = s.rank
WHERE s.completed AND s.step > coalesce(w.step, -1) AND s.rank NOT IN (SELECT rank FROM bad_steps)
GROUP BY s.rank HAVING max(s.step) - min(s.step) + 1 >= $least
ORDER BY step, s.rank
