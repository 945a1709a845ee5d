#!/usr/bin/env bash
# A worker in bash and curl: it claims jobs over REST, keeps their leases while it works, and says how they ended.
# It does the tasks `checksum` {"text": ...} and `nap` {"seconds": ...}. jq reads JSON, or else python3 does.
#
# usage: TICKWORK_API=http://127.0.0.1:8700 TICKWORK_TOKEN=... worker.sh [QUEUE]
#
# SIGTERM or Ctrl-C: the job that runs may end within 5 seconds, or else is given back, uncharged.
set -uo pipefail -m # -m: what runs in the background has a process group of its own, and is ended as a whole
: "${TICKWORK_API:?the address of a server, such as http://127.0.0.1:8700}" "${TICKWORK_TOKEN:?an API key that may work}"
queue=${1:-default} name="bash-$$" lease=${TICKWORK_LEASE:-10} grace=5
folder=$(mktemp -d)
stopping='' polling=''
trap 'rm -rf "$folder"' EXIT
trap 'stopping=yes; [ -z "$polling" ] || kill -- "-$polling" 2>/dev/null' TERM INT

# Posts what comes in and prints the answer; exit code 22: it was refused. The token is not among the arguments of curl,
# which everybody on the machine can see.
post() {
  curl -sS --fail-with-body --max-time 90 -H @<(printf 'Authorization: Bearer %s' "$TICKWORK_TOKEN") \
    -H 'Content-Type: application/json' --data-binary @- "$TICKWORK_API/api/v1$1"
}

# text PATH: a part of the JSON that comes in, such as .jobs[0].id; nothing when it is not there, null or false.
# get PATH: the same as JSON. quote: what comes in as a JSON string.
if command -v jq >/dev/null; then
  text() { jq -r "$1 // empty"; }
  get() { jq -c "$1 // empty"; }
  quote() { jq -Rs .; }
else
  part='import json, re, sys
value = json.load(sys.stdin)
for key in re.findall(r"\w+", sys.argv[1]):
    value = (value or [None])[int(key)] if isinstance(value, list) else (value or {}).get(key)
print("" if value is None or value is False else value if sys.argv[2:] and isinstance(value, str) else json.dumps(value))'
  text() { python3 -c "$part" "$1" text; }
  get() { python3 -c "$part" "$1"; }
  quote() { python3 -c 'import json, sys; print(json.dumps(sys.stdin.buffer.read().decode("utf-8", "replace")))'; }
fi
[ "$(text .a <<<'{"a": "b"}')" = b ] || { echo "neither jq nor python3 can be used here" >&2 && exit 2; }

# work TASK ARGS: the result as JSON on stdout, lines for the log on stderr. Where it fails, the job has failed.
work() {
  case $1 in
  checksum)
    echo "summing up" >&2
    sum=$(text .text <<<"$2" | tr -d '\n' | sha256sum) && printf '{"sha256": "%s"}' "${sum%% *}"
    ;;
  nap)
    echo "napping" >&2
    sleep "$(text .seconds <<<"$2")" && echo null
    ;;
  *) echo "there is no task $1 here" >&2 && false ;;
  esac
}

# tell ID VERB BODY: say something of an attempt; a refusal means that the job is somebody else's by now.
tell() {
  answer=$(post "/jobs/$1/$2" <<<"$3")
  case $? in
  0) ;;
  22) echo "$name: $2 of $1 was refused: $(text .detail <<<"$answer")" >&2 && return 22 ;;
  *) return 1 ;;
  esac
}

# attend ID NAMED HANDLER: wait for a handler, with a heartbeat three times in the length of the lease. It fails when
# the job is not to be told of any more.
attend() {
  local beat_at=$((SECONDS + lease / 3)) stop_at=''
  while kill -0 "$3" 2>/dev/null; do
    sleep 0.1
    [ -z "$stopping" ] || : "${stop_at:=$((SECONDS + grace))}"
    if [ -n "$stop_at" ] && [ "$SECONDS" -ge "$stop_at" ]; then
      kill -- "-$3"
      tell "$1" release "{$2}"
      return 1
    fi
    [ "$SECONDS" -ge "$beat_at" ] || continue
    beat_at=$((SECONDS + lease / 3))
    tell "$1" heartbeat "{$2, \"lease\": $lease}"
    case $? in
    0) [ -z "$(text .cancel <<<"$answer")" ] || kill -- "-$3" ;;
    22) kill -- "-$3" && return 1 ;;
    esac
  done
}

# run ID NAMED TASK ARGS: do a job and say how it ended. NAMED is the attempt as every call names it. What it wrote comes first, so that it is there with the end.
run() {
  echo "$name: $1 $3" >&2
  work "$3" "$4" >"$folder/result" 2>"$folder/log" &
  local handler=$!
  attend "$1" "$2" "$handler" || return
  wait "$handler"
  local code=$?
  [ ! -s "$folder/log" ] || tell "$1" log "{$2, \"seq\": 0, \"text\": $(quote <"$folder/log")}"
  if [ "$code" = 0 ]; then
    tell "$1" complete "{$2, \"result\": $(cat "$folder/result")}"
  else
    tell "$1" fail "{$2, \"error\": $({ echo "exit code $code"; tail -n 5 "$folder/log"; } | quote)}"
  fi
}

echo "$name: waiting for jobs in $queue" >&2
while [ -z "$stopping" ]; do
  post /leases <<<"{\"queues\": [\"$queue\"], \"tasks\": [\"checksum\", \"nap\"], \"worker\": \"$name\", \"wait\": 20, \"lease\": $lease}" \
    >"$folder/lease" &
  polling=$!
  wait "$polling" # a signal ends this, and curl
  wait "$polling" 2>/dev/null
  code=$? polling=''
  if [ "$code" != 0 ]; then
    [ -n "$stopping" ] || sleep 1
  elif id=$(text '.jobs[0].id' <"$folder/lease") && [ -n "$id" ]; then
    named="\"attempt\": $(text '.jobs[0].attempt' <"$folder/lease"), \"claim\": $(get '.jobs[0].claim' <"$folder/lease")"
    run "$id" "$named" "$(text '.jobs[0].task' <"$folder/lease")" \
      "$(get '.jobs[0].args' <"$folder/lease")"
  fi
done
echo "$name: stopped" >&2
