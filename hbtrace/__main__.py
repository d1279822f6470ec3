"""`python -m hbtrace` is `hbtrace`."""

from hbtrace.cli import main

main()
