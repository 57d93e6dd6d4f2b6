/*
code = "RE011"
name = "option-misread"
severity = "error"
phase = "step"
signal = "options"
message = "At {place} the option {option} is True, although {given_} {text}. type=bool makes True of every text that is not empty{more}."
fix = "Declare it with action=argparse.BooleanOptionalAction, which makes --{flag} and --no-{flag} of it. Or give type a function that reads the text."
seeks = ["events: event = 'option-misread'"]
explains = []
[say.given_]
command = "the command says"
default = "its default is the text"
[say.more]
alone = ""
others = "; {others} other options are misread so"
[needs]
tables = ["events"]
[doc]
what = "An option that argparse was told to read with type=bool was given a text such as False, no, off or 0. Or a text like that is its default. Its value became True."
why = "argparse calls bool with the text, and only an empty text is false. The training runs with the setting that the command turns off."
not_this = "Options of type=bool that were not given, or were given True or an empty text. Functions of the script's own that read a text."
source = "Python's documentation of argparse: bool is not recommended as a type, for it makes True of every text that is not empty."
*/
WITH options AS (
    SELECT rank, min(step) AS step, count(*) AS value, arg_min(detail, time_ns) AS first
    FROM events WHERE event = 'option-misread' GROUP BY rank
)
SELECT rank, step, value, first ->> '$.place' AS place, first ->> '$.option' AS option,
    first ->> '$.text' AS text, replace(ltrim(first ->> '$.option', '-'), '_', '-') AS flag,
    if((first ->> '$.by_default')::BOOL, 'default', 'command') AS given_,
    value - 1 AS others, if(others > 0, 'others', 'alone') AS more
FROM options
ORDER BY step, rank
