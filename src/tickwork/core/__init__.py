"""Pure domain logic: values in, values out; no I/O, no clock, no randomness of its own, no logging."""
