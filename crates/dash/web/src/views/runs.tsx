// All runs of the folder: how each is doing, and some of them side by side.

import { useState } from 'preact/hooks';
import { useLoad, type Overview, type Runs } from '../api';
import { ago, inUnit, number, share, words } from '../format';
import { Notices, Refused, Show, Spark, State } from '../parts';
import { go, path, setQuery } from '../route';
import { useStream } from '../stream';

export function RunsView({ query }: { query: URLSearchParams }) {
  const live = useStream<{ runs: number; changed_ms: number | null }>('/api/live');
  const offset = Number(query.get('offset') ?? 0);
  const text = (query.get('text') ?? '').toLowerCase();
  const runs = useLoad<Runs>(`/api/runs?offset=${offset}`, JSON.stringify(live.last));
  const [chosen, choose] = useState<string[]>([]);
  const fits = (run: Overview) =>
    text === '' || run.name.toLowerCase().includes(text) || run.notes.tags.some((tag) => tag.toLowerCase().includes(text));
  return (
    <>
      <h1>Runs</h1>
      <Refused why={live.refused} />
      <Show of={runs}>
        {(data) => (
          <>
            <p class="muted">
              {data.folder} · {data.all} {data.all === 1 ? 'run' : 'runs'}
            </p>
            <Notices all={data.notices} />
            {data.environment && (
              <p>
                <a href="/environment">the code environment, live</a>
              </p>
            )}
            <div class="row">
              <label>
                name or tag{' '}
                <input type="search" value={text} onInput={(event) => setQuery({ text: event.currentTarget.value })} />
              </label>
              <button
                type="button"
                disabled={chosen.length < 2}
                onClick={() => go(`/compare?runs=${chosen.map(encodeURIComponent).join(',')}`)}
              >
                compare {chosen.length > 0 ? chosen.length : ''}
              </button>
            </div>
            {data.runs.length === 0 && (
              <p>
                There are no runs here yet. <code>rocstar quickstart</code> makes one in two minutes.
              </p>
            )}
            <ul class="runs">
              {data.runs.filter(fits).map((run) => (
                <Row
                  key={run.name}
                  run={run}
                  chosen={chosen.includes(run.name)}
                  onChoose={(is) => choose(is ? [...chosen, run.name] : chosen.filter((name) => name !== run.name))}
                />
              ))}
            </ul>
            <p class="row">
              {offset > 0 && <a rel="prev" href={`/?offset=${Math.max(0, offset - 60)}`}>newer runs</a>}
              {offset + data.runs.length < data.all && (
                <a rel="next" href={`/?offset=${offset + data.runs.length}`}>older runs</a>
              )}
            </p>
          </>
        )}
      </Show>
    </>
  );
}

const SHARES = ['accuracy', 'held_out_accuracy', 'tool_error_share_right', 'reward_mean'];

function Row({ run, chosen, onChoose }: { run: Overview; chosen: boolean; onChoose: (is: boolean) => void }) {
  const done = run.steps ? `step ${run.step} of ${run.steps}` : `step ${run.step}`;
  return (
    <li class="run">
      <input
        type="checkbox"
        checked={chosen}
        aria-label={`compare ${run.name}`}
        onChange={(event) => onChoose(event.currentTarget.checked)}
      />
      <div class="run-main">
        <a class="run-link" href={path('runs', run.name)}>
          {run.name}
        </a>{' '}
        <State state={run.state} />
        <div class="muted">
          {run.kind.toUpperCase()} stage {run.stage[0] + 1} of {Math.max(1, run.stage[1])} · {done} · {ago(run.changed_ms)}
        </div>
        {run.notes.tags.map((tag) => (
          <span class="tag" key={tag}>
            {tag}
          </span>
        ))}
        {run.notes.text && <div class="muted note">{run.notes.text.split('\n')[0]}</div>}
        <Notices all={run.notices} />
      </div>
      <Spark values={run.spark} label={`course of ${run.headline[0]?.[0] ?? 'the run'}`} />
      <dl class="headline">
        {run.headline.map(([name, value]) => (
          <div key={name}>
            <dt>{words(name)}</dt>
            <dd>{SHARES.includes(name) ? share(value) : name.includes('rate') ? number(value) : inUnit(value, '')}</dd>
          </div>
        ))}
      </dl>
    </li>
  );
}
