"""Rows of own responses as data: pairs of better and worse, labelled responses, right ones."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from paribus.algorithms import OwnLabels, OwnPairs, OwnSource
from paribus.batch import Batch, Mean, Role, Rollout, Stats, concat, select
from paribus.lazy import torch
from paribus.pipeline.collect import Graded


def own_rows(source: OwnSource, graded: Graded) -> tuple[Batch, Stats]:
    """Return the rows that a step trains on, and how many there were of what was sampled."""
    if isinstance(source, OwnPairs):
        pairs = pair_rows(graded.rollout.group.tolist(), graded.score.tolist(), source.per_prompt, source.min_gap)
        rows = [row for pair in pairs for row in pair]
        batch = data_batch(graded, rows, [Role.GOOD, Role.BAD] * len(pairs), [i // 2 for i in range(len(rows))])
        return batch, {"pairs": Mean(len(pairs), 1), "prompts_with_pairs": _share(rows, graded)}
    if isinstance(source, OwnLabels):
        return labelled(graded, source.threshold)
    rows = right_rows(graded.rollout, graded.score.tolist(), source.threshold, source.per_prompt)
    batch = data_batch(graded, rows, [Role.GOOD] * len(rows), list(range(len(rows))))
    return batch, {"demonstrations": Mean(len(rows), 1), "prompts_with_demonstrations": _share(rows, graded)}


def pair_rows(
    group: Sequence[int], score: Sequence[float], per_prompt: int | None, min_gap: float
) -> list[tuple[int, int]]:
    """Return (better, worse) rows of the same prompt whose scores differ by more than `min_gap`.

    At most `per_prompt` of a prompt, spread over its responses: one that is in no pair yet comes before others come
    again.
    """
    out: list[tuple[int, int]] = []
    for rows in _groups(group):
        known = [row for row in rows if score[row] == score[row]]  # NaN is unlike itself
        ordered = sorted(known, key=lambda row: (-score[row], row))
        pairs = [
            (good, bad)
            for shift in range(1, len(ordered))
            for good, bad in zip(ordered, ordered[shift:], strict=False)
            if score[good] - score[bad] > min_gap
        ]
        out += pairs if per_prompt is None else _spread(pairs, per_prompt)
    return out


def _spread(pairs: Sequence[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """The first `limit` pairs, when the next one is always the one whose rows have been used least."""
    left, uses, out = list(pairs), Counter[int](), list[tuple[int, int]]()
    while left and len(out) < limit:
        pair = min(left, key=lambda p: sorted((uses[p[0]], uses[p[1]])))
        left.remove(pair)
        out.append(pair)
        uses.update(pair)
    return out


def right_rows(rollout: Rollout, score: Sequence[float], threshold: float, per_prompt: int | None) -> list[int]:
    """Return rows that score at least `threshold`: at most `per_prompt` of a prompt, no text of a prompt twice."""
    out: list[int] = []
    for rows in _groups(rollout.group.tolist()):
        distinct = {rollout.text[row]: row for row in reversed(rows) if score[row] >= threshold}
        out += sorted(distinct.values())[:per_prompt]
    return out


def labelled(graded: Graded, threshold: float) -> tuple[Batch, Stats]:
    """Every scored row as desirable or undesirable, and after them each prompt with the response to another prompt."""
    score = graded.score.tolist()
    rows = [i for i in range(graded.rollout.rows) if score[i] == score[i]]
    roles = [Role.GOOD if score[i] >= threshold else Role.BAD for i in rows]
    batch = with_mismatched(data_batch(graded, rows, roles, list(range(len(rows)))))
    return batch, {"desirable": Mean(sum(role is Role.GOOD for role in roles), max(1, len(roles)))}


def data_batch(graded: Graded, rows: Sequence[int], roles: Sequence[Role], unit: Sequence[int]) -> Batch:
    """Return those rows (a row may stand several times) with what they are to a loss."""
    chosen = torch.tensor(list(rows), dtype=torch.long)
    rollout = select(graded.rollout, chosen)
    return Batch(
        rollout=rollout,
        score=graded.score[chosen],
        reward=torch.zeros(rollout.mask.shape),
        mask=rollout.mask,
        parts=select(graded.parts, chosen),
        role=torch.tensor([int(role) for role in roles], dtype=torch.long),
        unit=torch.tensor(list(unit), dtype=torch.long),
    )


def with_mismatched(batch: Batch) -> Batch:
    """Return the batch with every prompt once more, answered by another prompt's response: measured, never trained."""
    other = mismatched(batch.rollout)
    if not other.rows:
        return batch
    role, unit = batch.role, batch.unit
    assert role is not None and unit is not None
    joined = concat([batch.rollout, other])
    rollout = dataclasses.replace(joined, group=torch.cat([batch.group, other.group]))
    own = torch.arange(rollout.rows) < batch.rollout.rows
    nothing = torch.full((other.rows,), float("nan"))
    return Batch(
        rollout=rollout,
        score=torch.cat([batch.score, nothing]),
        reward=torch.zeros(rollout.mask.shape),
        mask=rollout.mask & own[:, None],
        parts={name: torch.cat([value, nothing]) for name, value in batch.parts.items()},
        role=torch.cat([role, torch.full((other.rows,), int(Role.MISMATCHED))]),
        unit=torch.cat([unit, unit.max() + 1 + torch.arange(other.rows)]),
    )


