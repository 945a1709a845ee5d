"""What can be seen of Tickwork from outside: metrics, a dashboard and alerts made from them, logs as JSON."""
