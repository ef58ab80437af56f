// All tasks of a run: how often each was solved, and how that changed.

import { useEffect, useState } from 'preact/hooks';
import { api, useLoad, type Look, type Tasks } from '../api';
import { share } from '../format';
import { Notices, Show } from '../parts';
import { path, setQuery } from '../route';

const PAGE = 50;
const SORTS: [string, string][] = [
  ['hardest', 'hardest first'],
  ['easiest', 'easiest first'],
  ['tool_errors', 'most tool errors first'],
  ['gained', 'largest gain first'],
  ['newest', 'seen last first'],
  ['name', 'by name'],
];
const ONLY: [string, string][] = [
  ['all', 'all'],
  ['newly_solved', 'newly solved'],
  ['regressed', 'regressed'],
  ['never_solved', 'never solved'],
  ['tool_errors', 'with tool errors'],
];

export function ProblemsView({ run, query, look }: { run: string; query: URLSearchParams; look: Look | null }) {
  const sort = query.get('sort') ?? 'hardest';
  const only = query.get('only') ?? 'all';
  const text = query.get('text') ?? '';
  const offset = Number(query.get('offset') ?? 0);
  const [tick, setTick] = useState(0);
  const asked = new URLSearchParams({ sort, only, text, offset: String(offset), limit: String(PAGE) });
  const loaded = useLoad<Tasks>(`${api('runs', run, 'problems')}?${asked}`, `${tick}:${look?.episode_steps ?? 0}`);
  const progress = loaded.data?.progress;
  const unfinished = progress !== undefined && progress.steps < progress.of;
  useEffect(() => {
    if (!unfinished) return;
    const timer = setTimeout(() => setTick(tick + 1), 500);
    return () => clearTimeout(timer);
  }, [unfinished, tick, loaded.data]);
  const change = (name: string, otherwise: string) => (event: { currentTarget: HTMLSelectElement | HTMLInputElement }) =>
    setQuery({ [name]: event.currentTarget.value === otherwise ? null : event.currentTarget.value, offset: null });
  return (
    <>
      <h1>Problems</h1>
      <div class="row controls">
        <label>
          order{' '}
          <select value={sort} onChange={change('sort', 'hardest')}>
            {SORTS.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          only{' '}
          <select value={only} onChange={change('only', 'all')}>
            {ONLY.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          name or answer <input type="search" value={text} onInput={change('text', '')} />
        </label>
        <a class="button" href={path('runs', run, 'search')}>
          search in the episodes
        </a>
      </div>
      <Show of={loaded}>
        {(data) => (
          <>
            <p class="muted" role="status">
              {data.found} {data.found === 1 ? 'problem' : 'problems'}
              {unfinished && `; ${data.progress.steps} of ${data.progress.of} steps read so far`}
            </p>
            <Notices all={data.notices} />
            <div class="scroll">
              <table class="problems">
                <thead>
                  <tr>
                    <th scope="col">problem</th>
                    <th scope="col">answer</th>
                    <th scope="col">pass rate</th>
                    <th scope="col">over time</th>
                    <th scope="col">failed calls</th>
                  </tr>
                </thead>
                <tbody>
                  {data.tasks.map((task) => (
                    <tr key={task.task}>
                      <td>
                        <div class="muted">{task.task}</div>
                        {task.problem}
                      </td>
                      <td>{task.answer}</td>
                      <td class="number">
                        {share(task.right / Math.max(1, task.episodes))}
                        <div class="muted">
                          {task.right}/{task.episodes}
                        </div>
                      </td>
                      <td>
                        <span class="visits">
                          {task.visits.slice(-24).map((visit) => (
                            <a
                              key={visit.step}
                              class={`visit v${Math.round((4 * visit.right) / Math.max(1, visit.episodes))}`}
                              href={path('runs', run, 'steps', visit.step, 'groups', visit.group)}
                              title={`step ${visit.step}: ${visit.right} of ${visit.episodes} right, ${visit.kept} kept`}
                              aria-label={`step ${visit.step}: ${visit.right} of ${visit.episodes} right`}
                            >
                              {visit.step}
                            </a>
                          ))}
                        </span>
                      </td>
                      <td class="number">{task.calls === 0 ? '–' : share(task.failed_calls / task.calls)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <p class="row">
              {offset > 0 && (
                <button type="button" onClick={() => setQuery({ offset: offset > PAGE ? String(offset - PAGE) : null })}>
                  previous
                </button>
              )}
              {offset + data.tasks.length < data.found && (
                <button type="button" onClick={() => setQuery({ offset: String(offset + PAGE) })}>
                  next
                </button>
              )}
            </p>
          </>
        )}
      </Show>
    </>
  );
}
