"""Schedules as pure values: definitions, policies, state, and decisions about due occurrences.

Instants are aware and in UTC. A *wall time* is a naive datetime: local time in a zone that is known from context.
Schedulers rely on one operation: the first occurrence strictly after an instant.
"""
