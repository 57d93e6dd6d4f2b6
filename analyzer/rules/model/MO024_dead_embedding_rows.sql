/*
code = "MO024"
name = "dead-embedding-rows"
severity = "warning"
phase = "forward"
signal = "rows_used"
message = "Embedding {module} has {rows} rows. {lookups} lookups by step {last_step} used {used} of them, none for the first time after step {step}. {percent} % never get a gradient."
fix = "Check how words or categories become indices: a clamp, a modulo, a vocabulary file of another size. Or make the table as large as it is used."
seeks = ["embeddings: coalesce(rows_used <= $share * rows, true)"]
explains = []
[params.share]
value = 0.5
doc = "Largest share of rows in use that counts."
source = "convention: of this project, no more than half: the rest is in use"
[params.turns]
value = 20
unit = "times"
doc = "Lookups for each row that the table has, before the unused are called dead."
source = "arithmetic: with equal chances a row is missed with probability exp(-20)"
[params.rows]
value = 4
unit = "rows"
doc = "Rows of a table."
source = "convention: of this project, of fewer one is a choice"
[needs]
tables = ["embeddings", "modules"]
[doc]
what = "At least half the rows of an embedding were never looked up although there were twenty lookups for every row. No new row was seen in the second half of the lookups."
why = "Rows that are never looked up stay at their random start. Either the table is too large, or indices are computed wrongly and many meanings share few rows."
not_this = "Short runs over a large vocabulary. Tables of positions, distances and segments that are longer than the sequences, unless all lookups go to one position."
source = "Counting: with equal chances the share of unused rows after 20 lookups a row is exp(-20)."
*/
WITH rows_ AS (
    SELECT e.*, m.module, m.model, max(e.step) OVER w AS last_step, max(e.lookups) OVER w AS lookups_end,
        max(e.rows_used) OVER w AS used
    FROM embeddings e JOIN modules m ON m.rank = e.rank AND m.module_id = e.module_id
    WINDOW w AS (PARTITION BY e.rank, e.module_id)
), judged AS (
    SELECT rank, module_id, any_value(module) AS module, any_value(rows) AS rows, any_value(used) AS used,
        any_value(lookups_end) AS lookups, any_value(last_step) AS last_step,
        min(step) FILTER (rows_used = used) AS step,
            arg_min(lookups, step) FILTER (rows_used = used) AS lookups_then
    FROM rows_ GROUP BY rank, module_id
)
SELECT rank, step, module, used AS value, rows, used, lookups, last_step,
    percent_of(1 - used / rows) AS percent
FROM judged
WHERE used <= $share * rows AND lookups >= $turns * rows AND lookups_then <= lookups / 2
  -- no sequence has but one position
  AND (NOT regexp_matches(module,
      '(^|[._])(w?pe|pos|segment|token_type|type|rel)|position|relative|attention_bias', 'i')
      OR used = 1
      AND rows >= $rows
      AND regexp_matches(module, '(^|[._])(w?pe|pos)|position', 'i'))
ORDER BY step, rank, module_id
