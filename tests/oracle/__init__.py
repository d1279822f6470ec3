"""A brute-force oracle of the contract and the random programs to hold the replay engine against it."""
