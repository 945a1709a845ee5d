"""Running jobs: a supervisor that claims, renews, settles and kills, and executors that run handlers."""
