"""Commands for schedules, hooks and cron expressions."""
