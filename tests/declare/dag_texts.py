"""Declared dags as YAML: a valid file with most fields, and files that are refused."""

EXAMPLE = """\
calendars:
  holidays: {yearly: ["12-25"]}
dags:
  nightly:
    description: Fetch, count in parallel, report
    params:
      day: {type: string, default: today}
      parts: {type: integer, default: 3, description: How many}
    schedule: {cron: "0 2 * * *", tz: Europe/Berlin, overlap: skip, args: {day: today}, calendars: [holidays]}
    on: [orders, prices]
    produce: report
    result: {total: "${report.result.stdout}", day: "${params.day}"}
    steps:
      fetch:
        task: fetch
        args: {day: "${params.day}", url: "https://example.org/${params.day}?n=${params.parts}", plain: [1, "$${x}"]}
        produce: raw
      count:
        needs: [fetch]
        map: ${fetch.result.lines}
        env: {WORD: "${item}", N: 3}
        shell: printf %s "$WORD" | wc -c
        max_parallel: 2
      report:
        env: {COUNTS: "${count.result}", TOKEN: "Bearer ${secret.TOKEN}"}
        shell: echo "$COUNTS" "$${HOME}"
        retries: 3
        timeout: 30s
        queue: slow
        priority: high
        labels: [nightly]
        tenant: acme
        resources: {mem: 8GB}
        when: ${fetch.result.count} > 10
      sure:
        needs: report
        approve: {text: Send it?, who: [ada], timeout: 2h, default: approve}
      alarm:
        needs: [sure]
        run_if: any_failed
        http: {method: POST, url: "https://example.com", json: {day: "${params.day}"}, auth: {basic: "${secret.ALARM}"}}
schedules:
  heartbeat: {shell: date -u, every: 1m}
"""
BAD = """\
dags:
  bad:
    descripton: x
    params:
      day: strin
      n: {type: integer, default: "x"}
      m: {type: integer, default: 3, enum: [1, 2]}
      flag: {type: integer, default: true}
    result: ${nothing.result}
    schedule: {cron: "99 * * * *", args: {dya: 1}}
    steps:
      fetch:
        task: fetch
        args: {day: "${params.dy}"}
        retries: many
        timeout: 30
        backoff: soon
      count:
        needs: [fetsh, fetch, fetch]
        map: ${fetch.result.lines
        shell: echo ${item}
        max_parallel: 0
      report: {needs: fetch, task: x, shell: y}
      none: {}
      when:
        task: a
        when: ["${fetch.result.n} >", "fetch > 3", "${fetch.result.n} in 3", "${fetch.n} > 1", "${fetch.result} > ${n}"]
        run_if: any_fail
      item: {task: a}
      "a b": {task: a}
      c1: {task: a, needs: [c3]}
      c2: {task: a, needs: [c1], needs: [c1]}
      c3: {task: a, args: {x: "${c2.result}"}}
      self: {task: a, needs: [self]}
      ask: {approve: {who: [ada]}, retries: 3}
      ask2: {approve: "sure about ${fetc.result}?", env: {A: b}}
      web: {http: {methd: POST, url: "ftp://x", auth: {basic: "${secret.A} ${fetch.result}"}, json: 1, body: x}}
      lone: {task: a, run_if: any_failed}
      values: {task: a, args: {x: "${secret.A}", z: [1, "${item}"], y: "${params}", w: "${fetch.result.a b}"}}
      flat: {task: a, map: "no ${fetch.result}", product: 3}
      parts: {task: a, map: {x: "${fetch.result}"}, args: {y: "${item.z}"}}
      plain: {task: a, max_parallel: 3}
schedules:
  a: {task: t, evry: 1m}
  b: {task: t}
sched: {}
"""
