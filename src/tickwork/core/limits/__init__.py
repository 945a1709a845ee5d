"""Who may start now: limits, gates, turns and places, as pure values and decisions.

A claim picks candidates in their order, reads what is live, and asks here. What may not start is *parked*: it leaves
the queue's order under the name of the *turnstile* that holds it (a limit's key, a gate), and comes back when that
opens. So nothing that is held back is ever in the way. Instants are whole microseconds since the epoch, by the store's
clock.
"""
