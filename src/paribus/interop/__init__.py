"""Results of Paribus and of other tools, read into one value: problem by problem, run by run.

    read("runs/exp/ppo", Choice())            -> Outcomes(name, runs, source, judged, notes)
    read("samples_gsm8k_….jsonl", Choice(filter="strict-match"))
    read("776/1319", Choice())                -> Counts
    read("experiments/published-gsm8k.toml")  -> Published
    join([one, other])                        -> Joined(problems, excluded, tables [runs, problems])

The kind of a file is told from its content, never from its name alone. A fault names file, line and key.
"""

from __future__ import annotations

from paribus.interop.outcomes import Joined as Joined
from paribus.interop.outcomes import Outcomes as Outcomes
from paribus.interop.outcomes import Run as Run
from paribus.interop.outcomes import join as join
from paribus.interop.published import Counts as Counts
from paribus.interop.published import Published as Published
from paribus.interop.published import PublishedModel as PublishedModel
from paribus.interop.read import read as read
from paribus.interop.rows import Choice as Choice
