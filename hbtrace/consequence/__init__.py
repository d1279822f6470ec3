"""What a race comes to: whether a value that it can change reaches anybody (contract, section 8)."""
