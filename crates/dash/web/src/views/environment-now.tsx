// What the code environment does at this moment, told about once a second by the run that works.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { useLoad, type EnvironmentNow, type SandboxState } from '../api';
import { Chart } from '../chart';
import { ago, duration, number, share, words } from '../format';
import { Bars, Facts, Notices, Refused, Show } from '../parts';
import { useZoom } from '../route';
import { useStream } from '../stream';

/** Milliseconds after which news of a run that works are overdue. */
const OVERDUE_MS = 5_000;
/** Moments over which the rate is measured. */
const RATE_OVER = 5;

export function EnvironmentNowView({ address, version }: { address: string; version: unknown }) {
  const loaded = useLoad<EnvironmentNow>(address, version);
  return (
    <section aria-label="Now">
      <Show of={loaded}>{(data) => <Now data={data} />}</Show>
    </section>
  );
}

/** A code environment that is no run's. */
export function OtherEnvironmentView() {
  const live = useStream<{ environment: unknown }>('/api/live');
  return (
    <>
      <h1>Code environment</h1>
      <Refused why={live.refused} />
      <EnvironmentNowView address="/api/environment" version={JSON.stringify(live.last?.environment)} />
    </>
  );
}

function Now({ data }: { data: EnvironmentNow }) {
  const [, setTick] = useState(0);
  const works = data.run === 'running';
  // The age goes on while nothing is told.
  useEffect(() => {
    if (!works) return;
    const timer = setInterval(() => setTick((tick) => tick + 1), 1_000);
    return () => clearInterval(timer);
  }, [works]);
  // By the server's clock, which may differ from this machine's.
  const skew = useMemo(() => Date.now() - data.now_ms, [data]);
  const state = data.state;
  const notices = <Notices all={data.notice ? [data.notice] : []} />;
  if (state === null && data.notice) return notices;
  if (state === null) return <p class="muted">Nothing is told of the code environment's present state: the run has none, or was made by an older version.</p>;
  const seen = state.unix_ms + skew;
  const age = Date.now() - seen;
  return (
    <>
      {data.url && <p class="muted">{data.url}</p>}
      {notices}
      <h2>
        {works ? 'Now' : 'When it was last seen'}{' '}
        <span class={works && age < OVERDUE_MS ? 'state running' : 'state stopped'} role="status">
          {works ? (age < OVERDUE_MS ? 'live' : 'overdue') : (data.url ? 'it is out of reach' : `the run is ${data.run === 'died' ? 'dead' : data.run}`)}, {ago(seen)}
        </span>
      </h2>
      <Figures state={state} />
    </>
  );
}

function Figures({ state }: { state: SandboxState }) {
  const [zoom, setZoom] = useZoom('now');
  const recent = state.recent;
  const rates = recent.map((moment, at) => {
    const before = recent[Math.max(0, at - RATE_OVER)] ?? moment;
    const ms = moment.unix_ms - before.unix_ms;
    return ms > 0 ? ((moment.answered - before.answered) * 1_000) / ms : null;
  });
  const seconds = recent.map((moment) => (moment.unix_ms - state.unix_ms) / 1_000);
  const rate = rates[rates.length - 1] ?? null;
  const free = Math.max(0, state.slots - state.running);
  const ran = state.run_time.counts.reduce((sum, count) => sum + count, 0);
  const waits = state.queue_wait.counts.reduce((sum, count) => sum + count, 0);
  const outcomes = Object.entries(state.outcomes).sort((a, b) => b[1] - a[1]);
  const held = Object.entries(state.layers);
  return (
    <>
      <Facts
        all={[
          ['calls/s', rate === null ? '–' : number(rate)],
          ['slots in use', `${state.running} of ${state.slots}`],
          ['slots free', String(free)],
          ['calls waiting', String(state.waiting)],
          ['at full priority', `${state.turns_taken} of ${state.turns}`],
          ['open sessions', String(state.sessions)],
          ['calls answered', state.answered.toLocaleString('en')],
          ['given up', state.cancelled.toLocaleString('en')],
          ['turned away', state.refused.toLocaleString('en')],
          ['mean time of a call', ran ? duration(Math.round(state.run_time.sum_us / ran)) : '–'],
          ['mean wait for a slot', waits ? duration(Math.round(state.queue_wait.sum_us / waits)) : '–'],
        ]}
      />
      <Notices all={state.degraded ? ['DEGRADED: a layer of isolation that is required is missing.'] : []} />
      {recent.length > 1 && (
        <div class="charts">
          <Chart title="calls/s now" unit="calls/s" about={`calls answered, over the last ${RATE_OVER} moments`} lines={[{ name: 'calls/s', color: 0, x: seconds, y: rates }]} xLabel="seconds" zoom={zoom} onZoom={setZoom} />
          <Chart
            title="slots and queue"
            unit="calls"
            about="calls that run, and calls that wait for a slot"
            lines={[
              { name: 'in use', color: 2, x: seconds, y: recent.map((moment) => moment.running) },
              { name: 'waiting', color: 1, x: seconds, y: recent.map((moment) => moment.waiting) },
            ]}
            xLabel="seconds"
            zoom={zoom}
            onZoom={setZoom}
          />
        </div>
      )}
      <div class="columns">
        <Bars title="Time of calls" rows={state.run_time.counts.map((count, at) => [bound(state.bounds_us[at]), count, 0])} />
        <Bars title="Outcomes by kind" rows={outcomes.map(([name, count]) => [`${name} ${share(count / Math.max(1, ran))}`, count, name === 'ok' ? 2 : 1])} />
        <section>
          <h2>Isolation in force</h2>
          <ul class="layers">
            {held.map(([layer, holds]) => (
              <li key={layer} class={holds ? 'mark right' : 'mark wrong'}>
                {holds ? '✓' : '✗'} {words(layer)}
              </li>
            ))}
          </ul>
        </section>
      </div>
    </>
  );
}

function bound(us: number | undefined): string {
  return us === undefined ? 'more' : `≤ ${duration(us)}`;
}
