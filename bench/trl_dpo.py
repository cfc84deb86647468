"""TRL's DPOTrainer: one update on the pairs of a step; its reference is computed within the loss."""

from __future__ import annotations

from peer import Line, Phases, read_rows

line = Line()  # before any library prints

from datasets import Dataset
from torch.utils.data import SequentialSampler
from trl import DPOConfig, DPOTrainer
from trl_common import STEPS, Gate, arguments, load, settings, time_optimizer

parser = arguments(__doc__)
parser.add_argument("--max-length", type=int, default=512)
given = parser.parse_args()


class InOrder(DPOTrainer):
    """Takes the rows as they stand."""

    def _get_train_sampler(self, dataset: Dataset | None = None) -> SequentialSampler:
        return SequentialSampler(self.train_dataset if dataset is None else dataset)


model, tokenizer = load(given.model)
data = read_rows(given.rows)
answer = len(tokenizer(data[0]["chosen"], add_special_tokens=False).input_ids) + 1  # with its end marker
trainer = InOrder(
    model=model,
    processing_class=tokenizer,
    train_dataset=Dataset.from_list([{k: row[k] for k in ("prompt", "chosen", "rejected")} for row in data]),
    args=DPOConfig(
        **settings(given.scratch),
        max_steps=STEPS,
        per_device_train_batch_size=given.prompts,
        max_length=given.max_length,
    ),
)
phases = Phases()
phases.wrap(trainer, "compute_loss", "forward_with_reference")
phases.wrap(trainer.accelerator, "backward", "backward")
time_optimizer(trainer, phases, "optimizer")
trainer.add_callback(Gate(line, phases, 2 * given.prompts * answer))
trainer.train()
