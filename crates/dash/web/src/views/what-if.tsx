// What other settings of the selection would have kept, and the sliders that set them.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { api, send, type Selection, type Step, type Summary, type WhatIf } from '../api';
import { number, share } from '../format';
import { setQuery } from '../route';

const DEFAULT: Selection = { mode: 'paper', keep: 16, epsilon: 0.05, released_minimum: 2 };

export interface WhatIfState {
  settings: Selection;
  is_own: boolean;
  answer: WhatIf | null;
  error: string | null;
}

/** Asks what other settings would keep; the settings are in the address. */
export function useWhatIf(run: string, step: Step | null, group: number | null, query: URLSearchParams): WhatIfState {
  const own = step?.selection ?? DEFAULT;
  const settings = useMemo<Selection>(() => {
    const value = (name: string, otherwise: number) => (query.has(name) ? Number(query.get(name)) : otherwise);
    return {
      mode: (query.get('mode') as Selection['mode'] | null) ?? own.mode,
      keep: value('keep', own.keep),
      epsilon: value('epsilon', own.epsilon),
      released_minimum: value('minimum', own.released_minimum),
    };
  }, [query.toString(), step?.selection]);
  const [state, set] = useState<{ of: string; answer: WhatIf | null; error: string | null }>({ of: '', answer: null, error: null });
  const text = JSON.stringify(settings);
  const number = step?.step ?? null;
  const of = `${run}/${number}/${group}`;
  useEffect(() => {
    if (number === null) return;
    const abort = new AbortController();
    const body = group === null ? { selection: settings } : { selection: settings, group };
    const timer = setTimeout(() => {
      send<WhatIf>('POST', api('runs', run, 'steps', number, 'what-if'), body, abort.signal)
        .then((answer) => set({ of, answer, error: null }))
        .catch((error: Error) => {
          if (!abort.signal.aborted) set({ of, answer: null, error: error.message });
        });
    }, 40);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [of, step, text]);
  const answer = state.of === of ? state.answer : null;
  return { settings, is_own: text === JSON.stringify(own), answer, error: state.of === of ? state.error : null };
}

export function WhatIfPanel({ what, own, most }: { what: WhatIfState; own: Selection | null; most: number }) {
  const { settings, answer } = what;
  const put = (name: string, value: string | number, otherwise: string | number | undefined) =>
    setQuery({ [name]: String(value) === String(otherwise) ? null : String(value) });
  // Half a decade a step: ε matters by its size, not by its difference.
  const exponent = Math.log10(settings.epsilon);
  return (
    <section class="what-if" aria-label="What if other settings had chosen">
      <h2>What if</h2>
      <div class="row controls">
        <label>
          mode{' '}
          <select value={settings.mode} onChange={(event) => put('mode', event.currentTarget.value, own?.mode)}>
            <option value="paper">paper (RoC)</option>
            <option value="released">released code</option>
            <option value="off">off (plain GRPO)</option>
          </select>
        </label>
        <label>
          keep{' '}
          <input type="range" min="1" max={most} value={settings.keep} onInput={(event) => put('keep', event.currentTarget.value, own?.keep)} />{' '}
          <output>{settings.keep}</output>
        </label>
        <label>
          epsilon{' '}
          <input
            type="range"
            min="-4"
            max="1"
            step="0.1"
            value={exponent}
            disabled={settings.mode !== 'paper'}
            onInput={(event) => put('epsilon', Number((10 ** Number(event.currentTarget.value)).toPrecision(3)), own?.epsilon)}
          />{' '}
          <output>{number(settings.epsilon)}</output>
        </label>
        <label>
          minimum{' '}
          <input
            type="range"
            min="0"
            max={Math.max(1, Math.floor(most / 2))}
            value={settings.released_minimum}
            disabled={settings.mode !== 'released'}
            onInput={(event) => put('minimum', event.currentTarget.value, own?.released_minimum)}
          />{' '}
          <output>{settings.released_minimum}</output>
        </label>
        <button type="button" disabled={what.is_own} onClick={() => setQuery({ mode: null, keep: null, epsilon: null, minimum: null })}>
          the run's own
        </button>
      </div>
      {what.error && (
        <p class="failure" role="alert">
          {what.error}
        </p>
      )}
      {answer && <Compare before={answer.before} after={answer.after} is_own={what.is_own} agrees={answer.agrees} />}
    </section>
  );
}

function Compare({ before, after, is_own, agrees }: { before: Summary; after: Summary; is_own: boolean; agrees: boolean | null }) {
  const rows: [string, string, string][] = [
    ['groups learned from', String(before.groups_used), String(after.groups_used)],
    ['episodes kept', String(before.kept), String(after.kept)],
    ['right among them', share(before.kept_right / before.kept), share(after.kept_right / after.kept)],
    ['failed calls among theirs', share(before.failed_calls / before.calls), share(after.failed_calls / after.calls)],
  ];
  return (
    <>
      <table class="compare">
        <thead>
          <tr>
            <th scope="col" />
            <th scope="col">as it was</th>
            <th scope="col">{is_own ? 'the same settings' : 'with these settings'}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, was, is]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{was}</td>
              <td class={was === is ? '' : 'changed'}>{is}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {agrees === false && <p class="failure">The run's own settings, tried again, keep others than are written down: it was made by another version, or its recipe was changed.</p>}
      {agrees === null && <p class="muted">The step's place in the run or the run's own settings aren't known, so nothing can be compared with training's choice.</p>}
    </>
  );
}
