"""Placement: which workers may run a job, by its needs and by its sticky key."""
