"""Calendars: days and times that schedules include or leave out."""
