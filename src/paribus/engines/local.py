"""The sampler that shares the learner's module: cached decoding in this process, on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from paribus.batch import Mix, Rollout, TopK, move
from paribus.engines.gumbel import draw, happens, keep_top_p
from paribus.engines.protocols import SamplingPlan
from paribus.engines.rollouts import Response, assemble, row_keys
from paribus.errors import ConfigError
from paribus.models.chat import decode_responses
from paribus.models.decoder import Decoder, make_decoder
from paribus.models.hf import LoadedModel
from paribus.models.mix import NearestTokens, embed, mix_weights
from paribus.types import Key, Prompt, Stop

LEAVE_SHARE = 0.75  # finished rows leave the batch when fewer than this share of it is still running


class _Work(NamedTuple):
    """Rows decoded together: their prompts, each row's prompt, its place in the request, and its key."""

    prompts: list[Prompt]
    prompt: torch.Tensor  # [R]
    place: list[int]
    key: torch.Tensor  # [R]


class _Trace:
    """What decoding writes down of its rows, step by step: `[R, N, ...]` on the model's device."""

    def __init__(self, rows: int, plan: SamplingPlan, device: torch.device) -> None:
        def zeros(*width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.zeros(rows, plan.max_tokens, *width, dtype=dtype, device=device)

        k, n = plan.topk, plan.mix_neighbours
        self.tokens, self.logp = zeros(dtype=torch.long), zeros()
        self.size = torch.full((rows,), plan.max_tokens, device=device)
        self.topk = TopK(zeros(k, dtype=torch.long), zeros(k)) if k else None
        self.mix = Mix(zeros(n, dtype=torch.long), zeros(n)) if plan.mix_rate else None


class LocalSampler:
    """Continues prompts with a Hugging Face model, at most `decode_rows` rows at once; see `Sampler`.

    Each prompt is read once for all its samples. Draws are keyed by row, so the tokens of a row depend on neither
    `decode_rows` nor its company, except at near-ties under float rounding.
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
            own = dict(self.model.named_parameters())
            with torch.no_grad():
                for name, value in weights.items():
                    own[name].copy_(value)

    def sample(self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key) -> Rollout:
        self._check_context(prompts, plan)
        self._check_plan(plan)
        with torch.no_grad():
            decoder = make_decoder(self.model)
            # as the decoder, for this call only: weights may change before the next
            nearest = NearestTokens(self._embedding.weight, plan.mix_neighbours) if plan.mix_rate else None
        rows: dict[int, Response] = {}
        for work in self._schedule(prompts, plan, key):
            rows |= zip(work.place, self._responses(self._decode(decoder, nearest, work, plan)), strict=True)
        responses = [rows[place] for place in range(len(rows))]
        return assemble(prompts, plan.samples, responses, pad_id=self.loaded.pad_id, version=self.version)

    def _check_context(self, prompts: Sequence[Prompt], plan: SamplingPlan) -> None:
        longest, context = max(len(prompt.ids) for prompt in prompts), self.model.config.max_position_embeddings
        if longest + plan.max_tokens > context:
            raise ConfigError(
                f"a prompt of {longest} tokens and max_response = {plan.max_tokens} exceed the model's context of "
                f"{context} tokens: lower max_prompt or max_response"
            )

    def _check_plan(self, plan: SamplingPlan) -> None:
        vocabulary = self._embedding.weight.shape[0]
        for what, count in (("top-k", plan.topk), ("mix of neighbours", plan.mix_neighbours)):
            if count > vocabulary:
                raise ConfigError(
                    f"a {what} of {count} tokens exceeds the model's vocabulary of {vocabulary}: ask for fewer"
                )
        if plan.mix_rate and not plan.temperature:
            raise ConfigError("greedy decoding mixes no embeddings: set the mix rate to 0, or a temperature above 0")

    def _schedule(self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key) -> list[_Work]:
        """Cut the request into pieces of at most `decode_rows` rows, longest prompts first: alike lengths together."""
        keys = row_keys(prompts, plan.samples, key)
        order = sorted(range(len(prompts)), key=lambda i: (-len(prompts[i].ids), i))
        places = [i * plan.samples + s for i in order for s in range(plan.samples)]
        pieces = []
        for start in range(0, len(places), self.decode_rows):
            place = places[start : start + self.decode_rows]
            groups = list(dict.fromkeys(p // plan.samples for p in place))
            number = {group: i for i, group in enumerate(groups)}
            prompt = torch.tensor([number[p // plan.samples] for p in place], device=self.model.device)
            row_key = torch.tensor([keys[p] for p in place], device=self.model.device)
            pieces.append(_Work([prompts[g] for g in groups], prompt, place, row_key))
        return pieces

    @torch.inference_mode()
    def _decode(self, decoder: Decoder, nearest: NearestTokens | None, work: _Work, plan: SamplingPlan) -> _Trace:
        """Sample the rows of `work`, each up to a stop token (included) or the limit."""
        device = self.model.device
        length = torch.tensor([len(prompt.ids) for prompt in work.prompts])
        width = int(length.max())
        padded = [[self.loaded.pad_id] * (width - len(p.ids)) + list(p.ids) for p in work.prompts]
        logits = decoder.start(torch.tensor(padded, device=device), length.to(device), work.prompt, plan.max_tokens)
        count = len(work.place)
        trace = _Trace(count, plan, device)
        row = torch.arange(count, device=device)  # which row each line of the batch decodes
        running = torch.ones(count, dtype=torch.bool, device=device)
        for t in range(plan.max_tokens):
            keys = work.key[row]
            chosen, chosen_logp = choose(logits, keys, t, plan)
            trace.tokens[row, t] = chosen
            trace.logp[row, t] = chosen_logp
            if trace.topk is not None:
                trace.topk.ids[row, t], trace.topk.logp[row, t] = likeliest(logits, plan)
            stopped = torch.isin(chosen, self._stops)
            if nearest is not None and trace.mix is not None:
                # behind a stop token nothing is read, mixed or not
                at = (mixes(keys, t, plan) & ~stopped).nonzero().squeeze(1)
                ids = nearest(chosen[at])
                trace.mix.ids[row[at], t] = ids
                trace.mix.weight[row[at], t] = mix_weights(logits[at], ids, plan.temperature)
            ended = stopped & running
            trace.size[row[ended]] = t + 1
            running &= ~ended
            left = int(running.sum())
            if left == 0 or t + 1 == plan.max_tokens:
                break
            if left < LEAVE_SHARE * len(row):
                kept = running.nonzero().squeeze(1)
                decoder.keep(kept)
                row, chosen, running = row[kept], chosen[kept], running[kept]
            read = None
            if trace.mix is not None:
                read = embed(self._embedding, chosen, Mix(trace.mix.ids[row, t], trace.mix.weight[row, t]))
            logits = decoder.step(chosen, read)
        return trace

    def _responses(self, trace: _Trace) -> list[Response]:
        """Return what was decoded, row by row, on the CPU."""
        tokens, logp, sizes = trace.tokens.tolist(), trace.logp.tolist(), trace.size.tolist()
        ids = [row[:n] for row, n in zip(tokens, sizes, strict=True)]
        texts = decode_responses(self.loaded.tokenizer, ids, self.loaded.stop_ids)
        topk, mix = move(trace.topk, "cpu"), move(trace.mix, "cpu")
        return [
            Response(
                ids=ids[i],
                logp=logp[i][:n],
                stop=Stop.EOS if ids[i][-1] in self.loaded.stop_ids else Stop.LENGTH,
                text=texts[i],
                topk=None if topk is None else TopK(topk.ids[i, :n], topk.logp[i, :n]),
                mix=None if mix is None else Mix(mix.ids[i, :n], mix.weight[i, :n]),
            )
            for i, n in enumerate(sizes)
        ]


def choose(
    logits: torch.Tensor, keys: torch.Tensor, position: int, plan: SamplingPlan
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one token per row of `logits[R, V]` and its log-prob under the temperature-scaled full softmax."""
    scaled = _scaled(logits, plan)
    if plan.temperature == 0:
        chosen = scaled.argmax(-1)
    else:
        chosen = draw(keep_top_p(scaled, plan.top_p), keys, torch.full_like(keys, position))
    if plan.mix_rate:
        chosen = torch.where(mixes(keys, position, plan), scaled.argmax(-1), chosen)
    return chosen, scaled.gather(-1, chosen[:, None]).squeeze(-1) - scaled.logsumexp(-1)


def mixes(keys: torch.Tensor, position: int, plan: SamplingPlan) -> torch.Tensor:
    """Say which rows take the likeliest token at this position, in order to mix its neighbours into it."""
    return happens(keys, torch.full_like(keys, position), plan.mix_rate)


def likeliest(logits: torch.Tensor, plan: SamplingPlan) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and log-probs `[R, K]` of the `plan.topk` likeliest tokens under the temperature-scaled softmax."""
    scaled = _scaled(logits, plan)
    values, ids = scaled.topk(plan.topk)
    return ids, values - scaled.logsumexp(-1, keepdim=True)


def _scaled(logits: torch.Tensor, plan: SamplingPlan) -> torch.Tensor:
    scaled = logits.float()
    return scaled if plan.temperature in (0, 1) else scaled / plan.temperature
