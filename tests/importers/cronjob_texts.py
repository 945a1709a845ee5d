"""A CronJob of Kubernetes with many fields, small ones with chosen fields, and a reader for both."""

from typing import Any

from tickwork.core.text.yaml_loader import write_yaml
from tickwork.importers.cronjob import read_cronjobs
from tickwork.importers.result import ImportResult

FULL = """
apiVersion: batch/v1
kind: CronJob
metadata:
  name: hello
  namespace: shop
spec:
  schedule: "*/5 * * * *"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 200
  suspend: true
  successfulJobsHistoryLimit: 3
  jobTemplate:
    metadata: {labels: {app: hello}}
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 600
      template:
        spec:
          restartPolicy: OnFailure
          serviceAccountName: robot
          volumes: [{name: data, emptyDir: {}}]
          initContainers: [{name: first, image: busybox}]
          containers:
          - name: hello
            image: busybox:1.28
            imagePullPolicy: IfNotPresent
            workingDir: /srv
            env:
            - {name: WHO, value: world}
            - {name: GREETING, value: "Hello $(WHO)"}
            - {name: PASSWORD, valueFrom: {secretKeyRef: {name: shop, key: password}}}
            - {name: EMPTY}
            envFrom: [{configMapRef: {name: shop}}]
            command: [/bin/sh, -c]
            args: ["echo $(GREETING) $(UNKNOWN) $$(WHO)"]
            volumeMounts: [{name: data, mountPath: /data}]
            resources: {limits: {memory: 64Mi}}
          - name: sidecar
            image: envoy
"""


def cronjob(name: str = "job", job: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A small CronJob, with other fields in its spec."""
    pod = {"containers": [{"name": "c", "image": "busybox", "command": ["true"]}]}
    template = {"spec": {"template": {"spec": pod}, **(job or {})}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": "0 1 * * *", "jobTemplate": template, **spec},
    }


def read(*texts: str | dict[str, Any]) -> ImportResult:
    imported = ImportResult()
    text = "\n---\n".join(one if isinstance(one, str) else write_yaml(one) for one in texts)
    read_cronjobs(text.encode(), file="f.yaml", imported=imported)
    return imported
