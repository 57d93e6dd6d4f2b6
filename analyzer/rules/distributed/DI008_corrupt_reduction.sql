/*
code = "DI008"
name = "corrupt-reduction"
severity = "error"
phase = "backward"
signal = "sum"
message = "The all_reduce ({reduce_op}) of {numel} {dtype} at {place} gave a sum of {value} at step {step}. What the ranks gave adds up to {wanted}."
fix = "Run the collective tests of the library on these hosts. Look for a tensor that is changed while an asynchronous call still uses it."
explains = ["ranks-diverged", "loss-off-course", "exploding-gradients", "nonfinite-tensor"]
[params.tolerance]
value = 1e-3
doc = "Difference over the sum of magnitudes; half precision ten times as much."
source = "convention: of this project, rounding of float32 sums stays far below a thousandth; half precision has three digits less"
[params.half]
value = 10
unit = "times"
doc = "How much coarser half precision is taken to be."
source = "convention: of this project, an order of magnitude"
[params.nothing]
value = 1e-30
doc = "Difference below which sums are equal."
source = "convention: of this project, far below any gradient of a training"
[needs]
tables = ["collectives"]
columns = ["collectives.sum_before", "collectives.sum_after"]
[doc]
what = "The sum over a reduced tensor differs from the sum over what went into it on all ranks."
why = "A sum of tensors has the sum of their sums; hardware, libraries and races break that."
not_this = "Rounding, calls whose numbers do not belong to the same place, tensors that hold values that are not finite."
source = "Linearity of the sum."
*/
WITH world AS (
    SELECT "group", count(DISTINCT rank) AS ranks FROM collective_calls GROUP BY "group"
), sums AS (
    SELECT c."group", c.number, min(c.step) AS step, min(c.seq) AS seq, any_value(c.reduce_op) AS reduce_op,
        any_value(c.dtype) AS dtype, any_value(c.numel) AS numel,
        any_value(c.place) AS place,
            sum(c.sum_before) / CASE WHEN any_value(c.reduce_op) = 'avg' THEN count(*) ELSE 1 END AS wanted,
        sum(c.size_before) AS size, arg_max(c.sum_after, abs(c.sum_after)) AS value,
            arg_max(c.rank, (abs(c.sum_after), -c.rank)) AS rank, count(c.sum_after) AS known,
            count(*) AS ranks
    FROM collective_calls c WHERE c.op = 'all_reduce' GROUP BY c."group", c.number
    HAVING count(DISTINCT c.numel) = 1 AND count(DISTINCT c.step) = 1
)
SELECT s.rank, s.step, s.seq, s.value, s.wanted, s.reduce_op, s.dtype, s.numel, s.place
FROM sums s JOIN world w ON w."group" = s."group" AND w.ranks = s.known AND s.ranks = w.ranks
WHERE isfinite(s.wanted)
  AND abs(s.value - s.wanted) > CASE
      WHEN s.dtype IN ('float16', 'bfloat16') THEN $half
      ELSE 1
      END * $tolerance * s.size + $nothing
QUALIFY row_number() OVER (ORDER BY s.step, s.seq) = 1
