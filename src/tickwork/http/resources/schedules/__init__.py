"""Routes for schedules, their occurrences and calendars."""
