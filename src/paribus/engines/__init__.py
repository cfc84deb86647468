"""Engines: who samples and who learns, behind two small protocols."""
