// Small parts that every view uses.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Loaded, Verdict } from './api';

export function Notices({ all }: { all: string[] }) {
  if (all.length === 0) return null;
  return (
    <ul class="notices" aria-label="Notices">
      {all.map((notice) => (
        <li key={notice}>{notice}</li>
      ))}
    </ul>
  );
}

/** What was loaded; what went wrong is shown beside it, not instead of it. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.error && (
        <p class="failure" role="alert">
          {of.error}
        </p>
      )}
      {of.data ? children(of.data) : of.loading && <p class="muted">reading …</p>}
    </>
  );
}

/** Why there is no news. */
export function Refused({ why }: { why: string | null }) {
  if (why === null) return null;
  return (
    <p class="failure" role="alert">
      Nothing new is shown: {why}
    </p>
  );
}

export function State({ state }: { state: string }) {
  return <span class={`state ${state}`}>{state}</span>;
}

const MARKS: Record<Verdict, string> = { right: '✓', wrong: '✗', unparseable: '?', undecided: '~' };

export function Mark({ verdict }: { verdict: Verdict }) {
  return (
    <span class={`mark ${verdict}`}>
      <span aria-hidden="true">{MARKS[verdict] ?? '?'}</span> {verdict}
    </span>
  );
}

export function Spark({ values, label }: { values: number[]; label: string }) {
  if (values.length < 2) return <span class="muted">–</span>;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, at) => {
    const x = (at / (values.length - 1)) * 118 + 1;
    const y = 27 - ((value - low) / (high - low || 1)) * 26;
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return (
    <svg class="spark" width="120" height="28" role="img" aria-label={label}>
      <polyline points={points.join(' ')} />
    </svg>
  );
}

/** Copies `text`; where a browser doesn't let a page do that (plain http from another machine), marks it. */
export function Copy({ text, label = 'copy' }: { text: string; label?: string }) {
  const [said, say] = useState<string | null>(null);
  const copy = async (button: HTMLElement) => {
    try {
      await navigator.clipboard.writeText(text);
      say('copied');
    } catch {
      const shown = button.parentElement?.querySelector('pre, code');
      if (shown) getSelection()?.selectAllChildren(shown);
      say(shown ? 'marked: press Ctrl+C' : 'this browser does not copy');
    }
    setTimeout(() => say(null), 3_000);
  };
  return (
    <button type="button" class="small" onClick={(event) => void copy(event.currentTarget)}>
      {said ?? label}
    </button>
  );
}

export function Facts({ all }: { all: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {all.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Outcome({ kind, detail }: { kind: string; detail?: string | null | undefined }) {
  return (
    <span class={`outcome ${kind === 'ok' ? 'ok' : 'bad'}`} title={detail ?? ''}>
      {kind}
      {detail ? `: ${detail.length > 60 ? detail.slice(0, 60) + '…' : detail}` : ''}
    </span>
  );
}

/** Counts as bars, each row with its name and the index of its colour; rows of 0 at both ends are left out. */
export function Bars({ title, rows }: { title: string; rows: [name: string, count: number, color: number][] }) {
  const filled = rows.map(([, count]) => count > 0);
  const shown = rows.slice(Math.max(0, filled.indexOf(true)), filled.lastIndexOf(true) + 1);
  const most = Math.max(1, ...rows.map(([, count]) => count));
  return (
    <section>
      <h2>{title}</h2>
      {shown.length === 0 && <p class="muted">none yet</p>}
      <table class="histogram">
        <tbody>
          {shown.map(([name, count, color]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>
                <span class={`f${color} bar`} ref={(element) => { if (element) element.style.width = `${(100 * count) / most}%`; }} />
              </td>
              <td class="number">{count}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Gives a file to keep. */
export function download(name: string, kind: string, content: string): void {
  const address = URL.createObjectURL(new Blob([content], { type: kind }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
