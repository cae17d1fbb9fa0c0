"""The program of a worker process: `python -m stacks.worker`. The fence comes before imports that start threads."""

from stacks.common.listeners import fence_listeners

fence_listeners()

from stacks.worker.process import main  # noqa: E402

main()
