"""Statistics of comparisons: functions of arrays that return an estimate, its interval, and the method's name.

Randomness only through an explicit `rng`. Numpy is all that is imported at the start.
"""

from __future__ import annotations

from paribus.stats.crossed import crossed as crossed
from paribus.stats.crossed import crossed_bootstrap as crossed_bootstrap
from paribus.stats.crossed import two_way as two_way
from paribus.stats.interaction import interaction as interaction
from paribus.stats.interaction import simple_effect as simple_effect
from paribus.stats.interval import Interval as Interval
from paribus.stats.interval import bootstrap as bootstrap
from paribus.stats.interval import log_ratio as log_ratio
from paribus.stats.interval import wilson as wilson
from paribus.stats.paired import Paired as Paired
from paribus.stats.paired import mcnemar as mcnemar
from paribus.stats.paired import paired as paired
