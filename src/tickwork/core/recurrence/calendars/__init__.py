"""Calendars: days that schedules leave out."""
