"""Verbs on results that are already there: compare anybody's, search their rows, watch them come in. No training."""
