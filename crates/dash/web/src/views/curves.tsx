// The metrics of one run, or of several laid over each other.

import { useMemo } from 'preact/hooks';
import { rowsOf, useCurves, useLoad, type Curves, type Look, type Metric } from '../api';
import { Chart, type Line } from '../chart';
import { Notices, Refused } from '../parts';
import { setQuery, useZoom } from '../route';
import { useStream } from '../stream';

interface Registry {
  topics: { name: string; metrics: Metric[] }[];
}

/** Several numbers in one chart, and the rest one by one. */
const PANELS: { title: string; names: string[] }[] = [
  { title: 'accuracy', names: ['accuracy', 'kept_accuracy'] },
  { title: 'reward_mean', names: ['reward_mean'] },
  { title: 'tool_error_share', names: ['tool_error_share', 'tool_error_share_right', 'tool_error_share_kept'] },
  { title: 'response_tokens_mean', names: ['response_tokens_mean', 'response_tokens_right_mean'] },
  { title: 'turns_mean', names: ['turns_mean', 'tool_calls_per_episode'] },
  { title: 'truncated_share', names: ['truncated_share', 'unparseable_share'] },
  { title: 'entropy_mean', names: ['entropy_mean'] },
  { title: 'clip_shares', names: ['clip_high_share', 'clip_low_share'] },
  { title: 'mismatch_kl', names: ['mismatch_kl'] },
  { title: 'gradient_norm', names: ['gradient_norm'] },
  { title: 'loss', names: ['loss'] },
  { title: 'kv_use_max', names: ['kv_use_max'] },
  { title: 'tokens_per_s', names: ['tokens_per_s'] },
  {
    title: 'seconds',
    names: ['seconds_generating', 'seconds_tools_waiting', 'seconds_verifying', 'seconds_updating', 'seconds_weights', 'seconds_other'],
  },
  { title: 'groups', names: ['groups_used', 'groups_all_right', 'groups_all_wrong', 'groups_kept_alike', 'groups_too_small'] },
  { title: 'penalties', names: ['penalty_tool_errors_mean', 'penalty_answer_format_mean'] },
];

const SHOWN_NOWHERE = new Set(['stage', 'epoch', 'seconds', 'seconds_rolling_out', 'tasks', 'samples']);
const MOST_RUNS = 6;

export function CurvesView({ runs, query, look }: { runs: string[]; query: URLSearchParams; look: Look | null }) {
  const names = runs.slice(0, MOST_RUNS);
  // Of several runs any may go on: one stream tells of them all, since a browser keeps but six.
  const live = useStream<{ changed_ms: number | null }>(names.length > 1 ? '/api/live' : null);
  const version = names.length > 1 ? live.last?.changed_ms : look ? `${look.generation}:${look.lines}` : 'still';
  // As many hooks as runs can be, always: hooks are told apart by their order.
  const loaded = Array.from({ length: MOST_RUNS }, (_, at) => useCurves(names[at] ?? null, version));
  const registry = useLoad<Registry>('/api/metrics');
  const [zoom, setZoom] = useZoom();
  const axis = query.get('axis') === 'time' ? 'time' : 'step';
  const smoothing = Number(query.get('smooth') ?? 0);
  const filter = query.get('only') ?? '';
  const metrics = new Map((registry.data?.topics ?? []).flatMap((topic) => topic.metrics).map((one) => [one.name, one]));
  const curves = loaded.slice(0, names.length).map((one) => one.data);
  const panels = useMemo(() => choose(curves, filter), [curves.map((one) => one?.kinds.map((k) => k.rows.steps.length).join()).join('|'), filter]);
  const errors = loaded.flatMap((one) => (one.error ? [one.error] : []));
  const left = runs.slice(MOST_RUNS);
  const notices = curves.flatMap((one, at) => (one?.notices ?? []).map((notice) => (names.length > 1 ? `${names[at]}: ${notice}` : notice)));
  if (left.length > 0) notices.unshift(`No more than ${MOST_RUNS} runs are laid over each other; left out: ${left.join(', ')}`);

  return (
    <>
      <h1>{names.length > 1 ? names.join(' · ') : 'Curves'}</h1>
      <div class="row controls">
        <label>
          axis{' '}
          <select value={axis} onChange={(event) => setQuery({ zoom: null, axis: event.currentTarget.value === 'time' ? 'time' : null })}>
            <option value="step">step</option>
            <option value="time">time</option>
          </select>
        </label>
        <label>
          smoothing{' '}
          <input
            type="range"
            min="0"
            max="0.98"
            step="0.02"
            value={smoothing}
            onInput={(event) => setQuery({ smooth: event.currentTarget.value === '0' ? null : event.currentTarget.value })}
          />{' '}
          <output>{smoothing.toFixed(2)}</output>
        </label>
        <label>
          only{' '}
          <input type="search" value={filter} placeholder="part of a name" onInput={(event) => setQuery({ only: event.currentTarget.value })} />
        </label>
        {zoom && (
          <button type="button" onClick={() => setZoom(null)}>
            whole range
          </button>
        )}
        <span class="muted wide-only">drag to zoom, double click for the whole; on a chart: arrows, + − 0</span>
      </div>
      {errors.map((error) => (
        <p class="failure" role="alert" key={error}>
          {error}
        </p>
      ))}
      <Refused why={live.refused} />
      <Notices all={notices} />
      {panels.length === 0 && <p class="muted">{loaded[0]?.loading ? 'reading …' : 'There are no metrics yet.'}</p>}
      <div class="charts">
        {panels.map((panel) => {
          const first = metrics.get(panel.names[0] ?? '');
          const about = panel.names
            .map((name) => metrics.get(name))
            .filter((one): one is Metric => one !== undefined)
            .map((one) => (panel.names.length > 1 ? `${one.name}: ${one.meaning}${one.healthy ? ` (healthy: ${one.healthy.range}; else ${one.healthy.otherwise})` : ''}` : one.meaning))
            .join('. ');
          const healthy = panel.names.length === 1 ? first?.healthy : null;
          return (
            <Chart
              key={panel.title}
              title={panel.title}
              unit={first?.unit ?? ''}
              about={about}
              range={healthy ? { lowest: healthy.lowest, highest: healthy.highest, text: `${healthy.range}; else ${healthy.otherwise}` } : null}
              lines={lines(panel, names, curves, axis)}
              xLabel={axis}
              smoothing={smoothing}
              zoom={zoom}
              onZoom={setZoom}
            />
          );
        })}
      </div>
    </>
  );
}

