"""The report of an experiment: one page of Markdown and one self-contained HTML file, from stored runs only."""

from __future__ import annotations

from paribus.report.page import build as build
from paribus.report.summary import summary as summary
