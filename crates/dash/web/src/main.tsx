// The page: which view the address names, what stands around it, and the keys.

import { render } from 'preact';
import { useEffect, useErrorBoundary, useState } from 'preact/hooks';
import { api, type Look } from './api';
import { Notices, Refused, State } from './parts';
import { catchLinks, go, path, read, useRoute, type Route } from './route';
import { useStream } from './stream';
import { CurvesView } from './views/curves';
import { EnvironmentView } from './views/environment';
import { OtherEnvironmentView } from './views/environment-now';
import { EpisodeView } from './views/episode';
import { EvaluationsView } from './views/evaluations';
import { GroupView, StepView } from './views/groups';
import { ProblemsView } from './views/problems';
import { RunView } from './views/run';
import { RunsView } from './views/runs';
import { SearchView } from './views/search';
import { TimelineView } from './views/timeline';
import './style.css';

const TABS: [key: string, part: string, name: string][] = [
  ['o', '', 'Overview'],
  ['c', 'curves', 'Curves'],
  ['g', 'steps', 'Groups'],
  ['p', 'problems', 'Problems'],
  ['s', 'search', 'Search'],
  ['t', 'timeline', 'Timeline'],
  ['v', 'evaluations', 'Evaluations'],
  ['e', 'environment', 'Environment'],
];

const KEYS: [string, string][] = [
  ['r', 'all runs'],
  ...TABS.map(([key, , name]): [string, string] => [key, name.toLowerCase()]),
  ['/', 'search in the episodes'],
  ['←  →', 'previous and next step, group or episode'],
  ['u', 'one level up'],
  ['d', 'dark or light'],
  ['?', 'these keys'],
];

function theme(): string {
  return document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
}

function changeTheme(): void {
  const next = theme() === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem('theme', next);
  } catch {
    // Then it lasts as long as the page.
  }
}

