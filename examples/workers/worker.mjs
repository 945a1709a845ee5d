#!/usr/bin/env node
// A worker in Node (18 or newer), without a dependency: it claims jobs over REST, keeps their leases while it works, and
// says how they ended. It does the tasks `words` {"text": ...} and `nap` {"seconds": ...}.
//
// usage: TICKWORK_API=http://127.0.0.1:8700 TICKWORK_TOKEN=... node worker.mjs [QUEUE]
//
// SIGTERM or Ctrl-C: the job that runs may end within 5 seconds, or else is given back, uncharged.
import { setTimeout as sleep } from 'node:timers/promises';

const { TICKWORK_API: api, TICKWORK_TOKEN: token, TICKWORK_LEASE: lease = '10' } = process.env;
if (!api || !token) {
  console.error('set TICKWORK_API, such as http://127.0.0.1:8700, and TICKWORK_TOKEN, an API key that may work');
  process.exit(2);
}
const queue = process.argv[2] ?? 'default';
const name = `node-${process.pid}`;
const GRACE_MS = 5000;

// What a handler is given: `signal` tells when to stop, `log` writes lines that are stored with the attempt.
const handlers = {
  async words({ text }, { log }) {
    if (typeof text !== 'string') throw new Error('words takes a text');
    log('counting');
    return { words: text.split(/\s+/u).filter(Boolean).length };
  },
  async nap({ seconds }, { signal, log }) {
    log('napping');
    await sleep(seconds * 1000, undefined, { signal });
    return null;
  },
};

class LeaseLost extends Error {}

async function post(path, body, signal) {
  const answer = await fetch(`${api}/api/v1${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: signal ?? AbortSignal.timeout(30_000),
  });
  const told = await answer.text();
  if (answer.status === 409) throw new LeaseLost(JSON.parse(told).detail);
  if (!answer.ok) throw new Error(`${answer.status}: ${told}`);
  return told ? JSON.parse(told) : null;
}

// Stops the handler when the lease is lost, somebody cancels the job, or the grace of a worker that stops is over.
async function keepLease(job, tell, work, ended) {
  while (!ended.aborted) {
    await sleep((lease * 1000) / 3, undefined, { signal: ended }).catch(() => {});
    if (ended.aborted) return;
    try {
      const { cancel } = await tell('heartbeat', { lease: Number(lease) });
      if (cancel) work.abort(new Error('cancelled'));
    } catch (error) {
      if (error instanceof LeaseLost) work.abort(error);
      else console.error(`${name}: a heartbeat of ${job.id} failed, the next may not: ${error.message}`);
    }
  }
}

async function run(job) {
  console.error(`${name}: ${job.id} ${job.task}`);
  const tell = (verb, said) => post(`/jobs/${job.id}/${verb}`, { attempt: job.attempt, claim: job.claim, ...said });
  const work = new AbortController();
  const ended = new AbortController();
  const lines = [];
  const giveBack = () => sleep(GRACE_MS, undefined, { signal: ended.signal }).then(() => work.abort('release'), () => {});
  if (stopping.signal.aborted) giveBack();
  else stopping.signal.addEventListener('abort', giveBack, { once: true });
  keepLease(job, tell, work, ended.signal);
  let end;
  try {
    const result = await handlers[job.task](job.args, { signal: work.signal, log: (line) => lines.push(`${line}\n`) });
    end = ['complete', { result }];
  } catch (error) {
    end = ['fail', { error: String(error.stack ?? error) }];
  }
  ended.abort();
  const why = work.signal.reason;
  if (why instanceof LeaseLost) throw why;
  if (why === 'release') return tell('release', {});
  if (lines.length) await tell('log', { seq: 0, text: lines.join('') }); // first, so that it is there with the end
  return tell(...end);
}

const stopping = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => stopping.abort());

console.error(`${name}: waiting for jobs in ${queue}`);
const asked = { queues: [queue], tasks: Object.keys(handlers), worker: name, wait: 20, lease: Number(lease) };
while (!stopping.signal.aborted) {
  try {
    const { jobs } = await post('/leases', asked, stopping.signal);
    for (const job of jobs) await run(job);
  } catch (error) {
    if (stopping.signal.aborted && error.name === 'AbortError') break;
    console.error(`${name}: ${error.message}`);
    if (!(error instanceof LeaseLost)) await sleep(1000);
  }
}
console.error(`${name}: stopped`);
process.exit(0); // not after the idle connections have timed out
