"""Import schedules and workflow traces of other programs: crontabs, Kubernetes CronJobs, WfFormat."""
