"""The objects that applications use: the client, schedules, runs, limits and notifications of an app."""
