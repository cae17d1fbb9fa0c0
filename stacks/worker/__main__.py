"""The program of a worker process: `python -m stacks.worker`. The fence comes before imports that start threads."""

import gc

gc.disable()  # until all is imported: collections find no garbage then and take a sixth of the time

from stacks.common.listeners import fence_listeners  # noqa: E402

fence_listeners()

from stacks.worker.process import main  # noqa: E402

gc.freeze()
gc.enable()
main()
