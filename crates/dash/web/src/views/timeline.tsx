// Where the time of the steps went, and of one step's episodes.

import { api, rowsOf, stepsMark, useCurves, useLoad, type Look, type Rows, type Step } from '../api';
import { duration, number, share } from '../format';
import { Show } from '../parts';
import { path, setQuery } from '../route';
import { StepTime as Axis } from './step-time';

const PARTS: [name: string, text: string, color: number][] = [
  ['seconds_generating', 'generating', 0],
  ['seconds_tools_waiting', 'waiting for tools', 1],
  ['seconds_verifying', 'verifying', 2],
  ['seconds_updating', 'updating', 3],
  ['seconds_weights', 'loading weights', 4],
  ['seconds_other', 'other', 5],
];

const ADVICE: Record<string, string> = {
  seconds_generating: 'the engine: a faster one, more rollouts at once, or shorter responses would help',
  seconds_tools_waiting: 'the code environment: more slots, or more episodes at once, would hide it',
  seconds_verifying: 'the verifier: answers are large; a limit of their length would help',
  seconds_updating: 'the trainer: more cores, or fewer updates a step, would help',
  seconds_weights: 'bringing weights into the engine',
  seconds_other: 'selection, packing and writing down',
};

const MOST_BARS = 240;

export function TimelineView({ run, query, look }: { run: string; query: URLSearchParams; look: Look | null }) {
  const curves = useCurves(run, look ? `${look.generation}:${look.lines}` : 'still');
  const rows = rowsOf(curves.data, 'rl_step') ?? rowsOf(curves.data, 'sft_step');
  const last = rows?.steps[rows.steps.length - 1] ?? null;
  const step = query.has('step') ? Number(query.get('step')) : last;
  return (
    <>
      <h1>Timeline</h1>
      <Show of={curves}>{() => (rows ? <Bars rows={rows} step={step} /> : <p class="muted">There are no steps yet.</p>)}</Show>
      {rows && step !== null && <StepTime run={run} rows={rows} step={step} version={stepsMark(look)} />}
    </>
  );
}

function value(rows: Rows, name: string, row: number): number {
  return rows.columns[name]?.[row] ?? 0;
}

function Bars({ rows, step }: { rows: Rows; step: number | null }) {
  const first = Math.max(0, rows.steps.length - MOST_BARS);
  const shown = rows.steps.slice(first);
  const seconds = shown.map((_, at) => value(rows, 'seconds', first + at));
  const most = Math.max(...seconds, 1e-9);
  const [width, height] = [960, 180];
  const each = width / Math.max(1, shown.length);
  const total = PARTS.map(([name]) => rows.steps.reduce((sum, _, row) => sum + value(rows, name, row), 0));
  const whole = total.reduce((sum, part) => sum + part, 0);
  const top = total.indexOf(Math.max(...total));
  const part = PARTS[top];
  return (
    <>
      {part && whole > 0 && (
        <p class="bottleneck">
          <strong>Bottleneck: {part[1]}</strong>, {share((total[top] ?? 0) / whole)} of the run's time. This is {ADVICE[part[0]]}.
        </p>
      )}
      <svg class="bars" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label="Time of each step by part">
        {shown.map((at, index) => {
          let y = height;
          return (
            <g key={at} class={at === step ? 'on' : ''} onClick={() => setQuery({ step: String(at) })}>
              <title>
                step {at}: {number(seconds[index])} s
              </title>
              <rect class="hit" x={index * each} y={0} width={each} height={height} />
              {PARTS.map(([name, , color]) => {
                const size = (value(rows, name, first + index) / most) * (height - 4);
                y -= size;
                return <rect key={name} class={`f${color}`} x={index * each + each * 0.08} y={y} width={each * 0.84} height={size} />;
              })}
            </g>
          );
        })}
      </svg>
      <p class="legend">
        {PARTS.map(([name, text, color], at) => (
          <span key={name} class={`c${color}`}>
            <span class="swatch" aria-hidden="true" /> {text} {whole > 0 ? share((total[at] ?? 0) / whole) : ''}
          </span>
        ))}
      </p>
      {rows.steps.length > MOST_BARS && <p class="muted">The last {MOST_BARS} of {rows.steps.length} steps.</p>}
    </>
  );
}

