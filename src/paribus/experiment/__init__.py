"""Experiment: load, resolve, validate, and tell in what its arms differ."""

from __future__ import annotations

from paribus.experiment.differences import PlanRow as PlanRow
from paribus.experiment.differences import base_config as base_config
from paribus.experiment.differences import comparable as comparable
from paribus.experiment.differences import controlled as controlled
from paribus.experiment.differences import differences as differences
from paribus.experiment.differences import identity as identity
from paribus.experiment.differences import run_config as run_config
from paribus.experiment.files import load_experiment as load_experiment
from paribus.experiment.files import resolve as resolve
from paribus.experiment.spec import EXCEPTIONS as EXCEPTIONS
from paribus.experiment.spec import IDENTITY as IDENTITY
from paribus.experiment.spec import NOT_IDENTITY as NOT_IDENTITY
from paribus.experiment.spec import Arm as Arm
from paribus.experiment.spec import Experiment as Experiment
from paribus.experiment.spec import Setting as Setting
