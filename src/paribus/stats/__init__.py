"""Statistics of comparisons: functions of arrays that return an estimate, its interval, and the method's name.

Randomness only through an explicit `rng`. Numpy is all that is imported at the start.
"""

from __future__ import annotations

from paribus.stats.cluster import clustered_se as clustered_se
from paribus.stats.counts import Discordance as Discordance
from paribus.stats.counts import discordance as discordance
from paribus.stats.crossed import crossed as crossed
from paribus.stats.crossed import crossed_bootstrap as crossed_bootstrap
from paribus.stats.difference import Difference as Difference
from paribus.stats.difference import difference as difference
from paribus.stats.interaction import interaction as interaction
from paribus.stats.interaction import simple_effect as simple_effect
from paribus.stats.interval import Interval as Interval
from paribus.stats.interval import bootstrap as bootstrap
from paribus.stats.interval import log_ratio as log_ratio
from paribus.stats.interval import wilson as wilson
from paribus.stats.multiple import holm as holm
from paribus.stats.paired import Paired as Paired
from paribus.stats.paired import mcnemar as mcnemar
from paribus.stats.paired import paired as paired
from paribus.stats.paired import paired_equivalence as paired_equivalence
from paribus.stats.permutation import Permutation as Permutation
from paribus.stats.permutation import permutation as permutation
from paribus.stats.permutation import probability_better as probability_better
from paribus.stats.power import Spread as Spread
from paribus.stats.power import detectable as detectable
from paribus.stats.power import equivalence_margin as equivalence_margin
from paribus.stats.power import equivalence_power as equivalence_power
from paribus.stats.power import planned_se as planned_se
from paribus.stats.power import problems_needed as problems_needed
from paribus.stats.power import seeds_for_equivalence as seeds_for_equivalence
from paribus.stats.power import seeds_needed as seeds_needed
from paribus.stats.power import spread as spread
from paribus.stats.power import superiority_power as superiority_power
from paribus.stats.samples import Average as Average
from paribus.stats.samples import BestOf as BestOf
from paribus.stats.samples import average as average
from paribus.stats.samples import best_of as best_of
from paribus.stats.samples import majority as majority
from paribus.stats.samples import pass_at_k as pass_at_k
from paribus.stats.verdict import Settle as Settle
from paribus.stats.verdict import Verdict as Verdict
from paribus.stats.verdict import verdicts as verdicts
