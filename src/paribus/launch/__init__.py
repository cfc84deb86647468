"""Runs on other machines: on a Ray cluster, or by files that Slurm and SkyPilot take."""

from __future__ import annotations

from paribus.launch.ray_cluster import RayCluster as RayCluster
from paribus.launch.skypilot import write_skypilot as write_skypilot
from paribus.launch.slurm import write_slurm as write_slurm
