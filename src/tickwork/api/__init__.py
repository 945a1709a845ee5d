"""What callers hold: the client, schedules, runs, limits and notifications of an app."""
