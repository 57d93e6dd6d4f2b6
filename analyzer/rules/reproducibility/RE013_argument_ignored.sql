/*
code = "RE013"
name = "argument-ignored"
severity = "warning"
phase = "step"
signal = "source"
message = "{function} is given {argument} = {given} at {place} and {what_}. So {given} is without effect{more}."
fix = "Use {argument} in {function} ({defined}) where it is meant to count, or take the argument out."
seeks = ["events: event = 'argument-ignored'"]
[say.what_]
unread = "never reads it"
kept = "only puts it into {kept_as}, which nothing reads"
[say.more]
alone = ""
others = "; {others} other arguments are ignored too"
[needs]
tables = ["events"]
[doc]
what = "A script gives a setting to a class of its own, such as a dropout, a weight or a margin. No line of it reads that: the argument is never used, or only put into an attribute that no line of the file reads."
why = "The training does not use the value that its author believes to have set."
not_this = "A value that is the default, None, False or 0. Arguments whose names are not those of settings. Classes that read by locals(), vars(), getattr or __dict__. Classes that stand in other files, and functions."
source = "Python's documentation: a name has an effect only where it is read."
*/
SELECT rank, min(step) AS step, count(*) AS value, arg_min(detail, time_ns) AS first,
    first ->> '$.place' AS place, first ->> '$.function' AS "function", first ->> '$.argument' AS argument,
    first ->> '$.value' AS given, first ->> '$.defined' AS defined,
    first ->> '$.kept_as' AS kept_as,
    if(kept_as = '', 'unread', 'kept') AS what_,
    count(*) - 1 AS others,
    if(others > 0, 'others', 'alone') AS more
FROM events WHERE event = 'argument-ignored'
GROUP BY rank
ORDER BY step, rank
