"""When things are due: rules, zones, calendars and policies, as pure values.

Instants are aware and in UTC. A *wall* is a naive datetime: what the clock on the wall shows, in a zone that is known
from elsewhere. One question is what schedulers live on: the first occurrence strictly after an instant.
"""
