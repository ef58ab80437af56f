// A run at a glance: how it goes, what changed, and with what it was started.

import { useEffect, useState } from 'preact/hooks';
import { api, rowsOf, send, useCurves, useLoad, type Look, type Notes, type RunDetail } from '../api';
import { Chart } from '../chart';
import { plural, share, words } from '../format';
import { Copy, Facts, Notices, Show } from '../parts';
import { path, useZoom } from '../route';

export function RunView({ run, look }: { run: string; look: Look | null }) {
  const detail = useLoad<RunDetail>(api('runs', run), look ? `${look.events}:${look.state}:${look.episode_steps}` : 'still');
  const curves = useCurves(run, look ? `${look.generation}:${look.lines}` : 'still');
  const [zoom, setZoom] = useZoom();
  const rows = rowsOf(curves.data, 'rl_step');
  const sft = rowsOf(curves.data, 'sft_step');
  const held = rowsOf(curves.data, 'rl_evaluation');
  const x = rows?.steps ?? [];
  const column = (name: string) => rows?.columns[name] ?? [];
  return (
    <>
      <h1>{run}</h1>
      <Show of={detail}>
        {(data) => {
          const { overview } = data;
          const done = overview.steps ? `step ${look?.step ?? overview.step} of ${overview.steps}` : `step ${look?.step ?? overview.step}`;
          return (
            <>
              <Notices all={[...overview.notices, ...data.notices]} />
              <Facts
                all={[
                  ['state', look?.state ?? overview.state],
                  ['stage', `${overview.stage[0] + 1} of ${Math.max(1, overview.stage[1])}${data.stages[overview.stage[0]] ? `, ${data.stages[overview.stage[0]]?.kind}` : ''}`],
                  ['progress', done],
                  ['episodes', plural(data.episode_steps.length, 'step')],
                  ['checkpoints', data.checkpoint_steps.join(', ') || 'none'],
                ]}
              />
              <p class="row">
                <a class="button" href={`/report/${encodeURIComponent(run)}`} target="_blank" rel="noopener">
                  report
                </a>
                {data.episode_steps.length > 0 && (
                  <a class="button" href={path('runs', run, 'steps', data.episode_steps[data.episode_steps.length - 1] ?? 0)}>
                    newest episodes
                  </a>
                )}
                <span class="muted">{data.path}</span>
              </p>
            </>
          );
        }}
      </Show>
      {rows && rows.steps.length > 0 && <Story accuracy={column('accuracy')} errors={column('tool_error_share_right')} held={held?.columns['accuracy'] ?? []} />}
      <div class="charts">
        {rows && (
          <>
            <Chart
              title="accuracy"
              unit="share"
              about="right final answers among all rollouts, among those that are learned from, and on held-out tasks"
              lines={[
                { name: 'rollouts', color: 0, x, y: column('accuracy') },
                { name: 'held out', color: 2, x: held?.steps ?? [], y: held?.columns['accuracy'] ?? [], dots: true, error: (held?.columns['accuracy_standard_error'] ?? []).map((it) => 1.96 * (it ?? 0)) },
              ]}
              xLabel="step"
              zoom={zoom}
              onZoom={setZoom}
            />
            <Chart
              title="tool_errors"
              unit="share"
              about="failed tool calls among those of all episodes, of right ones, and of those that are learned from: what RoC takes out lies between the first and the last"
              lines={[
                { name: 'all', color: 0, x, y: column('tool_error_share') },
                { name: 'right', color: 2, x, y: column('tool_error_share_right') },
                { name: 'kept', color: 1, x, y: column('tool_error_share_kept') },
              ]}
              xLabel="step"
              zoom={zoom}
              onZoom={setZoom}
            />
            <Chart
              title="what_became_of_the_groups"
              unit="groups"
              about="groups that are learned from, and those that are dropped whole, by cause"
              lines={[
                { name: 'learned from', color: 2, x, y: column('groups_used') },
                { name: 'all right', color: 0, x, y: column('groups_all_right') },
                { name: 'all wrong', color: 1, x, y: column('groups_all_wrong') },
                { name: 'kept alike', color: 3, x, y: column('groups_kept_alike') },
              ]}
              xLabel="step"
              zoom={zoom}
              onZoom={setZoom}
            />
            <Chart title="response_tokens" unit="tokens" about="mean length after the prompt" lines={[{ name: 'mean', color: 0, x, y: column('response_tokens_mean') }]} xLabel="step" zoom={zoom} onZoom={setZoom} />
          </>
        )}
        {!rows && sft && <Chart title="loss" unit="nats" lines={[{ name: 'loss', color: 0, x: sft.steps, y: sft.columns['loss'] ?? [] }]} xLabel="step" zoom={zoom} onZoom={setZoom} />}
      </div>
      {detail.data && <Details run={run} data={detail.data} />}
    </>
  );
}

