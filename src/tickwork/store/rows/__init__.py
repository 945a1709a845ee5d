"""Convert between database rows and core values, a module for each subject; shared by both stores."""
