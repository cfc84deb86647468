"""The catalogue as pages, one for each method, and an index; `python -m paribus.algorithms.pages FOLDER` writes it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paribus.algorithms.cards import CARDS, Card
from paribus.algorithms.catalog import CATALOG, Algorithm
from paribus.algorithms.show import cell_text, differences, part_text
from paribus.algorithms.slot import Need, Slot
from paribus.algorithms.spec import PolicyGradient
from paribus.part import NONE, Part, dump, flatten

IDENTITY = ("kind", "name", "paper")  # fields of an entry that an arm takes over by naming it
KINDS = {"policy_gradient": "online", "offline": "offline"}
NEEDS = {
    Need.OLD: "log-probs of the policy that starts the step",
    Need.REFERENCE: "log-probs of the frozen reference",
    Need.VALUES: "a critic's values",
    Need.FINAL_VALUE: "the critic's value after the last token of a cut response",
    Need.GROUP: "at least two samples of each prompt",
    Need.STEPS: "a score for each step of a response (table `steps` of the experiment)",
    Need.GREEDY: "the score of the greedy response to each prompt",
    Need.ENTROPY: "the entropy of the old policy at each token",
    Need.START: "responses of the policy that starts the run",
}
# in tests/: what holds every entry of a kind, by its id; and the Parts of a module that has no test of its own name
EVERY = {
    "policy_gradient": {
        "algorithms/test_law.py": "any split of an update is the same update; padding and ratio 1 change nothing",
        "algorithms/test_gradient.py": "the expected gradient, enumerated, is that of what is credited",
    },
    "offline": {
        "algorithms/test_offline.py": "any split that keeps pairs whole is the same update; padding changes nothing",
    },
}
ELSEWHERE = {
    "explore": "contract/test_mixing.py",
    "keep": "algorithms/test_spec.py",
    "offline": "algorithms/test_offline.py",
    "unpaired": "algorithms/test_preference.py",
}
INTRODUCTION = """# Methods

Made from the catalogue by `make docs`; do not edit. Each page holds a method's Parts with all their fields, formulas
and sources, an arm to write over, where it departs from its source, and who ships something else under its name.

In formulas, index t is a token, b a row, L its trained tokens, rw a token's shaped reward, lp the log-probability, r
the ratio to the old policy, A the advantage, V a value; lower-case names are the Part's fields.

Multi-step agents (several turns, tools, environments) are out of scope: a rollout is one prompt and one response. The
mask leaves the door open: observation tokens inside a row are already skipped by every loss and statistic.
"""


def pages(catalog: Mapping[str, Algorithm], cards: Mapping[str, Card]) -> dict[str, str]:
    """Return the Markdown of every page by file name: `<entry>.md`, and the index `README.md`."""
    out = {f"{name}.md": _page(entry, catalog, cards) for name, entry in catalog.items()}
    return {"README.md": _index(catalog, cards), **out}


def held_as(algorithm: Algorithm) -> str:
    """Return the entry under whose id the laws hold this one: for a flavour the first that is the same up to numbers.

    What a law could depend on are Parts, switches and what is left out; a number, or a bound in the place of none, it
    cannot.
    """
    if not CARDS[algorithm.name].flavour_of:
        return algorithm.name
    return next(name for name, entry in CATALOG.items() if _built(entry) == _built(algorithm))


def held_by(algorithm: Algorithm) -> dict[str, str]:
    """Return the files under `tests/` that hold an entry, and what each of them is about."""
    name = held_as(algorithm)
    same = "" if name == algorithm.name else " (the same up to its numbers)"
    out = {file: f"id `{name}`{same}: {what}" for file, what in EVERY[algorithm.kind].items()}
    if CARDS[algorithm.name].flavour_of:
        out["algorithms/test_flavours.py"] = "the slots in which it differs from the entry of its paper"
    parts: dict[str, list[str]] = {}
    for part in _parts(algorithm.slots.values()):
        module = type(part).__module__.rpartition(".")[2]
        file = ELSEWHERE.get(module, f"algorithms/test_{module}.py")
        parts.setdefault(file, []).append(type(part).__name__)
    for file, names in parts.items():
        told = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
        out[file] = f"{out[file]}; {told}" if file in out else told
    return out


def arm_toml(algorithm: Algorithm) -> str:
    """Return an arm's table that writes out every field of the entry with the value that it has anyway."""
    lines = ["[arm.mine]", f'base = "{algorithm.name}"']
    fields = {name: value for name, value in dump(algorithm).items() if name not in IDENTITY}
    return "\n".join([*lines, *(f"{path} = {_toml(value)}" for path, value in _leaves(fields).items())])


