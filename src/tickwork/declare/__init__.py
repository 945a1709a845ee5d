"""The YAML and JSON language for dags, schedules, calendars and hooks: read with every problem by line."""
