// The charts of the overview: throughput by outcome and latency, with a shared cursor.

import { html, useMemo, useSignal } from "../vendor/core.js";
import { brief, count } from "../lib/format.js";
import { duration } from "../lib/time.js";
import { TEXTS } from "../texts/overview.js";
import { Chart } from "../parts/chart.js";
import { Loading, Trouble } from "../parts/loading-and-errors.js";
import { Panel } from "../parts/page-layout.js";

const ENDS = [
  { id: "succeeded", label: "succeeded", tone: "good", of: (one) => one.succeeded },
  { id: "retried", label: "retried", tone: "warn", of: (one) => one.retried },
  { id: "failed", label: "failed", tone: "bad", of: (one) => one.failed },
  { id: "cancelled", label: "cancelled", tone: "off", of: (one) => one.cancelled + one.dropped + one.expired },
];
const TIMES = [
  { id: "wait-p99", label: "wait p99", tone: "wait", look: /** @type {const} */ ("dotted"), of: (one) => one.wait.p99 },
  { id: "wait-p95", label: "wait p95", tone: "wait", of: (one) => one.wait.p95 },
  { id: "wait-p50", label: "wait p50", tone: "wait", look: /** @type {const} */ ("thin"), of: (one) => one.wait.p50 },
  { id: "run-p95", label: "run p95", tone: "run", of: (one) => one.run.p95 },
  { id: "run-p50", label: "run p50", tone: "run", look: /** @type {const} */ ("thin"), of: (one) => one.run.p50 },
];

const filled = (kinds, data, summary, values = (of) => data.buckets.map(of)) =>
  kinds.map(({ of, ...one }) => ({ ...one, values: values(of), summary: summary(of(data.total)) }));

/** The points of a line, without the current bucket, whose few jobs would distort it. */
const whole = (buckets) => (of) =>
  buckets.map((one, at) => (one.is_partial && at > 0 && at === buckets.length - 1 ? null : of(one)));

/** The series of the charts. */
function drawn(data) {
  return {
    times: data.buckets.map((one) => Date.parse(one.at)),
    partial: data.buckets.map((one) => one.is_partial),
    ends: filled(ENDS, data, (total) => brief(total)),
    enqueued: filled(
      [
        {
          id: "enqueued",
          label: "enqueued",
          tone: "queue",
          look: /** @type {const} */ ("thin"),
          of: (one) => one.enqueued,
        },
      ],
      data,
      (total) => brief(total),
      whole(data.buckets),
    ),
    latency: filled(TIMES, data, (total) => (total === null ? "–" : duration(total)), whole(data.buckets)),
  };
}

const each = (spanS) => (spanS === 60 ? "minute" : spanS === 3600 ? "hour" : `${spanS / 60} minutes`);

/** @param {{series: ReturnType<typeof import("../lib/data.js").useResource>}} props */
export function Charts({ series }) {
  const { data, problem, isStale, refresh } = series;
  const pointer = useSignal(/** @type {number | null} */ (null));
  const shown = useMemo(() => data && drawn(data), [data]);
  if (problem && !data) {
    return html`
      <${Panel} title="Throughput" class="wide"><${Trouble} problem=${problem} onRetry=${refresh} /></${Panel}>
    `;
  }
  if (!shown) {
    return html`
      <${Panel} title="Throughput" class="chart-box"><${Loading} /></${Panel}>
      <${Panel} title="Latency" class="chart-box"><${Loading} /></${Panel}>
    `;
  }
  const common = { times: shown.times, spanS: data.bucket_s, pointer, isStale, partial: shown.partial };
  return html`
    <${Panel}
      title="Throughput"
      class="chart-box"
      actions=${html`<span class="dim small">finished jobs per ${each(data.bucket_s)}</span>`}
    >
      <${Chart}
        ...${common}
        label="Throughput: finished jobs by outcome, per ${each(data.bucket_s)}"
        none=${TEXTS.noThroughput}
        bars=${shown.ends}
        lines=${shown.enqueued}
        format=${(value) => (value < 10_000 ? count(Math.round(value)) : brief(value))}
      />
    </${Panel}>
    <${Panel}
      title="Latency"
      class="chart-box"
      actions=${html`<span class="dim small">wait: due to start; run: start to end</span>`}
    >
      <${Chart}
        ...${common}
        label="Latency: wait of jobs and duration of attempts"
        none=${TEXTS.noLatency}
        lines=${shown.latency}
        isLog
        format=${duration}
      />
    </${Panel}>
  `;
}
