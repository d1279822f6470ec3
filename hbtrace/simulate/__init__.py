"""An executable model of the ggml scheduler, as llama.cpp drives it, that writes traces: `ggml.simulate`.

It really computes, under a chosen schedule of its queues, so that a race can show as a wrong result. `config.py` and
`faults.py` say what a run is, `engine.py` and `sched.py` do it, `tape.py` writes it down, `machine.py` carries it out.
"""
