/*
code = "PE013"
name = "slow-operator"
severity = "warning"
phase = "step"
signal = "self_ns"
message = "{what_}{mostly_}{called_} takes {percent} % of a profiled step ({own_ms} of {step_ms} ms, in all of {value} profiled steps){compared_}. Without it the step would be up to {saving_ms} ms shorter."
fix = "SELECT * FROM operator_times ORDER BY self_ns DESC shows the operators with their modules. Do the work once, on a smaller tensor, or in another dtype. Or use one operator on the whole instead of many on parts."
seeks = ["profiled_steps: kernels = 0 AND step IS NOT NULL"]
explains = []
[say.what_]
operator = "Operator {name}"
python_of_the_model = "Python code in the forward of the model ({class_name})"
python_of_a_module = "Python code in the forward of {name} ({class_name})"
one_of_equal_modules = "Module {name} ({class_name})"
[say.mostly_]
in_a_module = " (mostly in module {module}, {module_class})"
[say.called_]
by_a_line = ", called by {caller}"
[say.compared_]
with_the_others = ", {times} times what the {others} others like it take"
[params.share]
value = 0.4
doc = "Share of the step from which something that is no matrix product, convolution or attention is outsized."
source = "convention: of this project, far more than one operator of a balanced model takes"
[params.sibling_share]
value = 0.25
doc = "Share of the step from which a module is compared with its siblings."
source = "convention: of this project, a quarter of the step"
[params.siblings]
value = 3
unit = "modules"
doc = "Others of the same class and weights that it is compared with, at least."
source = "convention: of this project, a median needs three"
[params.factor]
value = 5
unit = "times"
doc = "How far beyond the median sibling."
source = "own history"
[params.least_ns]
value = 5e6
unit = "ns"
doc = "Time in a step below which it is not worth a word."
source = "convention: of this project, 5 ms: less is scheduling"
[params.steps]
value = 2
unit = "steps"
doc = "Profiled steps in which it is so, all of them."
source = "convention: of this project, one step may be odd"
[needs]
tables = ["profiler_events"]
columns = ["profiler_events.self_ns"]
[doc]
what = "In every profiled step the same operator, or the Python code of one module's forward, takes most of the time. Or one of several equal modules takes many times what the others take."
why = "Training is meant to spend its time in products, convolutions and attention; what outweighs them is usually an accident."
not_this = "Products, convolutions, attention and recurrent cells. A single profiled step. Steps of a few milliseconds. Steps with work on a device, for which the operators on the host wait."
source = "Exclusive times of the run's own profile."
*/
WITH long AS (
    SELECT rank, step, ns, count(*) OVER (PARTITION BY rank) AS steps
    FROM profiled_steps
    WHERE kernels = 0 AND step IS NOT NULL
), candidates AS (
    SELECT o.rank, o.step, 'operator' AS what_, o.name, arg_max(o.module_id, o.self_ns) AS module_id,
        sum(o.self_ns) AS self_ns, arg_max(o.source, o.self_ns) AS caller
    FROM operator_times o
    WHERE o.cat = 'cpu_op'
      AND NOT regexp_matches(o.name,
          '(^|[:_])(mm|addmm|bmm|baddbmm|matmul|linear|conv|lstm|gru|rnn|einsum|dot|mv|addmv)|convolution'
          '|mkldnn|onednn|cudnn|attention|flash|all_reduce|c10d|gloo|nccl')
      AND NOT starts_with(o.name, 'autograd::engine') AND o.name NOT LIKE '%Backward%'
    GROUP BY o.rank, o.step, o.name
    UNION ALL BY NAME
    SELECT rank, step,
        CASE WHEN module <> '' THEN 'python_of_a_module' ELSE 'python_of_the_model' END AS what_,
        module AS name, class_name, module_id, sum(self_ns) AS self_ns
    FROM operator_times
    WHERE cat = 'module' GROUP BY rank, step, module, class_name, module_id
), outsized AS (
    SELECT c.rank, c.what_, c.name, c.class_name, mode(c.module_id) AS module_id, min(c.step) AS step,
        count(*) AS value, median(c.self_ns) AS own, median(l.ns) AS whole, median(c.self_ns / l.ns) AS share,
        median(c.self_ns) AS saving, 0 AS kind, any_value(l.steps) AS steps, mode(c.caller) AS caller
    FROM candidates c JOIN long l ON l.rank = c.rank AND l.step = c.step
    WHERE c.self_ns > $share * l.ns AND c.self_ns > $least_ns
    GROUP BY c.rank, c.what_, c.name, c.class_name
), by_module AS (
    SELECT o.rank, o.step, o.module_id, any_value(o.module) AS module, any_value(o.class_name) AS class_name,
        any_value(m.own_numel) AS numel, sum(o.self_ns) AS self_ns
    FROM operator_times o
    JOIN modules m ON m.rank = o.rank AND m.module_id = o.module_id
    GROUP BY o.rank, o.step, o.module_id
), siblings AS (
    SELECT a.rank, a.step, a.module_id, a.module, a.class_name, a.self_ns, median(b.self_ns) AS others,
        count(*) AS n
    FROM by_module a
    JOIN by_module b ON b.rank = a.rank
        AND b.step = a.step
        AND b.class_name = a.class_name
        AND b.numel = a.numel
        AND b.module_id <> a.module_id
    GROUP BY ALL
), unequal AS (
    SELECT s.rank, 'one_of_equal_modules' AS what_, s.module AS name, s.class_name, s.module_id,
        min(s.step) AS step, count(*) AS value, median(s.self_ns) AS own, median(l.ns) AS whole,
        median(s.self_ns / l.ns) AS share, median(s.self_ns - s.others) AS saving,
        'with_the_others' AS compared_, round(median(s.self_ns / s.others))::INT AS times,
        any_value(s.n) AS others, 1 AS kind, any_value(l.steps) AS steps
    FROM siblings s JOIN long l ON l.rank = s.rank AND l.step = s.step
    WHERE s.n >= $siblings
      AND s.self_ns > $factor * s.others
      AND s.self_ns > $sibling_share * l.ns
      AND s.self_ns > $least_ns
    GROUP BY s.rank, s.module, s.class_name, s.module_id
), all_ AS (
    FROM outsized UNION ALL BY NAME FROM unequal
)
SELECT a.rank, a.step, m.module, a.value, a.what_, a.name, a.class_name,
    CASE WHEN a.what_ = 'operator' AND m.module <> '' THEN 'in_a_module' END AS mostly_,
    m.class_name AS module_class, CASE WHEN a.caller IS NOT NULL THEN 'by_a_line' END AS called_, a.caller,
    percent_of(a.share) AS percent, in_ms(a.own) AS own_ms, in_ms(a.whole) AS step_ms,
    a.compared_, a.times, a.others, in_ms(a.saving) AS saving_ms
FROM all_ a LEFT JOIN modules m ON m.rank = a.rank AND m.module_id = a.module_id
WHERE a.value >= $steps AND a.value = a.steps
ORDER BY a.rank, a.kind DESC, a.share DESC
