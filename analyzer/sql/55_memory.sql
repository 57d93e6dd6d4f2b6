-- What gathers in memory, and who owns it.

CREATE VIEW memory_growing AS
WITH looks AS (
    SELECT *, count(*) OVER w AS n, lag(length) OVER w AS before FROM memory_owners
    -- what nobody is known to hold is told apart by what it gathers
    WINDOW w AS (PARTITION BY rank, kind, coalesce(holder, ''), CASE WHEN holder IS NULL THEN element || coalesce(shape::VARCHAR, '') ELSE '' END ORDER BY step)
), owners AS (
    SELECT rank, kind, holder, CASE WHEN holder IS NULL THEN element || coalesce(shape::VARCHAR, '') ELSE '' END AS what,
        arg_min(scope, step) AS scope, max(module_id) AS module_id, any_value(place) AS place, any_value(expression) AS expression, arg_max(element, step) AS element,
        arg_max(shape, step) AS shape, arg_max(dtype, step) AS dtype, arg_max(device, step) AS device, bool_or(with_graph) AS with_graph,
        count(*) AS looks, min(step) AS first_look, max(step) AS last_look, arg_max(length, step) AS length, arg_max(rate, step) AS rate, arg_max(bytes_each, step) AS bytes_each,
        arg_min(since_step, step) AS since_step, min(rate) AS least_rate, max(rate) AS most_rate, bool_or(length < before) AS fell
    FROM looks GROUP BY ALL
)
SELECT * EXCLUDE (what, fell), round(rate * bytes_each)::BIGINT AS bytes_per_step, coalesce(NOT fell, true) AND least_rate >= 0.4 * most_rate AS steady,
    CASE kind WHEN 'sum' THEN 'the sum' WHEN 'longer' THEN 'the tensor' WHEN 'class' THEN 'objects of class' WHEN 'dict' THEN 'the dictionary' WHEN 'set' THEN 'the set' ELSE 'the list' END
        || CASE WHEN kind = 'class' THEN ' ' || element WHEN holder IS NULL THEN ' that no variable or attribute could be found for' ELSE ' `' || holder || '` (' || scope || ')' END
        || CASE WHEN place IS NULL THEN '' ELSE ', added to in ' || place || ': `' || expression || '`' END AS owner
FROM owners;
COMMENT ON VIEW memory_growing IS 'One row for each list, dictionary, sum or tensor that was found to grow; steady: it never fell, at rates alike. owner tells in words what it is and which line adds to it.';
COMMENT ON COLUMN memory_growing.looks IS 'Looks at which it had grown.';
COMMENT ON COLUMN memory_growing.first_look IS 'Step of the first of them.';
COMMENT ON COLUMN memory_growing.last_look IS 'Step of the last of them.';
COMMENT ON COLUMN memory_growing.least_rate IS 'Smallest rate between two looks, in elements a step.';
COMMENT ON COLUMN memory_growing.most_rate IS 'Largest rate between two looks, in elements a step.';
COMMENT ON COLUMN memory_growing.bytes_per_step IS 'Memory that it gains in a step.';
COMMENT ON COLUMN memory_growing.steady IS 'Whether it never fell and grew at rates alike.';
COMMENT ON COLUMN memory_growing.owner IS 'What it is, who holds it and which line adds to it, in words.';
