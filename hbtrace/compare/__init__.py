"""What a run comes to, and what became of its races against another run or a file: results, diff, baseline."""
