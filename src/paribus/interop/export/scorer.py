"""scorer.py of an export: our graders as one file of the standard library, made from their own source.

The classes and functions that an `Answer` grader reaches are copied out of `tasks.numbers`, `tasks.grading` and `types`
by their syntax trees; compiled patterns are written out as they are when the module is imported, without what Python
3.10 does not know. Nothing is rewritten by hand, so what the file judges is what training here judges.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from paribus.errors import ConfigError
from paribus.interop.export.atomic import without_possessive
from paribus.part import dump
from paribus.tasks import Answer

SOURCES = ("paribus.types", "paribus.tasks.numbers", "paribus.tasks.grading")  # in the order of their imports
GRADER = ("policy", "marker", "stop")  # the fields of an Answer, besides its type
METHODS = ("grade", "_read", "_official")
OLDEST = (3, 10)  # the Python of verl's older environments

ENTRY = '''
GRADERS = {graders}
OUTCOMES = {outcomes}  # data source: what a score of 0 and of 1 is worth in training, and the bounds of both


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **ignored):
    """verl's scorer: `score` is what is optimised, `acc` the grader's verdict; the rest is for the record."""
    verdict = GRADERS[data_source].grade(solution_str, ground_truth)
    wrong, right, low, high = OUTCOMES.get(data_source, (0.0, 1.0, None, None))
    outcome = wrong + (right - wrong) * verdict.score
    outcome = outcome if low is None else max(outcome, low)
    outcome = outcome if high is None else min(outcome, high)
    return {{
        "score": outcome,
        "acc": verdict.score,
        "format": float(verdict.format),
        "parsed": float(verdict.status == "ok"),
        "problem_id": str((extra_info or {{}}).get("problem_id", "")),
    }}


def reward(completions, ground_truth, data_source, problem_id=(), log_extra=None, **ignored):
    """TRL's reward function: one number for each completion, a message list or a text."""
    if log_extra is not None and problem_id:
        log_extra("problem_id", list(problem_id))
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    rows = zip(data_source, texts, ground_truth)
    return [compute_score(source, text, gold)["score"] for source, text, gold in rows]


def accuracy(completions, ground_truth, data_source, **ignored):
    """The grader's verdict beside the reward, for TRL (weight 0)."""
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    rows = zip(data_source, texts, ground_truth)
    return [compute_score(source, text, gold)["acc"] for source, text, gold in rows]
