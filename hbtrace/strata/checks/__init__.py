"""Strata's protocol rules and coverage, as checks of the registry."""
