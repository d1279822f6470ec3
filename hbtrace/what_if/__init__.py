"""The same recording under other rules, and the smallest mend."""
