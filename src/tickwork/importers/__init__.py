"""Schedules of other programs, read into ours: text in, Specs and remarks out."""
