"""Which job starts next among several that may: fair turns of tenants, and bounds on starvation."""
