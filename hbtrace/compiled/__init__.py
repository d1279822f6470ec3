"""The compiled part of hbtrace: C++ with a plain C interface, built when hbtrace is installed, absent where it was not.

`compile` builds it, `library` loads it, `hbtrace.h` is what both sides agree on.
"""
