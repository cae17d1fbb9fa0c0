"""The record of every decision with its inputs, so that an old decision can be explained."""
