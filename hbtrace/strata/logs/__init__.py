"""Strata's logs: read, given to requests, and made into events."""