def write(folder: Path) -> None:
    """Write all pages; a page of an entry that is no more goes."""
    folder.mkdir(parents=True, exist_ok=True)
    found = pages(CATALOG, CARDS)
    for path in folder.glob("*.md"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")


def _built(algorithm: Algorithm) -> dict[str, bool | str]:
    """The types of an entry's Parts, by slot, and their switches."""
    fields = {name: value for name, value in dump(algorithm).items() if name not in IDENTITY}
    return {path: value for path, value in flatten(fields).items() if isinstance(value, bool | str)}


def _parts(slots: Iterable[Slot]) -> list[Slot]:
    """The Parts with those inside them."""
    out = []
    for part in slots:
        out += [part, *_parts(value for _, value in part if isinstance(value, Slot))]
    return out


def _leaves(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as dotted keys, a table's type first; a list of tables stays one value."""
    out: dict[str, Any] = {}
    for name, value in sorted(fields.items(), key=lambda item: item[0] != "type"):
        out |= _leaves(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return out


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {_toml(inner)}' for name, inner in value.items())} }}"
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_toml(inner)},\n" for inner in value) + "]"
    return json.dumps(NONE if value is None else value, ensure_ascii=False)


def _index(catalog: Mapping[str, Algorithm], cards: Mapping[str, Card]) -> str:
    columns = ["method", "title", "paper", "kind", "critic", "reference", "reward model", "groups", "also needs"]
    own = (Need.REFERENCE, Need.GROUP, Need.VALUES, Need.OLD, Need.FINAL_VALUE)
    rows = []
    for name, entry in catalog.items():
        also = [text for need, text in NEEDS.items() if need in entry.needs and need not in own]
        told = (
            entry.critic is not None,
            Need.REFERENCE in entry.needs,
            cards[name].reward_model,
            Need.GROUP in entry.needs,
        )
        marks = ["yes" if each else "" for each in told]
        first = [f"[`{name}`]({name}.md)", _text(cards[name].title), _papers(entry.paper), KINDS[entry.kind]]
        rows.append([*first, *marks, "; ".join([*also, *_topk(entry)])])
    return f"{INTRODUCTION}\n{_table(columns, rows)}\n"


def _page(entry: Algorithm, catalog: Mapping[str, Algorithm], cards: Mapping[str, Card]) -> str:
    card = cards[entry.name]
    needs = [text for need, text in NEEDS.items() if need in entry.needs] + _topk(entry)
    needs += ["a reward model (table `reward` of the experiment)"] if card.reward_model else []
    sections = [
        f"# {_text(card.title)}",
        f"`{entry.name}`, {KINDS[entry.kind]}, {_papers(entry.paper)}. [All methods](README.md)",
        f"Needs, beside rollout and score: {'; '.join(needs) or 'nothing'}.",
        _slots(entry, card),
        *_switches(entry),
        "## As an arm",
        "Every field with the value that the entry gives it; write down only what you change.",
        f"```toml\n{arm_toml(entry)}\n```",
        *_deviations(card),
        *_flavours(entry, catalog, cards),
        "## What holds it",
        "\n".join(f"- [`tests/{file}`](../../tests/{file}): {text}" for file, text in held_by(entry).items()),
    ]
    return "\n\n".join(sections) + "\n"


def _slots(entry: Algorithm, card: Card) -> str:
    rows = []
    for name, part in entry.slots.items():
        formulas = [_code(part.formula)]
        formulas += [f"{inner}: {_code(value.formula)}" for inner, value in part if isinstance(value, Slot)]
        source = _text(card.sources.get(name, "none: everything is left as it is"))
        rows.append([f"`{name}`", _code(part_text(part)), "<br>".join(formulas), source])
    return _table(["slot", "Part and its fields", "formula", "source"], rows)


def _switches(entry: Algorithm) -> list[str]:
    """The fields of an entry that are no Parts."""
    plain = {name: value for name, value in entry if name not in IDENTITY and isinstance(value, str | float)}
    if not isinstance(entry, PolicyGradient):
        return []
    told = ", ".join(f"`{name}` = {cell_text(value)}" for name, value in plain.items())
    whose = "recomputed by the learner" if entry.old == "learner" else "as the sampler recorded them"
    return [f"Beside the slots: {told}; old log-probs are {whose}."]


def _deviations(card: Card) -> list[str]:
    if not card.deviations:
        return []
    return ["## Departs from its source", "\n".join(f"- {_text(text)}" for text in card.deviations)]


def _flavours(entry: Algorithm, catalog: Mapping[str, Algorithm], cards: Mapping[str, Card]) -> list[str]:
    """Every entry that is a flavour of this one, or that this one is a flavour of, and all that it does otherwise."""
    own = cards[entry.name].flavour_of
    others = [name for name in catalog if name == own or cards[name].flavour_of == entry.name]
    out = ["## Who differs, and how"] if others else []
    for name in others:
        rows = [[f"`{r.path}`", _value(r.left), _value(r.right)] for r in differences(entry, catalog[name])]
        out.append(f"### [{_text(cards[name].title)}]({name}.md)")
        out.append(_table(["field", f"`{entry.name}`", f"`{name}`"], rows) if rows else "In nothing.")
    return out


def _topk(entry: Algorithm) -> list[str]:
    return [f"log-probs of the old policy's {entry.topk} likeliest tokens"] if entry.topk else []


def _value(value: Any) -> str:
    return cell_text(value) if isinstance(value, Part) or value is None else _code(cell_text(value))


def _papers(paper: str) -> str:
    """arXiv numbers as links."""
    return re.sub(r"\b(\d{4}\.\d{5})\b", r"[\1](https://arxiv.org/abs/\1)", paper)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|")  # in a table even code may not hold a bare bar


def _text(text: str) -> str:
    """Text that is shown as it stands, in a table too."""
    return re.sub(r"[\\`*<>|~$\[\]]|(?<![^\W_])_|_(?![^\W_])", lambda m: f"\\{m[0]}", text)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
