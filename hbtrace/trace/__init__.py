"""The trace: event vocabulary, Arrow and JSON Lines, reading and writing. The only place where a column is named."""
