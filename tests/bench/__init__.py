"""Benchmarks: the workloads of `make bench`. They print and never fail a test: timing is no test."""
