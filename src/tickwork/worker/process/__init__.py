"""Child processes of a worker: started by a fork server, watched, and their output collected."""
