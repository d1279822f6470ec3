"""Executable models that write traces: `ggml*` of the ggml scheduler, `strata*` of a pipelined engine.

Each really computes, under a chosen schedule of its queues, so that a race can show as a wrong result.
"""
