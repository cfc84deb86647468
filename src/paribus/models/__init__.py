"""Models: load and save Hugging Face causal LMs, turn messages into prompts, decode with a cache, read values."""