def mismatched(rollout: Rollout) -> Rollout:
    """Return each row's prompt with a response to another prompt, different ones as far as they go; none if there is
    one prompt only.
    """
    rows = rollout.rows
    begin, length = rollout.mask.long().argmax(1).tolist(), rollout.length.tolist()
    asked = [tuple(rollout.tokens[i, : begin[i]].tolist()) for i in range(rows)]  # one prompt may be several groups
    times = Counter(asked)
    # past all rows of its own prompt, so that the samples of one prompt get those of the next, and not all the first
    others = [range(i + times[asked[i]], i + times[asked[i]] + rows) for i in range(rows)]
    partner = [next((j % rows for j in others[i] if asked[j % rows] != asked[i]), i) for i in range(rows)]
    pieces = [
        (rollout.tokens[i, : begin[i]], rollout.tokens[j, begin[j] : length[j]], rollout.mask[j, begin[j] : length[j]])
        for i, j in enumerate(partner)
        if j != i
    ]
    kept = [i for i, j in enumerate(partner) if j != i]
    width = max((len(p) + len(r) for p, r, _ in pieces), default=1)
    tokens = torch.zeros(len(kept), width, dtype=torch.long)
    mask = torch.zeros(len(kept), width, dtype=torch.bool)
    for row, (prompt, response, trained) in enumerate(pieces):
        tokens[row, : len(prompt) + len(response)] = torch.cat([prompt, response])
        mask[row, len(prompt) : len(prompt) + len(response)] = trained
    return Rollout(
        tokens=tokens,
        mask=mask,
        length=torch.tensor([len(p) + len(r) for p, r, _ in pieces], dtype=torch.long),
        group=rollout.group[kept],
        sampled_logp=torch.zeros(len(kept), width),
        problem_id=[rollout.problem_id[i] for i in kept],
        sample=rollout.sample[kept],
        stop=[rollout.stop[partner[i]] for i in kept],
        text=[rollout.text[partner[i]] for i in kept],
        version=rollout.version,
    )


def _groups(group: Sequence[int]) -> list[list[int]]:
    rows: dict[int, list[int]] = {}
    for row, name in enumerate(group):
        rows.setdefault(name, []).append(row)
    return list(rows.values())


def _share(rows: Sequence[int], graded: Graded) -> Mean:
    """The share of the step's prompts that `rows` come from."""
    group = graded.rollout.group.tolist()
    return Mean(len({group[row] for row in rows}), len(set(group)))