function Story({ accuracy, errors, held }: { accuracy: (number | null)[]; errors: (number | null)[]; held: (number | null)[] }) {
  const known = (values: (number | null)[]) => values.filter((value): value is number => value !== null);
  const ends = (values: (number | null)[]) => {
    const all = known(values);
    const part = Math.max(1, Math.floor(all.length / 10));
    const mean = (some: number[]) => some.reduce((sum, value) => sum + value, 0) / Math.max(1, some.length);
    return [mean(all.slice(0, part)), mean(all.slice(-part))] as const;
  };
  const [a0, a1] = ends(accuracy);
  const [e0, e1] = ends(errors);
  const all = known(held);
  return (
    <p class="story">
      Accuracy of the rollouts went from {share(a0)} to {share(a1)}
      {all.length > 1 && <>, on held-out tasks from {share(all[0])} to {share(all[all.length - 1])}</>}; failed calls in right episodes from {share(e0)} to {share(e1)}.
    </p>
  );
}

function Details({ run, data }: { run: string; data: RunDetail }) {
  return (
    <>
      <NotesForm run={run} notes={data.overview.notes} />
      <h2>What happened</h2>
      <ul class="events">
        {data.events.slice(-30).reverse().map((event, at) => {
          const { event: name, unix_ms, ...rest } = event;
          const time = typeof unix_ms === 'number' ? new Date(unix_ms).toLocaleString() : '';
          return (
            <li key={at}>
              <span class="muted">{time}</span> <strong>{String(name)}</strong>{' '}
              {Object.entries(rest).map(([key, value]) => `${words(key)} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`).join(', ')}
            </li>
          );
        })}
      </ul>
      <details>
        <summary>Recipe</summary>
        <Copy text={data.config} />
        <pre class="code">{data.config}</pre>
      </details>
      <details>
        <summary>Environment</summary>
        <pre class="code">{JSON.stringify(data.environment, null, 2)}</pre>
      </details>
    </>
  );
}

function NotesForm({ run, notes }: { run: string; notes: Notes }) {
  const [tags, setTags] = useState(notes.tags.join(', '));
  const [text, setText] = useState(notes.text);
  const [said, say] = useState('');
  useEffect(() => {
    setTags(notes.tags.join(', '));
    setText(notes.text);
  }, [run]);
  const save = (event: Event) => {
    event.preventDefault();
    const all = tags.split(',').map((tag) => tag.trim()).filter((tag) => tag !== '');
    send<Notes>('PUT', api('runs', run, 'notes'), { tags: all, text })
      .then(() => say('saved'))
      .catch((error: Error) => say(error.message));
  };
  return (
    <details open={notes.text !== '' || notes.tags.length > 0}>
      <summary>Tags and notes</summary>
      <form onSubmit={save}>
        <label>
          tags, with commas between <input value={tags} onInput={(event) => setTags(event.currentTarget.value)} />
        </label>
        <label>
          notes <textarea rows={4} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <p class="row">
          <button type="submit">save</button> <span role="status">{said}</span>
        </p>
      </form>
    </details>
  );
}
