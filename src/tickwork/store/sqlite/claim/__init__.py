"""Claims on SQLite: the plain claim, and the rounds of limited claims."""
