"""The sampler that shares the learner's module: cached decoding in this process, on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from paribus.batch import Mix, Rollout, TopK, move
from paribus.engines.gumbel import happens, keep_top_p, pick
from paribus.engines.protocols import Finished, SamplingPlan
from paribus.engines.rollouts import Response, assemble, check_context, row_keys
from paribus.errors import ConfigError
from paribus.models.chat import decode_responses
from paribus.models.decoder import Decoder
from paribus.models.hf import LoadedModel, take_weights
from paribus.models.llama_decoder import make_decoder
from paribus.models.mix import NearestTokens, embed, mix_weights
from paribus.types import Key, Prompt, Stop

LEAVE_SHARE = 0.75  # finished rows leave the batch when fewer than this share of it is still running


class _Asked(NamedTuple):
    """Rows that start together: their prompts, and of each row its prompt, its place in the request, and its key."""

    prompts: list[Prompt]
    prompt: torch.Tensor  # [R]
    place: torch.Tensor
    key: torch.Tensor


class _Trace:
    """What decoding writes down of its rows, step by step: `[R, N + 1, ...]` on the model's device.

    The last column takes what a row that has ended still decodes before it leaves.
    """

    def __init__(self, rows: int, plan: SamplingPlan, device: torch.device) -> None:
        def zeros(*width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(rows, plan.max_tokens + 1, *width, dtype=dtype, device=device)

        k, n = plan.topk, plan.mix_neighbours
        self.tokens, self.logp, self.entropy = zeros(dtype=torch.long), zeros(), zeros()
        self.size = torch.full((rows,), plan.max_tokens, device=device)
        self.topk = TopK(zeros(k, dtype=torch.long), zeros(k)) if k else None
        self.mix = Mix(zeros(n, dtype=torch.long), zeros(n)) if plan.mix_rate else None


class _Lines(NamedTuple):
    """The lines of the batch being decoded: the row of each, its key, how many tokens it has, whether it has ended."""

    row: torch.Tensor
    key: torch.Tensor
    done: torch.Tensor
    ended: torch.Tensor

    def at(self, lines: torch.Tensor) -> _Lines:
        return _Lines(*(x[lines] for x in self))

    def joined(self, asked: _Asked) -> _Lines:
        none = torch.zeros_like(asked.place)
        return _Lines(
            *(torch.cat(pair) for pair in zip(self, (asked.place, asked.key, none, none.bool()), strict=True))
        )


class LocalSampler:
    """Continues prompts with a Hugging Face model, at most `decode_rows` rows at once; see `Sampler`.

    Each prompt is read once for all its samples. Rows that have ended leave, and rows that wait take their places
    where the decoder can grow. Draws are keyed by row, so the tokens of a row depend on neither `decode_rows` nor its
    company, except at near-ties under float rounding.
    """

    def __init__(self, loaded: LoadedModel, *, decode_rows: int = 512) -> None:
        self.loaded = loaded
        self.model = loaded.model
        self.decode_rows = decode_rows
        self.version = 0
        self._stops = torch.tensor(loaded.stop_ids, device=self.model.device)
        self._embedding: Any = self.model.get_input_embeddings()

    def load(self, weights: Mapping[str, torch.Tensor] | None, version: int) -> None:
        """Take new weights by parameter name, or None where the learner trains this very module."""
        self.version = version
        if weights is not None:
            take_weights(self.model, weights)

    def sample(
        self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key, finished: Finished | None = None
    ) -> Rollout:
        check_context(self.model, prompts, plan)
        self._check_plan(plan)
        pieces = self._schedule(prompts, plan, key)
        trace = _Trace(len(prompts) * plan.samples, plan, self.model.device)
        with torch.inference_mode():
            # as the decoder, for this call only: weights may change before the next
            nearest = NearestTokens(self._embedding.weight, plan.mix_neighbours) if plan.mix_rate else None
            while pieces:
                decoder = make_decoder(self.model, plan.max_tokens)
                waiting = pieces if decoder.grows else [pieces[0]]
                pieces = pieces[len(waiting) :]
                self._decode(decoder, nearest, waiting, trace, plan, finished)
        responses = self._responses(trace)
        return assemble(prompts, plan.samples, responses, pad_id=self.loaded.pad_id, version=self.version)

    def _check_plan(self, plan: SamplingPlan) -> None:
        vocabulary = self._embedding.weight.shape[0]
        for what, count in (("top-k", plan.topk), ("mix of neighbours", plan.mix_neighbours)):
            if count > vocabulary:
                raise ConfigError(
                    f"a {what} of {count} tokens exceeds the model's vocabulary of {vocabulary}: ask for fewer"
                )
        if plan.mix_rate and not plan.temperature:
            raise ConfigError("greedy decoding mixes no embeddings: set the mix rate to 0, or a temperature above 0")

    def _schedule(self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key) -> list[_Asked]:
        """Cut the request into pieces that start together, longest prompts first: alike lengths together.

        A piece is as many whole prompts as a quarter of `decode_rows` has room for, or `decode_rows` rows of one.
        """
        keys = row_keys(prompts, plan.samples, key)
        order = sorted(range(len(prompts)), key=lambda i: (-len(prompts[i].ids), i))
        places = [i * plan.samples + s for i in order for s in range(plan.samples)]
        size = min(self.decode_rows, max(1, self.decode_rows // 4 // plan.samples) * plan.samples)
        pieces = []
        for start in range(0, len(places), size):
            place = places[start : start + size]
            groups = list(dict.fromkeys(p // plan.samples for p in place))
            number = {group: i for i, group in enumerate(groups)}
            ints = ([number[p // plan.samples] for p in place], place, [keys[p] for p in place])
            pieces.append(_Asked([prompts[g] for g in groups], *(self._tensor(x) for x in ints)))
        return pieces

    def _tensor(self, numbers: list[int]) -> torch.Tensor:
        return torch.tensor(numbers, device=self.model.device)

    def _decode(
        self, decoder: Decoder, nearest: NearestTokens | None, waiting: list[_Asked], trace: _Trace,
        plan: SamplingPlan, finished: Finished | None,
    ) -> None:  # fmt: skip
        """Sample the rows of `waiting`, each up to a stop token (included) or the limit, into `trace`."""
        empty = self._tensor([])
        lines = _Lines(empty.long(), empty.long(), empty.long(), empty.bool())
        logits: torch.Tensor | None = None
        while True:
            lines, logits = self._admit(decoder, waiting, lines, logits)
            chosen, read = self._choose(logits, lines, nearest, trace, plan)
            stopped = torch.isin(chosen, self._stops) | (lines.done + 1 >= plan.max_tokens)
            now = stopped & ~lines.ended
            if bool(now.any()):
                trace.size[lines.row[now]] = lines.done[now] + 1
                if finished is not None:
                    self._announce(trace, lines.row[now], finished)
            lines = lines._replace(done=lines.done + 1, ended=lines.ended | stopped)
            left = len(lines.row) - int(lines.ended.sum())
            if left == 0 and not waiting:
                return
            room = waiting and left + len(waiting[0].place) <= self.decode_rows
            if left < LEAVE_SHARE * len(lines.row) or room:
                kept = (~lines.ended).nonzero().squeeze(1)
                decoder.keep(kept)
                lines, chosen, read = lines.at(kept), chosen[kept], None if read is None else read[kept]
            logits = decoder.step(chosen, read) if left else None

    def _admit(
        self, decoder: Decoder, waiting: list[_Asked], lines: _Lines, logits: torch.Tensor | None
    ) -> tuple[_Lines, torch.Tensor]:
        """Let pieces in, as many as there is room for; return the lines with them, and everybody's logits."""
        found = [] if logits is None else [logits]
        prompts: list[Prompt] = []
        joined: list[torch.Tensor] = []
        while waiting and (not len(lines.row) or len(lines.row) + len(waiting[0].place) <= self.decode_rows):
            piece = waiting.pop(0)
            joined.append(piece.prompt + len(prompts))
            prompts += piece.prompts
            lines = lines.joined(piece)
        if prompts:
            found.append(decoder.admit([prompt.ids for prompt in prompts], torch.cat(joined)))
        return lines, found[0] if len(found) == 1 else torch.cat(found)

    def _choose(
        self, logits: torch.Tensor, lines: _Lines, nearest: NearestTokens | None, trace: _Trace, plan: SamplingPlan
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Draw every line's next token and write it down; return it, and the vectors to read where some are mixed."""
        row, t = lines.row, torch.where(lines.ended, plan.max_tokens, lines.done)
        chosen, trace.logp[row, t], trace.entropy[row, t] = choose(logits, lines.key, lines.done, plan)
        trace.tokens[row, t] = chosen
        if trace.topk is not None:
            trace.topk.ids[row, t], trace.topk.logp[row, t] = likeliest(logits, plan)
        if nearest is None or trace.mix is None:
            return chosen, None
        # behind a stop token nothing is read, mixed or not
        at = (mixes(lines.key, lines.done, plan) & ~torch.isin(chosen, self._stops)).nonzero().squeeze(1)
        ids = nearest(chosen[at])
        trace.mix.ids[row[at], t[at]] = ids
        trace.mix.weight[row[at], t[at]] = mix_weights(logits[at], ids, plan.temperature)
        return chosen, embed(self._embedding, chosen, Mix(trace.mix.ids[row, t], trace.mix.weight[row, t]))

    def _announce(self, trace: _Trace, rows: torch.Tensor, finished: Finished) -> None:
        tokens, sizes, places = trace.tokens[rows].tolist(), trace.size[rows].tolist(), rows.tolist()
        ids = [row[:n] for row, n in zip(tokens, sizes, strict=True)]
        texts = decode_responses(self.loaded.tokenizer, ids, self.loaded.stop_ids)
        finished([(p, text, self._stop(own)) for p, text, own in zip(places, texts, ids, strict=True)])

    def _stop(self, ids: list[int]) -> Stop:
        return Stop.EOS if ids[-1] in self.loaded.stop_ids else Stop.LENGTH

    def _responses(self, trace: _Trace) -> list[Response]:
        """Return what was decoded, row by row, on the CPU."""
        tokens, logp, sizes = trace.tokens.tolist(), trace.logp.tolist(), trace.size.tolist()
        entropy = trace.entropy.tolist()
        ids = [row[:n] for row, n in zip(tokens, sizes, strict=True)]
        texts = decode_responses(self.loaded.tokenizer, ids, self.loaded.stop_ids)
        topk, mix = move(trace.topk, "cpu"), move(trace.mix, "cpu")
        return [
            Response(
                ids=ids[i],
                logp=logp[i][:n],
                stop=self._stop(ids[i]),
                text=texts[i],
                topk=None if topk is None else TopK(topk.ids[i, :n], topk.logp[i, :n]),
                mix=None if mix is None else Mix(mix.ids[i, :n], mix.weight[i, :n]),
                entropy=entropy[i][:n],
            )
            for i, n in enumerate(sizes)
        ]


def choose(
    logits: torch.Tensor, keys: torch.Tensor, position: torch.Tensor, plan: SamplingPlan
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return one token per row of `logits[R, V]`, its log-prob under the temperature-scaled full softmax, and the
    entropy of that distribution; `position[R]` counts the row's tokens."""
    scaled = _scaled(logits, plan)
    top = scaled.amax(-1, keepdim=True)
    scaled = scaled - top
    weight = scaled.exp()
    total = weight.sum(-1)
    normaliser = total.log()
    # H = log Z - E[logit]
    entropy = normaliser - torch.linalg.vecdot(weight, scaled).div_(total)
    if plan.temperature == 0:
        chosen = scaled.argmax(-1)
    else:
        kept = weight if plan.top_p >= 1 else keep_top_p(scaled, plan.top_p).exp()
        chosen = pick(kept, keys, position)
    if plan.mix_rate:
        chosen = torch.where(mixes(keys, position, plan), scaled.argmax(-1), chosen)
    return chosen, scaled.gather(-1, chosen[:, None]).squeeze(-1) - normaliser, entropy


def mixes(keys: torch.Tensor, position: torch.Tensor, plan: SamplingPlan) -> torch.Tensor:
    """Say which rows take the likeliest token at their position, in order to mix its neighbours into it."""
    return happens(keys, position, plan.mix_rate)


def likeliest(logits: torch.Tensor, plan: SamplingPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and log-probs `[R, K]` of the `plan.topk` likeliest tokens under the temperature-scaled softmax."""
    scaled = _scaled(logits, plan)
    values, ids = scaled.topk(plan.topk)
    return ids, values - scaled.logsumexp(-1, keepdim=True)


def _scaled(logits: torch.Tensor, plan: SamplingPlan) -> torch.Tensor:
    scaled = logits.float()
    return scaled if plan.temperature in (0, 1) else scaled / plan.temperature
