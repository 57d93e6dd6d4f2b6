-- Macros that rules and views share. NaN sorts above every number in DuckDB, so comparisons ask `finite` first.

-- x where it is a finite number, else null.
CREATE MACRO finite(x) AS CASE WHEN isfinite(x) THEN x END;

-- true where x is NaN or infinite; false where it is null or finite.
CREATE MACRO is_nonfinite(x) AS coalesce(NOT isfinite(x), false);

-- Natural logarithm of the size of x; null at zero, NaN and infinity.
CREATE MACRO log_size(x) AS CASE WHEN isfinite(x) AND x <> 0 THEN ln(abs(x)) END;

-- Standard deviation that a median absolute deviation stands for in a normal distribution (1 / Phi^-1(3/4) = 1.4826).
CREATE MACRO sigma_of(mad_value) AS 1.4826 * mad_value;

-- Robust z of x against a centre and a spread; the floor keeps a constant history from making everything an outlier.
CREATE MACRO robust_z(x, centre, spread, floor_value) AS (x - centre) / greatest(spread, floor_value);

-- A share as whole percent, as sentences say it.
CREATE MACRO percent_of(share) AS round(100 * share)::INT;

-- A part of a whole as whole percent.
CREATE MACRO percent_of_whole(part, whole) AS round(100 * part / whole)::INT;

-- A share in percent, for a sentence that rounds it itself.
CREATE MACRO in_percent(share) AS 100 * share;

-- Signals of a timer that the process itself has set: SIGALRM, SIGVTALRM, SIGPROF.
CREATE MACRO comes_from_a_timer(signal) AS signal IN (14, 26, 27);

-- Signals of a limit on the process: SIGXCPU, SIGXFSZ.
CREATE MACRO is_a_limit(signal) AS signal IN (24, 25);

-- Signals of a fault in native code: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
CREATE MACRO is_a_native_fault(signal) AS signal IN (4, 6, 7, 8, 11);

-- Signals that end a process which does nothing any more: SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGALRM, SIGTERM.
CREATE MACRO ends_from_outside(signal) AS signal IN (1, 2, 3, 9, 14, 15);

-- Nanoseconds as milliseconds with one decimal, as sentences say it.
CREATE MACRO in_ms(ns) AS round(ns / 1e6, 1);

-- Bytes as gigabytes with two decimals, as sentences say it.
CREATE MACRO in_gb(n) AS round(n / 1e9, 2);

-- First line of a message of Python, at most 300 characters of it.
CREATE MACRO first_line(message) AS left(split_part(trim(message), chr(10), 1), 300);

-- Place of a module among those that are called; one that never is comes after them.
CREATE MACRO place_of_call(call_order) AS coalesce(call_order, 1000000);

-- A number of bytes as people say it, in decimal units.
CREATE MACRO bytes_in_words(n) AS
    CASE WHEN n >= 1e9 THEN round(n / 1e9, 2)::VARCHAR || ' GB' WHEN n >= 1e6 THEN round(n / 1e6, 1)::VARCHAR || ' MB'
        WHEN n >= 1e3 THEN round(n / 1e3, 1)::VARCHAR || ' kB' ELSE round(n)::BIGINT || ' bytes' END;

-- Ranks in stretches, such as `3` or `0-2, 5`; of many stretches the first eight.
CREATE MACRO rank_stretches(l) AS (
    WITH placed AS (SELECT rank, rank - row_number() OVER (ORDER BY rank) AS stretch FROM (SELECT DISTINCT unnest(l) AS rank)),
        stretches AS (SELECT min(rank) AS first_, max(rank) AS last_, row_number() OVER (ORDER BY min(rank)) AS place FROM placed GROUP BY stretch)
    SELECT string_agg(CASE WHEN last_ > first_ THEN first_ || '-' || last_ ELSE first_::VARCHAR END, ', ' ORDER BY place) FILTER (place <= 8)
        || CASE WHEN count(*) > 8 THEN ', …' ELSE '' END
    FROM stretches
);

-- Ranks as people say them, such as `rank 3` or `ranks 0-2, 5`.
CREATE MACRO ranks_in_words(l) AS CASE WHEN list_unique(l) > 1 THEN 'ranks ' ELSE 'rank ' END || rank_stretches(l);

-- Whether a kernel moves data between devices. Names that Inductor makes of fused operators say nothing.
CREATE MACRO communicates(name) AS NOT starts_with(lower(name), 'triton_') AND regexp_matches(lower(name),
    'nccl|rccl|mscclpp|nvshmem|deep_ep|::ep::int(er|ra)node|cross_device_reduce|all_?reduce_|(one|two)_?shot_?all_?reduce|multimem_|oneccl');

-- Whether a call of the runtime or the driver launches a kernel, CUDA's or HIP's.
CREATE MACRO launches_kernel(name) AS contains(name, 'Launch') AND NOT regexp_matches(name, 'Graph|HostFunc');

-- Whether a call of the runtime prepares the device: it neither launches nor copies nor sets memory nor waits.
CREATE MACRO sets_up(name) AS NOT regexp_matches(name, 'Launch|Memcpy|Memset|Synchronize|Wait|Query|Record|Enqueue');

-- How far apart two rows of a matrix lie that a product reads as it is, by its last two sizes and strides. Null where neither
-- direction is contiguous (it is copied) or there is but one row.
CREATE MACRO row_length(sizes, strides) AS CASE
    WHEN sizes[-1] = 1 OR sizes[-2] = 1 THEN NULL WHEN strides[-1] = 1 THEN strides[-2] WHEN strides[-2] = 1 THEN strides[-1] END;
