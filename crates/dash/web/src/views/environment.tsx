// The code environment: what it did, how fast, what went wrong, and what isolates the programs.

import { useEffect, useState } from 'preact/hooks';
import { api, rowsOf, useCurves, useLoad, type Environment, type Look } from '../api';
import { Chart } from '../chart';
import { bytes, duration, number, plural, share, words } from '../format';
import { Bars, Facts, Notices, Show } from '../parts';
import { useZoom } from '../route';
import { isolation } from '../sandbox';
import { EnvironmentNowView } from './environment-now';

export function EnvironmentView({ run, look }: { run: string; look: Look | null }) {
  const [tick, setTick] = useState(0);
  const [zoom, setZoom] = useZoom();
  const loaded = useLoad<Environment>(api('runs', run, 'environment'), `${tick}:${look?.episode_steps ?? 0}`);
  const curves = useCurves(run, look ? `${look.generation}:${look.lines}` : 'still');
  const progress = loaded.data?.progress;
  const unfinished = progress !== undefined && progress.steps < progress.of;
  useEffect(() => {
    if (!unfinished) return;
    const timer = setTimeout(() => setTick(tick + 1), 500);
    return () => clearTimeout(timer);
  }, [unfinished, tick, loaded.data]);
  const rows = rowsOf(curves.data, 'rl_step');
  return (
    <>
      <h1>Code environment</h1>
      <EnvironmentNowView address={api('runs', run, 'environment', 'now')} version={`${look?.sandbox_ms}:${look?.state}`} />
      <h2>In the whole run</h2>
      <Show of={loaded}>
        {(data) => {
          const steps = data.steps;
          const sandbox = isolation(data.sandbox);
          const sum = (of: (step: Environment['steps'][number]) => number) => steps.reduce((total, step) => total + of(step), 0);
          const calls = sum((step) => step.calls);
          const wall = sum((step) => step.wall_us);
          // While episodes are rolled out: the rest of a step asks nothing of the environment.
          const seconds = (step: number) => {
            const row = rows?.steps.indexOf(step) ?? -1;
            if (!rows || row < 0) return null;
            const part = (name: string) => rows.columns[name]?.[row] ?? 0;
            return part('seconds_generating') + part('seconds_tools_waiting') + part('seconds_verifying');
          };
          const rates = steps.map((step) => (seconds(step.step) ? step.calls / (seconds(step.step) ?? 1) : null));
          const last = steps[steps.length - 1];
          const lastRate = rates[rates.length - 1] ?? null;
          const busy = last && seconds(last.step) ? last.wall_us / 1e6 / (seconds(last.step) ?? 1) : null;
          const outcomes = new Map<string, number>();
          steps.forEach((step) => Object.entries(step.outcomes).forEach(([name, count]) => outcomes.set(name, (outcomes.get(name) ?? 0) + count)));
          const sorted = [...outcomes].sort((a, b) => b[1] - a[1]);
          const buckets = data.wall_bounds_us.concat(Infinity).map((bound, at) => [bound, sum((step) => step.wall[at] ?? 0)] as const);
          return (
            <>
              {unfinished && (
                <p class="muted" role="status">
                  {data.progress.steps} of {data.progress.of} steps read so far
                </p>
              )}
              <Notices all={[...sandbox.notices, ...(sandbox.degraded ? ['DEGRADED: a layer of isolation that is required is missing.'] : [])]} />
              <Facts
                all={[
                  ['calls', calls.toLocaleString('en')],
                  ['calls/s in the last step', lastRate === null ? '–' : number(lastRate)],
                  ['running at once, mean of the last step', busy === null ? '–' : number(busy)],
                  ['mean wall time', calls ? duration(Math.round(wall / calls)) : '–'],
                  ['mean CPU time', calls ? duration(Math.round(sum((step) => step.cpu_us) / calls)) : '–'],
                  ['largest memory', bytes(steps.length ? Math.max(...steps.map((step) => step.memory_bytes_max)) : null)],
                  ['failed calls', calls ? share(1 - (outcomes.get('ok') ?? 0) / calls) : '–'],
                  ['rollouts lost to failures of ours', String(sum((step) => step.lost))],
                ]}
              />
              <div class="charts">
                <Chart title="calls_per_s" unit="calls/s" about="calls over the time in which episodes were rolled out" lines={[{ name: 'calls/s', color: 0, x: steps.map((step) => step.step), y: rates }]} xLabel="step" zoom={zoom} onZoom={setZoom} />
                <Chart
                  title="outcomes"
                  unit="calls"
                  about="failed calls of each step by kind"
                  lines={sorted.filter(([name]) => name !== 'ok').slice(0, 5).map(([name], color) => ({ name, color, x: steps.map((step) => step.step), y: steps.map((step) => step.outcomes[name] ?? 0) }))}
                  xLabel="step"
                  zoom={zoom}
                  onZoom={setZoom}
                />
              </div>
              <div class="columns">
                <Bars title="Wall time of calls" rows={buckets.map(([bound, count]) => [bound === Infinity ? 'more' : `≤ ${duration(bound)}`, count, 0])} />
                <Bars title="Outcomes" rows={sorted.map(([name, count]) => [name, count, name === 'ok' ? 2 : 1])} />
                <section>
                  <h2>Isolation when the run began</h2>
                  {sandbox.layers ? (
                    <ul class="layers">
                      {sandbox.layers.map((layer) => (
                        <li key={layer.layer} class={layer.holds ? 'mark right' : 'mark wrong'}>
                          {layer.holds ? '✓' : '✗'} {words(layer.layer)}
                        </li>
                      ))}
                    </ul>
                  ) : (
                    <p class="muted">The run tells nothing of it.</p>
                  )}
                  <Facts
                    all={[
                      ['python', `${sandbox.python_version ?? '–'} ${sandbox.python ?? ''}`],
                      ['packages', sandbox.packages.join(', ') || 'the standard library only'],
                      ['cores', plural(Number(data.host?.['cores'] ?? 0) || 0, 'core')],
                    ]}
                  />
                </section>
              </div>
            </>
          );
        }}
      </Show>
    </>
  );
}
