"""`python -m paribus`, for torchrun and for environments without the script on PATH."""

from paribus.cli import main

if __name__ == "__main__":  # a run's process imports this file again
    main()
