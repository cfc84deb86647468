"""The sampler that shares the learner's module: cached decoding in this process, on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from paribus.batch import Rollout
from paribus.engines.gumbel import draw, keep_top_p
from paribus.engines.protocols import SamplingPlan
from paribus.engines.rollouts import Response, assemble, row_keys
from paribus.errors import ConfigError
from paribus.models.chat import decode_responses
from paribus.models.decoder import Decoder, make_decoder
from paribus.models.hf import LoadedModel
from paribus.types import Key, Prompt, Stop

LEAVE_SHARE = 0.75  # finished rows leave the batch when fewer than this share of it is still running


class _Work(NamedTuple):
    """Rows decoded together: their prompts, each row's prompt, its place in the request, and its key."""

    prompts: list[Prompt]
    prompt: torch.Tensor  # [R]
    place: list[int]
    key: torch.Tensor  # [R]


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
        with torch.no_grad():
            decoder = make_decoder(self.model)
        ids: list[list[int]] = [[] for _ in range(len(prompts) * plan.samples)]
        logp: list[list[float]] = [[] for _ in ids]
        for work in self._schedule(prompts, plan, key):
            for place, (row_ids, row_logp) in zip(work.place, self._decode(decoder, work, plan), strict=True):
                ids[place], logp[place] = row_ids, row_logp
        texts = decode_responses(self.loaded.tokenizer, ids, self.loaded.stop_ids)
        responses = [
            Response(i, p, Stop.EOS if i[-1] in self.loaded.stop_ids else Stop.LENGTH, text)
            for i, p, text in zip(ids, logp, texts, strict=True)
        ]
        return assemble(prompts, plan.samples, responses, pad_id=self.loaded.pad_id, version=self.version)

    def _check_context(self, prompts: Sequence[Prompt], plan: SamplingPlan) -> None:
        longest, context = max(len(prompt.ids) for prompt in prompts), self.model.config.max_position_embeddings
        if longest + plan.max_tokens > context:
            raise ConfigError(
                f"a prompt of {longest} tokens and max_response = {plan.max_tokens} exceed the model's context of "
                f"{context} tokens: lower max_prompt or max_response"
            )

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
    def _decode(self, decoder: Decoder, work: _Work, plan: SamplingPlan) -> list[tuple[list[int], list[float]]]:
        """Return the sampled ids (a final stop token included) and their log-probs, in the order of `work`."""
        device = self.model.device
        length = torch.tensor([len(prompt.ids) for prompt in work.prompts])
        width = int(length.max())
        padded = [[self.loaded.pad_id] * (width - len(p.ids)) + list(p.ids) for p in work.prompts]
        logits = decoder.start(torch.tensor(padded, device=device), length.to(device), work.prompt, plan.max_tokens)
        count = len(work.place)
        tokens = torch.zeros(count, plan.max_tokens, dtype=torch.long, device=device)
        logp = torch.zeros(count, plan.max_tokens, device=device)
        size = torch.full((count,), plan.max_tokens, device=device)
        row = torch.arange(count, device=device)  # which row each line of the batch decodes
        running = torch.ones(count, dtype=torch.bool, device=device)
        for t in range(plan.max_tokens):
            chosen, chosen_logp = choose(logits, work.key[row], t, plan)
            tokens[row, t] = chosen
            logp[row, t] = chosen_logp
            ended = torch.isin(chosen, self._stops) & running
            size[row[ended]] = t + 1
            running &= ~ended
            left = int(running.sum())
            if left == 0 or t + 1 == plan.max_tokens:
                break
            if left < LEAVE_SHARE * len(row):
                kept = running.nonzero().squeeze(1)
                decoder.keep(kept)
                row, chosen, running = row[kept], chosen[kept], running[kept]
            logits = decoder.step(chosen)
        sizes = size.tolist()
        return [(i[:n], p[:n]) for i, p, n in zip(tokens.tolist(), logp.tolist(), sizes, strict=True)]


def choose(
    logits: torch.Tensor, keys: torch.Tensor, position: int, plan: SamplingPlan
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one token per row of `logits[R, V]` and its log-prob under the temperature-scaled full softmax."""
    scaled = logits.float()
    if plan.temperature not in (0, 1):
        scaled = scaled / plan.temperature
    if plan.temperature == 0:
        chosen = scaled.argmax(-1)
    else:
        positions = torch.full_like(keys, position)
        chosen = draw(keep_top_p(scaled, plan.top_p), keys, positions)
    return chosen, scaled.gather(-1, chosen[:, None]).squeeze(-1) - scaled.logsumexp(-1)
