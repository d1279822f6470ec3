"""Replay: settings, definitions, lowering, clocks, kernel; `session` drives them all, and leaves a `recording`."""
