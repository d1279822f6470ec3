"""Strata, a pipelined engine: its logs, protocol checks, model and arms."""
