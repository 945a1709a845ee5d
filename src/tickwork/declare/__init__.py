"""The YAML and JSON language for dags, schedules, calendars and hooks; it reports all errors with their lines."""
