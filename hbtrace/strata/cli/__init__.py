"""Strata's commands."""
