"""Admission under limits: concurrency, rates, breakers, gates and lanes, as pure values and decisions.

A claim picks candidates in their order, reads the limit states, and asks this package which candidates may start. A
job that may not start is *parked*: it is moved from its lane to a lane of the limit key or gate that holds it, and
returns when that opens. So a held job never delays other jobs. Instants are whole microseconds since the epoch, by
the clock of the store.
"""
