"""Workers over REST: their claims, long polls, leases and finishes."""
