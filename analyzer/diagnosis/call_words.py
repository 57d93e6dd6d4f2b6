"""What imported dumps of the ranks' calls tell in a sentence: how many calls, how many have not ended, whose dump is missing."""

from ..language import say
from ..reading.trace import Trace

_DUMPS = """
SELECT ranks_in_words(list(DISTINCT rank)) AS ranks FROM process_groups
"""

_CALLS = """
SELECT count(*) AS calls, count(DISTINCT "group") AS groups, count(*) FILTER (state = 'completed') AS completed,
    count(*) FILTER (state IN ('scheduled', 'started')) AS open_, count(state) > 0 AS told
FROM collective_calls WHERE rank IN (SELECT rank FROM process_groups)
"""

_ABSENT = """
WITH members AS (SELECT DISTINCT unnest(ranks) AS rank FROM process_groups)
SELECT CASE WHEN count(*) > 0 THEN ranks_in_words(list(rank)) END AS ranks FROM members
WHERE rank NOT IN (SELECT rank FROM process_groups)
"""


def call_sentences(trace: Trace) -> list[str]:
    """One sentence on the calls and one on dumps that are missing; none where no dump was imported."""
    if not trace.has("process_groups"):
        return []
    ranks = trace.sql(_DUMPS).item()
    row = trace.sql(_CALLS).row(0, named=True)
    ends = (
        say("{open} have not ended", open=row["open_"])
        if row["told"]
        else say("the dumps do not tell which of them have ended")
    )
    told = [
        say(
            "the dumps of {ranks} hold {calls} calls in {groups} process groups; {ends}",
            ranks=ranks,
            calls=row["calls"],
            groups=row["groups"],
            ends=ends,
        )
    ]
    absent = trace.sql(_ABSENT).item()
    if absent:
        told.append(say("there is no dump of {ranks}: import theirs too, or look at how they ended", ranks=absent))
    return told
