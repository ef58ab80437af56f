// One step on a time axis: what engine, tools, verifier and trainer did when, and its episodes.

import type { ComponentChildren } from 'preact';
import { api, useLoad, type Activity, type Timeline } from '../api';
import { duration, number, share } from '../format';
import { Notices, Show } from '../parts';
import { path } from '../route';

const WIDTH = 960;
const HEIGHT = 44;
const COLORS: Record<string, number> = { generating: 0, tool: 1, verifying: 2, updating: 3, 'loading weights': 4, 'writing down': 5 };
const TEXTS: Record<Activity['what'], string> = { generating: 'generating', tool: 'a tool call', verifying: 'verifying' };

/** Lanes of a step, asked for again when `version` changes; `otherwise` is shown where the run did not write down when things began. */
export function StepTime({ run, step, version, otherwise }: { run: string; step: number; version: string; otherwise: ComponentChildren }) {
  const loaded = useLoad<Timeline>(api('runs', run, 'steps', step, 'timeline'), version);
  return (
    <Show of={loaded}>
      {(data) => (
        <>
          <Notices all={data.notices} />
          {data.has_starts ? <Lanes run={run} data={data} /> : otherwise}
        </>
      )}
    </Show>
  );
}

function Lanes({ run, data }: { run: string; data: Timeline }) {
  // Episodes have an axis of their own, since an update may take most of a step.
  const end = Math.max(1, ...data.episodes.map((line) => line.from_us + line.us));
  const trainer = data.trainer.filter((part) => part.what !== 'waiting' && part.us > 0);
  return (
    <>
      <div class="lanes">
        <Lane name="engine" what="episodes that it generates for" values={data.generating} color={0} />
        <Lane name="tools" what="calls that run or wait for a place" values={data.tools} color={1} />
        <Lane name="verifier" what="answers that are checked" values={data.verifying} color={2} />
        {trainer.length > 0 && (
          <div class="lane-row">
            <span>trainer</span>
            <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={trainer.map((part) => `${part.what} ${duration(part.us)}`).join(', ')}>
              {trainer.map((part) => (
                <rect key={part.what} class={`f${COLORS[part.what] ?? 5}`} x={(part.from_us / data.total_us) * WIDTH} y={2} width={Math.max(1, (part.us / data.total_us) * WIDTH)} height={HEIGHT - 4}>
                  <title>{`${part.what}: ${duration(part.us)}`}</title>
                </rect>
              ))}
            </svg>
            <span class="muted">{trainer.map((part) => `${part.what} ${duration(part.us)}`).slice(0, 1)}</span>
          </div>
        )}
        <div class="lane-row">
          <span />
          <Ticks end_us={data.total_us} />
          <span />
        </div>
      </div>
      <p class="muted">
        At most {data.episodes_at_once} episodes at once. {tail(data)}
      </p>
      <h3>
        {data.episodes.length < data.all_episodes ? `The longest ${data.episodes.length} of ${data.all_episodes} episodes` : `All ${data.all_episodes} episodes`}, by their start
      </h3>
      <p class="legend">
        {(['generating', 'tool', 'verifying'] as const).map((what) => (
          <span key={what} class={`c${COLORS[what]}`}>
            <span class="swatch" aria-hidden="true" /> {TEXTS[what]}
          </span>
        ))}
      </p>
      <ul class="spans">
        <li>
          <span />
          <Ticks end_us={end} />
          <span />
        </li>
        {data.episodes.map((line) => (
          <li key={`${line.group}:${line.sample}`}>
            <a href={path('runs', run, 'steps', data.step, 'groups', line.group, 'episodes', line.sample)}>
              <span aria-label={line.right ? 'right' : 'not right'}>{line.right ? '✓' : '✗'}</span> {line.group}/{line.sample}
            </a>
            <svg viewBox={`0 0 ${WIDTH} 12`} preserveAspectRatio="none" role="img" aria-label={`from ${duration(line.from_us)}, ${line.activities.length} activities`}>
              {line.activities.map((it, at) => (
                <rect key={at} class={`f${COLORS[it.what] ?? 5}`} x={(it.from_us / end) * WIDTH} y={it.what === 'tool' ? 3 : 1} width={Math.max(0.6, (it.us / end) * WIDTH)} height={it.what === 'tool' ? 9 : 7}>
                  <title>{`${TEXTS[it.what]}: ${duration(it.us)} from ${duration(it.from_us)}`}</title>
                </rect>
              ))}
            </svg>
            <span class="muted">{duration(line.us)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

function Ticks({ end_us }: { end_us: number }) {
  return (
    <span class="axis">
      {[0, 0.25, 0.5, 0.75, 1].map((at) => (
        <span key={at}>{at === 0 ? '0' : duration(Math.round(at * end_us))}</span>
      ))}
    </span>
  );
}

function tail(data: Timeline): string {
  const waiting = data.trainer.find((part) => part.what === 'waiting')?.us ?? data.total_us;
  const of = waiting > 0 ? data.tail_us / waiting : 0;
  const text = `In the last ${duration(data.tail_us)} of the rollouts, ${share(of)} of their time, at most a quarter of them still ran`;
  return of > 0.3 ? `${text}: a few long episodes keep the rest waiting.` : `${text}.`;
}

function Lane({ name, what, values, color }: { name: string; what: string; values: number[]; color: number }) {
  const most = Math.max(...values, 0);
  const each = WIDTH / Math.max(1, values.length);
  const y = (value: number) => (HEIGHT - (value / (most || 1)) * (HEIGHT - 3)).toFixed(1);
  const points = values.map((value, at) => `L${(at * each).toFixed(1)},${y(value)} L${((at + 1) * each).toFixed(1)},${y(value)}`);
  const atMost = number(most < 10 ? Math.round(most * 10) / 10 : Math.round(most));
  return (
    <div class="lane-row">
      <span title={what}>{name}</span>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${what}, at most ${atMost} at once`}>
        <title>{what}</title>
        <path class={`f${color}`} d={`M0,${HEIGHT} ${points.join(' ')} L${WIDTH},${HEIGHT} Z`} />
      </svg>
      <span class="muted">up to {atMost}</span>
    </div>
  );
}
