"""Which races are the same, of which nature they are, and which are shown: filters and suppressions."""
