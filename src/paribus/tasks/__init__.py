"""Tasks: problems, how they are asked, and graders."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paribus.tasks.base import BOXED_PROMPT, MARKER_PROMPT, Split, Task, check_split, content_hash
from paribus.tasks.data import Columns, Gsm8k, Jsonl, Svamp
from paribus.tasks.grading import Answer, Grader, Item, Math
from paribus.tasks.stories import Stories

TaskSpec = Annotated[Gsm8k | Svamp | Jsonl | Stories, Field(discriminator="type")]

__all__ = [
    "BOXED_PROMPT",
    "MARKER_PROMPT",
    "Answer",
    "Columns",
    "Grader",
    "Gsm8k",
    "Item",
    "Jsonl",
    "Math",
    "Split",
    "Stories",
    "Svamp",
    "Task",
    "TaskSpec",
    "check_split",
    "content_hash",
]
