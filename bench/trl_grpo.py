"""TRL's GRPOTrainer: prompts x samples responses of fixed length, one update a step, no KL."""

from __future__ import annotations

from peer import Line, Phases, read_rows

line = Line()  # before any library prints

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl_common import STEPS, Gate, arguments, load, settings, time_optimizer

parser = arguments(__doc__)
parser.add_argument("--samples", type=int, required=True)
parser.add_argument("--max-new", type=int, required=True)
parser.add_argument("--micro", type=int, required=True, help="rows of one forward and backward pass")
given = parser.parse_args()


def digits(completions: list[str], **_: object) -> list[float]:
    """The share of digits: alike for no two responses, so that every row is trained."""
    return [sum(c.isdigit() for c in text) / max(1, len(text)) for text in completions]


model, tokenizer = load(given.model)
rows = given.prompts * given.samples
trainer = GRPOTrainer(
    model=model,
    reward_funcs=digits,
    processing_class=tokenizer,
    train_dataset=Dataset.from_list([{"prompt": row["prompt"]} for row in read_rows(given.rows)]),
    args=GRPOConfig(
        **settings(given.scratch),
        max_steps=STEPS,
        per_device_train_batch_size=given.micro,
        gradient_accumulation_steps=rows // given.micro,
        num_generations=given.samples,
        max_completion_length=given.max_new,
        generation_kwargs={"min_new_tokens": given.max_new},
        shuffle_dataset=False,
        temperature=1.0,
        beta=0.0,
    ),
)
phases = Phases()
phases.wrap(trainer, "_generate_single_turn", "rollout")
phases.wrap(trainer, "_get_per_token_logps_and_entropies", "old_logp", when=lambda: not torch.is_grad_enabled())
phases.wrap(trainer, "compute_loss", "update")
phases.wrap(trainer.accelerator, "backward", "update")
time_optimizer(trainer, phases)
trainer.add_callback(Gate(line, phases, rows * given.max_new))
trainer.train()
