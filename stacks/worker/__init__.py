"""A worker process: one operation on one lease stack at a time, through the Automation API."""
