// Full-text search over the episodes, from the newest step back.

import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ask, type SearchAnswer } from '../api';
import { plural } from '../format';
import { Notices } from '../parts';
import { path, setQuery } from '../route';

interface Found {
  hits: SearchAnswer['hits'];
  notices: string[];
  searched: number;
  left: number;
  to: number | null;
  error: string | null;
  busy: boolean;
}

const NOTHING: Found = { hits: [], notices: [], searched: 0, left: 0, to: null, error: null, busy: false };

export function SearchView({ run, query }: { run: string; query: URLSearchParams }) {
  const text = query.get('text') ?? '';
  const [found, set] = useState<Found>(NOTHING);
  const abort = useRef<AbortController | null>(null);
  const field = useRef<HTMLInputElement>(null);

  const go = (before: number | null, have: Found) => {
    abort.current?.abort();
    const control = new AbortController();
    abort.current = control;
    set({ ...have, busy: true, error: null });
    const asked = new URLSearchParams({ text });
    if (before !== null) asked.set('before', String(before));
    ask<SearchAnswer>(`${api('runs', run, 'search')}?${asked}`, { signal: control.signal })
      .then((answer) => {
        const next: Found = {
          hits: [...have.hits, ...answer.hits],
          notices: [...have.notices, ...answer.notices],
          searched: have.searched + answer.searched,
          left: answer.left,
          to: answer.searched_to ?? have.to,
          error: null,
          busy: false,
        };
        // Nothing yet: go on until something is found or all is searched.
        if (next.hits.length === 0 && next.left > 0) go(next.to, next);
        else set(next);
      })
      .catch((error: Error) => {
        if (!control.signal.aborted) set({ ...have, busy: false, error: error.message });
      });
  };

  useEffect(() => {
    set(NOTHING);
    const timer = setTimeout(() => text.trim() !== '' && go(null, NOTHING), 200);
    return () => {
      clearTimeout(timer);
      abort.current?.abort();
    };
  }, [run, text]);
  useEffect(() => field.current?.focus(), []);

  return (
    <>
      <h1>Search</h1>
      <div class="row controls">
        <label>
          text in problems, responses, programs, tool answers and verdicts{' '}
          <input ref={field} type="search" value={text} onInput={(event) => setQuery({ text: event.currentTarget.value })} />
        </label>
      </div>
      {found.error && (
        <p class="failure" role="alert">
          {found.error}
        </p>
      )}
      <Notices all={[...new Set(found.notices)]} />
      {text.trim() !== '' && (
        <p class="muted" role="status">
          {found.busy ? 'searching … ' : ''}
          {plural(found.hits.length, 'episode')} in {plural(found.searched, 'step')}
          {found.left > 0 && `, ${plural(found.left, 'step')} not searched yet`}
        </p>
      )}
      <ul class="hits">
        {found.hits.map((hit) => (
          <li key={`${hit.step}:${hit.group}:${hit.sample}`}>
            <a href={path('runs', run, 'steps', hit.step, 'groups', hit.group, 'episodes', hit.sample)}>
              step {hit.step}, {hit.task}, sample {hit.sample}
            </a>{' '}
            <span class={hit.right ? 'mark right' : 'mark wrong'}>{hit.right ? '✓ right' : '✗ not right'}</span> <span class="muted">{hit.place}</span>
            <pre class="text">
              {hit.before}
              <mark>{hit.found}</mark>
              {hit.behind}
            </pre>
          </li>
        ))}
      </ul>
      {found.left > 0 && !found.busy && (
        <button type="button" onClick={() => go(found.to, found)}>
          search earlier steps
        </button>
      )}
    </>
  );
}
