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

-- A number of bytes as people say it, in decimal units.
CREATE MACRO bytes_in_words(n) AS
    CASE WHEN n >= 1e9 THEN round(n / 1e9, 2)::VARCHAR || ' GB' WHEN n >= 1e6 THEN round(n / 1e6, 1)::VARCHAR || ' MB'
        WHEN n >= 1e3 THEN round(n / 1e3, 1)::VARCHAR || ' kB' ELSE round(n)::BIGINT || ' bytes' END;
