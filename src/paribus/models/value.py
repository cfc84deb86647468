"""The critic: the policy's architecture with a linear value head."""

from __future__ import annotations

import copy

import torch
from torch import nn
from transformers import PreTrainedModel

from paribus.types import Key


class ValueModel(nn.Module):
    """A trunk and a float32 value head: hidden state of the token before -> value of the state a token is chosen in.

    `shared` says that the trunk is the policy's own, so that only the head is the critic's to train.
    """

    def __init__(self, trunk: nn.Module, head: nn.Linear, *, shared: bool) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = head
        self.shared = shared

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return float32 values `[N]` of hidden states `[N, H]`."""
        return self.head(hidden.to(self.head.weight.dtype)).squeeze(-1)


def make_critic(policy: PreTrainedModel, *, head_std: float | None, shared: bool, key: Key) -> ValueModel:
    """Return a critic with a copy of the policy's trunk as it is now (or the trunk itself, when shared).

    Without `head_std` the head is zero, so that first values are 0 and first advantages the returns; with it, the
    head's weights are drawn from N(0, head_std^2) by `key`. The bias starts at 0 either way.
    """
    weight = policy.get_output_embeddings().weight
    head = nn.utils.skip_init(nn.Linear, weight.shape[1], 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    if head_std is not None:
        nn.init.normal_(head.weight, std=head_std, generator=torch.Generator().manual_seed(key.hash()))
    # float32, whatever the trunk has (a float64 model, which only tests make, keeps its precision)
    head = head.to(weight.device, torch.promote_types(weight.dtype, torch.float32))
    trunk = policy.base_model if shared else copy.deepcopy(policy.base_model)
    return ValueModel(trunk, head, shared=shared).eval()
