"""Store verbs that only read: lists, searches, counts, statistics and the change feed."""