function StepTime({ run, rows, step, version }: { run: string; rows: Rows; step: number; version: string }) {
  const row = rows.steps.indexOf(step);
  if (row < 0) return <p class="muted">The metrics tell nothing of step {step}.</p>;
  const whole = value(rows, 'seconds', row);
  return (
    <section>
      <h2>Step {step}</h2>
      <p class="row">
        {row > 0 && <a rel="prev" class="button" href={`?step=${rows.steps[row - 1]}`}>← {rows.steps[row - 1]}</a>}
        {row + 1 < rows.steps.length && <a rel="next" class="button" href={`?step=${rows.steps[row + 1]}`}>{rows.steps[row + 1]} →</a>}
        <span class="muted">
          {number(whole)} s, {number(value(rows, 'tokens_per_s', row))} tokens/s, at most {share(value(rows, 'kv_use_max', row))} of the cache
        </span>
      </p>
      <div class="lane" role="img" aria-label="Parts of the step">
        {PARTS.map(([name, text, color]) => {
          const part = value(rows, name, row);
          const of = whole > 0 ? part / whole : 0;
          return of > 0.001 ? (
            <div key={name} class={`lane-part f${color}`} ref={(element) => { if (element) element.style.flexGrow = String(of); }} title={`${text}: ${number(part)} s, ${share(of)}`}>
              {of > 0.1 ? `${text} ${share(of)}` : ''}
            </div>
          ) : null;
        })}
      </div>
      <Part parts={PARTS.map(([name, text]) => [text, value(rows, name, row)])} />
      <Axis run={run} step={step} version={version} otherwise={<WithoutStarts run={run} step={step} version={version} />} />
    </section>
  );
}

/** The bottleneck of the step. */
function Part({ parts }: { parts: [string, number][] }) {
  const whole = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  const [text, most] = parts.reduce((best, part) => (part[1] > best[1] ? part : best));
  if (!(whole > 0)) return null;
  return (
    <p>
      <strong>Bottleneck of this step: {text}</strong>, {share(most / whole)} of its time.
    </p>
  );
}

/** Episodes of a run that did not write down when things began. */
function WithoutStarts({ run, step, version }: { run: string; step: number; version: string }) {
  const loaded = useLoad<Step>(api('runs', run, 'steps', step), version);
  return <Show of={loaded}>{(data) => <Episodes run={run} data={data} />}</Show>;
}

function Episodes({ run, data }: { run: string; data: Step }) {
  const all = data.groups.flatMap((group) => group.episodes.map((card) => ({ group: group.number, card })));
  all.sort((a, b) => b.card.timing.total_us - a.card.timing.total_us);
  const longest = all[0]?.card.timing.total_us ?? 1;
  const sum = (of: (it: (typeof all)[number]) => number) => all.reduce((total, it) => total + of(it), 0);
  const total = sum((it) => it.card.timing.total_us) || 1;
  return (
    <>
      <h3>The step's episodes, the longest first</h3>
      <p class="muted">
        Of the time of all {all.length} episodes, {share(sum((it) => it.card.timing.generating_us) / total)} waited for tokens and {share(sum((it) => it.card.timing.tools_us) / total)} for tools; half of them took less than{' '}
        {duration(all[Math.floor(all.length / 2)]?.card.timing.total_us ?? 0)}, the longest {duration(longest)}.
      </p>
      <ul class="spans">
        {all.slice(0, 40).map(({ group, card }) => {
          const { total_us, generating_us, tools_us } = card.timing;
          const width = (us: number) => (element: HTMLElement | null) => {
            if (element) element.style.width = `${(100 * us) / longest}%`;
          };
          return (
            <li key={`${group}:${card.sample}`}>
              <a href={path('runs', run, 'steps', data.step, 'groups', group, 'episodes', card.sample)}>
                {group}/{card.sample}
              </a>
              <span class="span" title={`${duration(generating_us)} generating, ${duration(tools_us)} tools, ${duration(total_us)} in all`}>
                <span class="f0" ref={width(generating_us)} />
                <span class="f1" ref={width(tools_us)} />
                <span class="f5" ref={width(Math.max(0, total_us - generating_us - tools_us))} />
              </span>
              <span class="muted">{duration(total_us)}</span>
            </li>
          );
        })}
      </ul>
    </>
  );
}
