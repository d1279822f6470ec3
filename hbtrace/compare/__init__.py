"""Which races are the same: identities, filters, and what a run's reports come to."""
