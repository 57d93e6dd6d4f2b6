"""How the devices of a profile were used, in one line: for the terminal, so without charts."""

from ...analyzer import Trace
from ..text.language import say
from ..text.wording import duration

USE = """
SELECT rank, sum(ns)::DOUBLE AS ns, count(step) AS steps, sum(busy_ns)::DOUBLE AS busy, sum(exposed_ns)::DOUBLE AS exposed,
    sum(communication_ns)::DOUBLE AS communication, sum(kernels) AS kernels, sum(kernel_ns)::DOUBLE AS kernel_ns
FROM profiled_steps GROUP BY rank HAVING sum(busy_ns) > 0 ORDER BY rank
"""
"""One row for each rank whose device worked while it was profiled."""


def device_facts(trace: Trace) -> str:
    """One line on how the devices were used; empty where no work of a device was profiled."""
    use = trace.sql(USE)
    if not use.height:
        return ""
    first = use.row(0, named=True)
    shares = (use["busy"] / use["ns"]).to_list()
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    share = low if low == high else say("{low} to {high}", low=low, high=high)
    words = (
        say(
            "busy {share} of {span} in {steps}",
            share=share,
            span=duration(first["ns"]),
            steps=steps_in_words(first["steps"]),
        )
        if first["steps"]
        else say(
            "busy {share} of {span}, the whole profile: no step is marked", share=share, span=duration(first["ns"])
        )
    )
    exposed = float(use["exposed"].sum()) / float(use["ns"].sum())
    if use["communication"].sum():
        words += say("; only communication {exposed}", exposed=f"{exposed:.0%}")
    return words


def steps_in_words(count: int) -> str:
    """How many steps were profiled."""
    return say("{count} profiled steps", count=count) if count > 1 else say("one profiled step")
