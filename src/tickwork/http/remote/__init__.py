"""Remote workers: claims, long polls, leases and finishes over REST."""