function Page() {
  const route = useRoute();
  const [help, setHelp] = useState(false);
  const run = runOf(route);
  const stream = useStream<Look>(run === null ? null : api('runs', run, 'live'));

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.matches('input, textarea, select') || event.ctrlKey || event.metaKey || event.altKey) return;
      const route = read();
      const run = runOf(route);
      if (event.key === '?') setHelp((open) => !open);
      else if (event.key === 'Escape') setHelp(false);
      else if (event.key === 'd') changeTheme();
      else if (event.key === 'r') go('/');
      else if (event.key === 'u') up(route);
      else if (event.key === 'ArrowLeft') document.querySelector<HTMLAnchorElement>('a[rel=prev]')?.click();
      else if (event.key === 'ArrowRight') document.querySelector<HTMLAnchorElement>('a[rel=next]')?.click();
      else if (event.key === '/' && run !== null) {
        event.preventDefault();
        go(path('runs', run, 'search'));
      } else {
        const tab = TABS.find(([key]) => key === event.key);
        if (!tab || run === null) return;
        go(tab[1] === '' ? path('runs', run) : path('runs', run, tab[1]));
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);

  const title = route.parts.slice(1).join(' · ');
  useEffect(() => {
    document.title = title === '' ? 'rocstar' : `${title} · rocstar`;
  }, [title]);

  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById('content')?.focus(); }}>
        to the content
      </a>
      <header>
        <a href="/" class="home">
          <img src="/icon.svg" alt="" width="20" height="20" /> rocstar
        </a>
        {run !== null && (
          <span class="run-name">
            <a href={path('runs', run)}>{run}</a> {stream.last && <State state={stream.last.state} />}
            {stream.broken && <span class="state died">server not reached</span>}
          </span>
        )}
        <span class="tools">
          <button type="button" class="small" onClick={changeTheme} aria-label="dark or light">
            ◐
          </button>
          <button type="button" class="small" onClick={() => setHelp(!help)} aria-label="keys" aria-expanded={help}>
            ?
          </button>
        </span>
      </header>
      {run !== null && (
        <nav aria-label="Views of the run">
          {TABS.map(([key, part, name]) => {
            const is = (route.parts[2] ?? '') === part;
            const target = part === '' ? path('runs', run) : path('runs', run, part);
            return (
              <a key={part} href={target} class={is ? 'on' : ''} aria-current={is ? 'page' : undefined} title={`key ${key}`}>
                {name}
              </a>
            );
          })}
        </nav>
      )}
      {help && (
        <aside class="keys" aria-label="Keys">
          <dl>
            {KEYS.map(([key, what]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
        </aside>
      )}
      <main id="content" tabIndex={-1}>
        <Refused why={stream.refused} />
        <Guarded route={route} look={stream.last} />
      </main>
    </>
  );
}

function runOf(route: Route): string | null {
  return route.parts[0] === 'runs' ? (route.parts[1] ?? null) : null;
}

function up(route: Route): void {
  const parts = route.parts;
  if (parts[0] !== 'runs') return go('/');
  // `groups`, `episodes` and `tasks` are no pages of their own.
  let end = parts.length - 1;
  if (['groups', 'episodes', 'tasks'].includes(parts[end - 1] ?? '')) end -= 1;
  go(end <= 1 ? '/' : path(...parts.slice(0, end)));
}

/** A view that fails costs itself, not the page around it. */
function Guarded({ route, look }: { route: Route; look: Look | null }) {
  const [error, reset] = useErrorBoundary();
  useEffect(() => reset(), [route]);
  if (error) return <Notices all={[`This view fails on what the run holds: ${String((error as Error).message ?? error)}`]} />;
  return <View route={route} look={look} />;
}

function View({ route, look }: { route: Route; look: Look | null }) {
  const [first, run, view, a, b, c, d, e] = route.parts;
  const query = route.query;
  if (first === undefined) return <RunsView query={query} />;
  if (first === 'environment') return <OtherEnvironmentView />;
  if (first === 'compare') return <CurvesView runs={(query.get('runs') ?? '').split(',').filter((it) => it)} query={query} look={null} />;
  if (first !== 'runs' || run === undefined) return <Missing />;
  switch (view) {
    case undefined:
      return <RunView run={run} look={look} />;
    case 'curves': {
      const others = (query.get('with') ?? '').split(',').filter((it) => it);
      return <CurvesView runs={[run, ...others]} query={query} look={look} />;
    }
    case 'steps': {
      const step = a === undefined ? null : Number(a);
      if (b === 'groups' && c !== undefined && step !== null) {
        if (d === 'episodes' && e !== undefined) {
          return <EpisodeView run={run} place={{ step, group: Number(c) }} sample={Number(e)} query={query} look={look} />;
        }
        return <GroupView run={run} step={step} group={Number(c)} query={query} look={look} />;
      }
      return <StepView run={run} step={step} query={query} look={look} />;
    }
    case 'problems':
      return <ProblemsView run={run} query={query} look={look} />;
    case 'search':
      return <SearchView run={run} query={query} />;
    case 'timeline':
      return <TimelineView run={run} query={query} look={look} />;
    case 'evaluations': {
      const [task, , sample] = [route.parts[6], route.parts[7], route.parts[8]];
      if (a !== undefined && b !== undefined && task !== undefined && sample !== undefined) {
        const place = { suite: a, step: Number(b), task: Number(task) };
        return <EpisodeView run={run} place={place} sample={Number(sample)} query={query} look={look} />;
      }
      return <EvaluationsView run={run} suite={a ?? null} query={query} look={look} />;
    }
    case 'environment':
      return <EnvironmentView run={run} look={look} />;
    default:
      return <Missing />;
  }
}

function Missing() {
  return <Notices all={['There is no such page.']} />;
}

try {
  const kept = localStorage.getItem('theme');
  if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
} catch {
  // Then the system's is used.
}
catchLinks();
render(<Page />, document.getElementById('app')!);
