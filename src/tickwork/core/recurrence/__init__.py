"""Recurrence rules: cron, RRULE, intervals and combinations, parsed, searched and described."""
