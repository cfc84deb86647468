"""Training that needs no rollouts: supervised fine-tuning on demonstrations."""
