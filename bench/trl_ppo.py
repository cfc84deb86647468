"""TRL's PPOTrainer, which 1.12 was the last to have: policy, reference, value and reward model, one epoch a step."""

from __future__ import annotations

from peer import Line, Phases, read_rows

line = Line()  # before any library prints

import torch
import trl.experimental.ppo.ppo_trainer as module
from datasets import Dataset
from transformers import AutoModelForSequenceClassification
from trl.experimental.ppo import PPOConfig, PPOTrainer
from trl_common import STEPS, Gate, arguments, load, settings

parser = arguments(__doc__)
parser.add_argument("--max-new", type=int, required=True)
given = parser.parse_args()


class BetweenSteps(Gate):
    """This trainer tells only when a step ends: the next one begins there."""

    def on_train_begin(self, *args: object, **kwargs: object) -> None:
        super().on_train_begin()
        super().on_step_begin()

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        super().on_step_end()
        super().on_step_begin()


def scalar_model() -> object:
    return AutoModelForSequenceClassification.from_pretrained(given.model, dtype="float32", num_labels=1)


policy, tokenizer = load(given.model)
trainer = PPOTrainer(
    processing_class=tokenizer,
    model=policy,
    ref_model=load(given.model)[0],
    reward_model=scalar_model(),
    value_model=scalar_model(),
    train_dataset=Dataset.from_list(
        [{"input_ids": tokenizer(row["prompt"]).input_ids} for row in read_rows(given.rows)]
    ),
    args=PPOConfig(
        **settings(given.scratch),
        per_device_train_batch_size=given.prompts,
        gradient_accumulation_steps=1,
        num_mini_batches=1,
        num_ppo_epochs=1,
        local_rollout_forward_batch_size=given.prompts,
        response_length=given.max_new,
        total_episodes=given.prompts * STEPS,
        num_sample_generations=0,
        temperature=1.0,
    ),
)
phases = Phases()
phases.wrap(module, "batch_generation", "rollout")
phases.wrap(module, "forward", "ref_logp", when=lambda: not torch.is_grad_enabled())
phases.wrap(module, "get_reward", "values", when=lambda: not torch.is_grad_enabled())
phases.wrap(module, "forward", "update", when=torch.is_grad_enabled)
phases.wrap(trainer.accelerator, "backward", "update")
phases.wrap(trainer.optimizer, "step", "update")
trainer.add_callback(BetweenSteps(line, phases, given.prompts * given.max_new))
trainer.train()
