"""What a trace holds, and where the in-place hazard can arise."""
