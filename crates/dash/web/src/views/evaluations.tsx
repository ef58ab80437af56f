// Evaluations: each suite over the steps with error bars, and which problems each step solved.

import { api, useLoad, type Look, type Matrix, type Suites } from '../api';
import { Chart, type Line } from '../chart';
import { number, share, words } from '../format';
import { Notices, Show } from '../parts';
import { path, setQuery, useZoom } from '../route';

const SCORES = ['accuracy', 'score', 'avg', 'value', 'loss'];
const COLUMNS = ['tool_error_share_right', 'tool_calls_per_episode', 'response_tokens_mean', 'truncated_share', 'unparseable_share', 'seconds'];

export function EvaluationsView({ run, suite, query, look }: { run: string; suite: string | null; query: URLSearchParams; look: Look | null }) {
  const loaded = useLoad<Suites>(api('runs', run, 'evaluations'), look?.evaluations);
  const [zoom, setZoom] = useZoom();
  return (
    <>
      <h1>Evaluations</h1>
      <Show of={loaded}>
        {(data) => {
          const lines: Line[] = data.suites.map((one, color) => {
            const score = SCORES.find((name) => one.evaluations.some((it) => name in it.numbers)) ?? 'accuracy';
            return {
              name: one.name,
              color,
              x: one.evaluations.map((it) => it.step),
              y: one.evaluations.map((it) => it.numbers[score] ?? null),
              // 95 %, as the comparison of two steps needs it.
              error: one.evaluations.map((it) => 1.96 * (it.numbers[`${score}_standard_error`] ?? 0)),
              dots: true,
            };
          });
          return (
            <>
              <Notices all={data.notices} />
              {data.suites.length === 0 ? (
                <p class="muted">There are no evaluations yet.</p>
              ) : (
                <Chart title="accuracy" unit="share" about="right final answers; bars: 95 % of what another draw of tasks could give" lines={lines} xLabel="step" zoom={zoom} onZoom={setZoom} />
              )}
              {data.suites.map((one) => (
                <SuiteTable key={one.name} run={run} suite={one} open={suite === one.name || data.suites.length === 1} />
              ))}
            </>
          );
        }}
      </Show>
      {suite !== null ? (
        <MatrixView run={run} suite={suite} query={query} version={look?.evaluations} />
      ) : (
        loaded.data?.suites[0] && <MatrixView run={run} suite={loaded.data.suites[0].name} query={query} version={look?.evaluations} />
      )}
    </>
  );
}

function SuiteTable({ run, suite, open }: { run: string; suite: Suites['suites'][number]; open: boolean }) {
  const first = suite.evaluations[0];
  const names = ['accuracy', ...COLUMNS].filter((name) => suite.evaluations.some((it) => name in it.numbers));
  return (
    <details open={open}>
      <summary>
        <a href={path('runs', run, 'evaluations', suite.name)}>{suite.name}</a>, {suite.evaluations.length} {suite.evaluations.length === 1 ? 'evaluation' : 'evaluations'}
      </summary>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">step</th>
              {names.map((name) => (
                <th scope="col" key={name}>
                  {words(name)}
                </th>
              ))}
              <th scope="col">against the first</th>
            </tr>
          </thead>
          <tbody>
            {suite.evaluations.map((one) => (
              <tr key={one.step}>
                <th scope="row">{one.step}</th>
                {names.map((name) => (
                  <td class="number" key={name}>
                    {name.includes('share') || name === 'accuracy' ? share(one.numbers[name]) : number(one.numbers[name])}
                    {name === 'accuracy' && one.numbers['accuracy_standard_error'] !== undefined && <span class="muted"> ± {share(1.96 * one.numbers['accuracy_standard_error'])}</span>}
                  </td>
                ))}
                <td class="number">{first && one !== first ? difference(first.numbers, one.numbers) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function difference(a: Record<string, number>, b: Record<string, number>): string {
  const [from, to] = [a['accuracy'], b['accuracy']];
  if (from === undefined || to === undefined) return '–';
  const error = Math.hypot(a['accuracy_standard_error'] ?? 0, b['accuracy_standard_error'] ?? 0);
  const sign = to >= from ? '+' : '';
  const clear = error > 0 && Math.abs(to - from) > 1.96 * error ? 'clear' : 'within the error';
  return `${sign}${share(to - from)} (${clear})`;
}

const SHOWN = 200;

function MatrixView({ run, suite, query, version }: { run: string; suite: string; query: URLSearchParams; version: unknown }) {
  const loaded = useLoad<Matrix>(api('runs', run, 'evaluations', suite), version);
  const only = query.get('only') ?? 'all';
  const first = Number(query.get('first') ?? 0);
  return (
    <section>
      <h2>Problems of {suite}</h2>
      <Show of={loaded}>
        {(data) => {
          const rate = (cell: [number, number, number] | null | undefined) => (cell ? cell[1] / Math.max(1, cell[2]) : null);
          const [a, b] = [0, data.steps.length - 1];
          const fits = (task: Matrix['tasks'][number]) => {
            const [from, to] = [rate(task.cells[a]) ?? 0, rate(task.cells[b]) ?? 0];
            return only === 'gained' ? to > from : only === 'lost' ? to < from : only === 'wrong' ? to < 1 : true;
          };
          const tasks = data.tasks.filter(fits);
          return (
            <>
              <div class="row controls">
                <label>
                  problems{' '}
                  <select value={only} onChange={(event) => setQuery({ only: event.currentTarget.value === 'all' ? null : event.currentTarget.value, first: null })}>
                    <option value="all">all</option>
                    <option value="gained">solved more often at the end than at first</option>
                    <option value="lost">solved less often</option>
                    <option value="wrong">not always solved at the end</option>
                  </select>
                </label>
                <span class="muted">
                  {tasks.length} of {data.tasks.length}
                </span>
              </div>
              <Notices all={data.notices} />
              <div class="scroll">
                <table class="matrix">
                  <thead>
                    <tr>
                      <th scope="col">problem</th>
                      <th scope="col">answer</th>
                      {data.steps.map((step) => (
                        <th scope="col" key={step}>
                          step {step}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {tasks.slice(first, first + SHOWN).map((task) => (
                      <tr key={task.task}>
                        <td>{task.problem || task.task}</td>
                        <td>{task.answer}</td>
                        {task.cells.map((cell, at) => (
                          <td key={at}>
                            {cell ? (
                              <a class={`visit v${Math.round(4 * (rate(cell) ?? 0))}`} href={path('runs', run, 'evaluations', suite, data.steps[at] ?? 0, 'tasks', cell[0], 'episodes', 0)}>
                                {cell[1]}/{cell[2]}
                              </a>
                            ) : (
                              '–'
                            )}
                          </td>
                        ))}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <p class="row">
                {first > 0 && <button type="button" onClick={() => setQuery({ first: first > SHOWN ? String(first - SHOWN) : null })}>previous</button>}
                {first + SHOWN < tasks.length && <button type="button" onClick={() => setQuery({ first: String(first + SHOWN) })}>next</button>}
              </p>
            </>
          );
        }}
      </Show>
    </section>
  );
}
