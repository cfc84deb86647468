"""From an experiment to finished runs: the loop, the session around it, and the experiment around that."""

from __future__ import annotations

from paribus.pipeline.compare import run_experiment as run_experiment
