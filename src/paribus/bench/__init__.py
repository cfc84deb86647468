"""Speed and memory: the product's own code on work of fixed length, counted and held against the machine's limits."""
