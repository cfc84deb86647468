"""Trackers (trackio, TensorBoard, W&B, MLflow), fed from stored runs; nothing of it is in a run's own process."""