'''


def scorer_source(graders: Mapping[str, Answer], outcomes: Mapping[str, tuple[Any, ...]]) -> str:
    """Return scorer.py for the grader of each data source, and the outcome of a score in training where it is not it.

    Raises ConfigError where a source could not be carried over.
    """
    modules = [importlib.import_module(name) for name in SOURCES]
    trees = {module.__name__: ast.parse(_text(module)) for module in modules}
    kept = [node for module in modules for node in _definitions(module, trees[module.__name__])]
    kept = [_portable(node) for node in _reachable(kept, {"Answer"})]
    body = "\n\n\n".join(ast.unparse(node) for node in kept)
    table = ", ".join(f"{name!r}: Answer({_arguments(grader)})" for name, grader in graders.items())
    entry = ENTRY.format(graders="{" + table + "}", outcomes=repr(dict(outcomes)))
    imports = _imports([*trees.values()], body)
    text = f'"""{_heading(graders)}"""\n\nfrom __future__ import annotations\n\n{imports}\n\n\n{body}\n\n{entry}'
    try:
        ast.parse(text, feature_version=OLDEST)
    except SyntaxError as error:
        raise ConfigError(f"scorer.py would not be Python {OLDEST[0]}.{OLDEST[1]}: {error}") from None
    return text


def source_hash() -> str:
    """Return the sha256 of the sources that scorer.py is made from."""
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(_text(importlib.import_module(name)).encode())
    return digest.hexdigest()


def _heading(graders: Mapping[str, Answer]) -> str:
    versions = "; ".join(f"{name}: {grader.name} {grader.version}" for name, grader in graders.items())
    return (
        f"Graders of Paribus for the Python standard library. Generated: change the source, not this file.\n\n"
        f"{versions}\nsource: sha256 {source_hash()} of {', '.join(SOURCES)}\n"
    )


def _text(module: ModuleType) -> str:
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as file:
        return file.read()


def _arguments(grader: Answer) -> str:
    fields = {key: value for key, value in dump(grader).items() if key != "type"}
    if set(fields) != set(GRADER):
        raise ConfigError(f"grader answer has fields that scorer.py does not know: {', '.join(sorted(fields))}")
    return ", ".join(f"{key}={fields[key]!r}" for key in GRADER)


def _definitions(module: ModuleType, tree: ast.Module) -> Iterable[ast.stmt]:
    """Yield what a module defines, patterns evaluated and the grader reduced to what it computes with."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            value = getattr(module, name)
            yield _pattern(name, value) if isinstance(value, re.Pattern) else node
        elif isinstance(node, ast.ClassDef) and node.name == "Answer":
            yield _plain_class(node)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node


def _pattern(name: str, value: re.Pattern[str]) -> ast.stmt:
    flags = value.flags & ~re.UNICODE  # which every pattern of text has
    return ast.parse(f"{name} = re.compile({value.pattern!r}, {int(flags)})").body[0]


def _portable(node: ast.stmt) -> ast.stmt:
    """Return a pattern's definition as Python 3.10 reads it; anything else as it is."""
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "re.compile"
    ):
        first = node.value.args[0]
        assert isinstance(first, ast.Constant) and isinstance(first.value, str)
        node.value.args[0] = ast.Constant(without_possessive(first.value))
    return node


def _plain_class(node: ast.ClassDef) -> ast.ClassDef:
    """Return the grader as a class of the standard library: its fields as arguments, its methods as they are."""
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name in METHODS]
    assert len(methods) == len(METHODS), "the grader's methods have other names"
    start = f"def __init__(self, {', '.join(GRADER)}):\n" + "".join(f"    self.{f} = {f}\n" for f in GRADER)
    made = ast.parse(f"class {node.name}:\n    pass").body[0]
    assert isinstance(made, ast.ClassDef)
    made.body = [*ast.parse(start).body, *methods]
    return made


def _reachable(nodes: list[ast.stmt], roots: set[str]) -> list[ast.stmt]:
    """Return the definitions that the roots need, in their order. Raises ConfigError for a name defined twice."""
    by_name: dict[str, ast.stmt] = {}
    for node in nodes:
        name = _name(node)
        if name in by_name:
            raise ConfigError(f"'{name}' is defined in two of {', '.join(SOURCES)}: scorer.py needs one")
        by_name[name] = node
    wanted, todo = set(roots), list(roots)
    while todo:
        for used in _used(by_name[todo.pop()]) & by_name.keys() - wanted:
            wanted.add(used)
            todo.append(used)
    return [node for node in nodes if _name(node) in wanted]


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign):
        assert isinstance(node.targets[0], ast.Name)
        return node.targets[0].id
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    return node.name


def _used(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _imports(trees: Iterable[ast.Module], body: str) -> str:
    """Return the import lines of the standard library that `body` uses."""
    used = _used(ast.parse(body))
    whole: set[str] = set()
    parts: dict[str, set[str]] = {}
    for node in (node for tree in trees for node in tree.body):
        if isinstance(node, ast.Import):
            whole |= {a.name for a in node.names if a.name in used}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            names = {a.name for a in node.names if a.name in used}
            if names and node.module.partition(".")[0] in sys.stdlib_module_names:
                parts.setdefault(node.module, set()).update(names)
    lines = [f"import {name}" for name in sorted(whole)]
    return "\n".join([*lines, *(f"from {name} import {', '.join(sorted(parts[name]))}" for name in sorted(parts))])