interface Panel {
  title: string;
  kind: string;
  names: string[];
}

/** The charts that there are numbers for. */
function choose(curves: (Curves | null)[], filter: string): Panel[] {
  const kinds = new Map<string, Set<string>>();
  for (const one of curves) {
    for (const { kind, rows } of one?.kinds ?? []) {
      const known = kinds.get(kind) ?? new Set();
      Object.keys(rows.columns).forEach((name) => known.add(name));
      kinds.set(kind, known);
    }
  }
  const panels: Panel[] = [];
  const order = ['rl_step', 'rl_evaluation', 'sft_step', 'sft_evaluation'];
  const all = [...kinds.keys()].sort((a, b) => (order.indexOf(a) + 99) % 99 - ((order.indexOf(b) + 99) % 99));
  for (const kind of all) {
    const left = new Set(kinds.get(kind));
    const prefix = kind === 'rl_step' || kind === 'sft_step' ? '' : kind.endsWith('evaluation') ? 'evaluation_' : `${kind}_`;
    const title = (name: string) => (kind === 'sft_step' && kinds.has('rl_step') ? `sft_${name}` : prefix + name);
    for (const panel of PANELS) {
      const names = panel.names.filter((name) => left.has(name));
      names.forEach((name) => left.delete(name));
      if (names.length > 0) panels.push({ title: title(panel.title), kind, names });
    }
    for (const name of left) {
      if (!SHOWN_NOWHERE.has(name) && !name.endsWith('standard_error')) panels.push({ title: title(name), kind, names: [name] });
    }
  }
  // Several runs: one number a chart, so that a colour is a run.
  const single = (panel: Panel) => panel.names.map((name) => ({ ...panel, title: panel.names[0] === name ? panel.title : titleOf(panel, name), names: [name] }));
  const shown = curves.length > 1 ? panels.flatMap(single) : panels;
  const text = filter.toLowerCase();
  return shown.filter((panel) => text === '' || [panel.title, ...panel.names].some((name) => name.includes(text)));
}

function titleOf(panel: Panel, name: string): string {
  return panel.kind.endsWith('evaluation') ? `evaluation_${name}` : name;
}

/** Seconds of the run at each step: what all steps and evaluations before it took. */
export function clock(curves: Curves): Map<number, number> {
  const taken: [number, number][] = [];
  for (const { rows } of curves.kinds) {
    rows.steps.forEach((step, at) => taken.push([step, rows.columns['seconds']?.[at] ?? 0]));
  }
  taken.sort((a, b) => a[0] - b[0]);
  const clock = new Map<number, number>();
  let seconds = 0;
  for (const [step, more] of taken) {
    seconds += more;
    clock.set(step, seconds);
  }
  return clock;
}

function lines(panel: Panel, runs: string[], curves: (Curves | null)[], axis: 'step' | 'time'): Line[] {
  const all: Line[] = [];
  curves.forEach((one, at) => {
    const rows = rowsOf(one, panel.kind);
    if (!one || !rows) return;
    const time = axis === 'time' ? clock(one) : null;
    const x = rows.steps.map((step) => time?.get(step) ?? step);
    panel.names.forEach((name, index) => {
      const y = rows.columns[name];
      if (!y || y.every((value) => value === null)) return;
      const many = curves.length > 1;
      const label = many ? `${runs[at]}${panel.names.length > 1 ? ' ' + name.replaceAll('_', ' ') : ''}` : name.replaceAll('_', ' ');
      const error = rows.columns[`${name}_standard_error`];
      const color = many && panel.names.length === 1 ? at : at * panel.names.length + index;
      all.push({ name: label, color, x, y, dots: rows.steps.length < 30 && panel.kind.endsWith('evaluation'), ...(error ? { error } : {}) });
    });
  });
  return all;
}
