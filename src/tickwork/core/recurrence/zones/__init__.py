"""Time zones and daylight saving time."""
