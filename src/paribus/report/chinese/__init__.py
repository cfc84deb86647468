"""The Chinese catalogue: English template -> Chinese template, with the same gaps."""

from __future__ import annotations

from collections.abc import Mapping

CHINESE: Mapping[str, str] = {}
