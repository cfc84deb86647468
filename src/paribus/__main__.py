"""`python -m paribus`, for torchrun and for environments without the script on PATH."""

from paribus.cli import main

main()
