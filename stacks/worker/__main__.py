"""The program of a worker process: `python -m stacks.worker`."""

from stacks.worker.process import main

main()
