"""Stored runs: the directory that everything after training is computed from.

    runs/<experiment>/experiment.json                     what was asked, the arms, their differences
    runs/<experiment>/plan.json                           memory, power and fairness as planned before the runs
    runs/<experiment>/problems/<suite>.jsonl.gz           questions and gold answers of an evaluation
    runs/<experiment>/_base/                              the evaluation of the untrained model (a run without steps)
    runs/<experiment>/_track/<tracker>.json               how far `paribus track` has sent the runs
    runs/<experiment>/<arm>/seed-<k>/
        run.json config.json                              identity, attempts, hardware, versions; resolved configuration
        steps.jsonl timing.jsonl                          deterministic rows; seconds and memory
        eval/<suite>/<step>.jsonl.gz rollouts/<step>.jsonl.gz
        checkpoints/step-<n>/ final/                      complete or absent
        DONE | FAILED.json                                written last; a run with neither is interrupted

    <any folder>/                                         what `paribus eval --out` leaves of one model
        eval.json <suite>.jsonl.gz problems/<suite>.jsonl.gz

`step` counts completed steps everywhere: the first row is step 1, `checkpoints/step-10` and `eval/<suite>/10` stand
after row 10, the base is evaluated at step 0.

    paths = ExperimentPaths(root).run("grpo", seed=0)     ExperimentPaths(root).base
    status(paths)                                         "new" | "interrupted" | "done" | "failed"
    check_same(paths, facts)                              ConfigError if the stored run is of other settings or data
    run = RunWriter.create(paths, facts, config)          RunWriter.resume(paths, facts)
    run.append_step(StepRow(...))                         synced before it returns
    run.append_timing(TimingRow(...))                     attempt number is filled in
    run.write_eval(suite, step, rows)                     run.has_eval(suite, step)
    run.write_rollouts(step, rows)                        run.write_final(write)
    run.truncate_after(step)                              after a restart: forget what the checkpoint does not know
    run.done(summary) | run.failed(error) | run.interrupted()
    checkpoint.commit(paths.checkpoints, step, keep, write, state)
    checkpoint.latest_good(paths.checkpoints)             -> Found(path, step, state, warnings)
    checkpoint.load(path)                                 this one or CheckpointError
    write_experiment(ExperimentPaths(root), info)         write_problems(ExperimentPaths(root), suite, rows)
    read_experiment(root)                                 -> StoredExperiment(info, base, runs[arm][seed])
    read_eval(folder)                                     -> StoredEval(info, rows(suite), problems(suite))
"""

from __future__ import annotations

from paribus.store import checkpoint as checkpoint
from paribus.store.advice import Advice as Advice
from paribus.store.advice import ArmAdvice as ArmAdvice
from paribus.store.advice import FindingRow as FindingRow
from paribus.store.advice import MeasuredRow as MeasuredRow
from paribus.store.advice import SaidRow as SaidRow
from paribus.store.advice import SignalRow as SignalRow
from paribus.store.advice import write_advice as write_advice
from paribus.store.layout import BASE as BASE
from paribus.store.layout import EvalPaths as EvalPaths
from paribus.store.layout import ExperimentPaths as ExperimentPaths
from paribus.store.layout import RunPaths as RunPaths
from paribus.store.plan import ArmPlan as ArmPlan
from paribus.store.plan import PlanInfo as PlanInfo
from paribus.store.provenance import value_hash as value_hash
from paribus.store.reader import StoredEval as StoredEval
from paribus.store.reader import StoredExperiment as StoredExperiment
from paribus.store.reader import StoredRun as StoredRun
from paribus.store.reader import read_eval as read_eval
from paribus.store.reader import read_experiment as read_experiment
from paribus.store.schema import PHASES as PHASES
from paribus.store.schema import Attempt as Attempt
from paribus.store.schema import CellRow as CellRow
from paribus.store.schema import DataInfo as DataInfo
from paribus.store.schema import DifferenceRow as DifferenceRow
from paribus.store.schema import EvalInfo as EvalInfo
from paribus.store.schema import EvalRow as EvalRow
from paribus.store.schema import ExperimentInfo as ExperimentInfo
from paribus.store.schema import FactorRow as FactorRow
from paribus.store.schema import GraderInfo as GraderInfo
from paribus.store.schema import HubInfo as HubInfo
from paribus.store.schema import Phase as Phase
from paribus.store.schema import ProblemRow as ProblemRow
from paribus.store.schema import RolloutRow as RolloutRow
from paribus.store.schema import RunFacts as RunFacts
from paribus.store.schema import RunInfo as RunInfo
from paribus.store.schema import ShortRow as ShortRow
from paribus.store.schema import StepRow as StepRow
from paribus.store.schema import SuiteInfo as SuiteInfo
from paribus.store.schema import TimingRow as TimingRow
from paribus.store.schema import stat_value as stat_value
from paribus.store.tuning import TUNE as TUNE
from paribus.store.tuning import TrialRow as TrialRow
from paribus.store.tuning import TuningInfo as TuningInfo
from paribus.store.tuning import read_tuning as read_tuning
from paribus.store.tuning import write_tuning as write_tuning
from paribus.store.writer import RunWriter as RunWriter
from paribus.store.writer import check_same as check_same
from paribus.store.writer import status as status
from paribus.store.writer import wait_for_lock as wait_for_lock
from paribus.store.writer import write_experiment as write_experiment
from paribus.store.writer import write_problems as write_problems
