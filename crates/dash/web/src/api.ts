// What the server gives: its forms, and hooks that ask for it.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export type Verdict = 'right' | 'wrong' | 'unparseable' | 'undecided';

export interface Notes {
  tags: string[];
  text: string;
}

export interface Overview {
  name: string;
  state: string;
  kind: string;
  stage: [number, number];
  step: number;
  steps: number | null;
  headline: [string, number][];
  spark: number[];
  changed_ms: number | null;
  notes: Notes;
  notices: string[];
}

export interface Runs {
  folder: string;
  all: number;
  offset: number;
  runs: Overview[];
  notices: string[];
  /** A code environment is looked at that is no run's. */
  environment: boolean;
}

export interface RunDetail {
  overview: Overview;
  events: Record<string, unknown>[];
  config: string;
  environment: Record<string, unknown> | null;
  episode_steps: number[];
  checkpoint_steps: number[];
  notices: string[];
  path: string;
  stages: { kind: string; steps: number | null; selection: Selection; samples: number | null }[];
  has_text: boolean;
}

export interface Metric {
  name: string;
  unit: string;
  meaning: string;
  healthy: { lowest: number | null; highest: number | null; range: string; otherwise: string } | null;
  is_measured: boolean;
}

export interface Rows {
  steps: number[];
  columns: Record<string, (number | null)[]>;
}

export interface Curves {
  generation: number;
  kinds: { kind: string; first: number; rows: Rows }[];
  notices: string[];
}

export interface Selection {
  mode: 'paper' | 'released' | 'off';
  keep: number;
  epsilon: number;
  released_minimum: number;
}

export interface Chip {
  kind: string;
  detail: string | null;
  wall_us: number;
}

export interface Card {
  sample: number;
  kept: boolean;
  cause: string | null;
  penalties: { tool_errors: number; answer_format: number } | null;
  advantage: number | null;
  reward: number;
  verdict: Verdict;
  answer: string | null;
  response_tokens: number;
  policy_tokens: number;
  turns: number;
  calls: Chip[];
  finish: string;
  timing: { total_us: number; generating_us: number; tools_us: number };
}

export interface Group {
  number: number;
  task: string;
  problem: string;
  answer: string;
  verdict: { kind: string; why?: string };
  right: number;
  episodes: Card[];
  lost: { sample: number; cause: { cause: string; what?: string; why?: string } }[];
}

export interface Step {
  step: number;
  previous: number | null;
  next: number | null;
  stage: number | null;
  selection: Selection | null;
  /** Groups of the step, of which `groups` may be one. */
  all_groups: number;
  groups: Group[];
  notices: string[];
}

export interface Choice {
  number: number;
  verdict: 'used' | { dropped: string };
  kept: [number, number][];
  dropped: [number, string][];
  gained: number[];
  lost: number[];
}

export interface Summary {
  groups_used: number;
  kept: number;
  kept_right: number;
  calls: number;
  failed_calls: number;
}

export interface WhatIf {
  step: number;
  agrees: boolean | null;
  groups: Choice[];
  before: Summary;
  after: Summary;
}

export interface Call {
  tool: string;
  program: string;
  input?: string;
  outcome: { kind: string; message?: string; name?: string; code?: number; what?: string };
  shown: string;
  cut_tokens: number;
  wall_us: number;
  cpu_us: number;
  memory_bytes: number | null;
  isolation: string[];
}

export interface Episode {
  run: string;
  step: number;
  task: string;
  answer: string;
  sample: number;
  kept: boolean | null;
  cause: string | null;
  penalties: { tool_errors: number; answer_format: number } | null;
  advantage: number | null;
  reward: number;
  verdict: { kind: Verdict; answer: string | null; explanation: string };
  finish: string;
  timing: { total_us: number; generating_us: number; tools_us: number };
  weight_versions: [number, number][];
  prompt_tokens: number;
  response_tokens: number;
  policy_tokens: number;
  prompt: string;
  problem: string;
  turns: { text: string; start_token: number; policy_tokens: number; answer_tags: number; calls: Call[] }[];
  replay: string;
  has_text: boolean;
  /** Why the vocabulary that the run saved can't be read. */
  vocabulary_notice: string | null;
}

export interface Token {
  id: number;
  text: string;
  special: boolean;
  author: 'policy' | 'tool' | 'template' | 'prompt';
  turn: number | null;
  sampled: number | null;
  model: number | null;
  now: number | null;
  weights: number | null;
}

export interface Tokens {
  all: number;
  first: number;
  advantage: number | null;
  /**
   * Between what ratios a token is learned from. `null` where the loss doesn't clip each token's ratio to
   * what was sampled (or the place in the recipe is unknown): then exp(now - sampled) is not the loss's
   * ratio, and neither it nor "clipped" may be shown.
   */
  clip: [number, number] | null;
  tokens: Token[];
}

export interface Tasks {
  progress: Progress;
  found: number;
  tasks: {
    task: string;
    answer: string;
    problem: string;
    right: number;
    episodes: number;
    calls: number;
    failed_calls: number;
    visits: { step: number; group: number; right: number; episodes: number; kept: number }[];
  }[];
  notices: string[];
}

export interface Progress {
  steps: number;
  of: number;
}

export interface SearchAnswer {
  hits: {
    step: number;
    group: number;
    sample: number;
    task: string;
    right: boolean;
    place: string;
    before: string;
    found: string;
    behind: string;
  }[];
  searched_to: number | null;
  searched: number;
  left: number;
  notices: string[];
}

export interface Environment {
  /** As `env.json` has it: `isolation` reads it. */
  sandbox: unknown;
  host: Record<string, unknown> | null;
  progress: Progress;
  wall_bounds_us: number[];
  steps: {
    step: number;
    calls: number;
    outcomes: Record<string, number>;
    wall: number[];
    wall_us: number;
    cpu_us: number;
    memory_bytes_max: number;
    lost: number;
  }[];
}

export interface Durations {
  counts: number[];
  sum_us: number;
}

/** The code environment at one moment. */
export interface SandboxState {
  unix_ms: number;
  slots: number;
  running: number;
  waiting: number;
  turns: number;
  turns_taken: number;
  sessions: number;
  accepted: number;
  answered: number;
  cancelled: number;
  refused: number;
  outcomes: Record<string, number>;
  bounds_us: number[];
  run_time: Durations;
  queue_wait: Durations;
  layers: Record<string, boolean>;
  degraded: boolean;
  recent: { unix_ms: number; answered: number; running: number; waiting: number }[];
}

export interface EnvironmentNow {
  state: SandboxState | null;
  /** State of the run. */
  run: string;
  now_ms: number;
  notice: string | null;
  /** Of an environment that is no run's. */
  url?: string;
}

export interface Activity {
  what: 'generating' | 'tool' | 'verifying';
  from_us: number;
  us: number;
}

/** A step on a time axis that begins with it. */
export interface Timeline {
  step: number;
  total_us: number;
  has_starts: boolean;
  part_us: number;
  generating: number[];
  tools: number[];
  verifying: number[];
  trainer: { what: string; from_us: number; us: number }[];
  episodes_at_once: number;
  tail_us: number;
  all_episodes: number;
  episodes: { group: number; sample: number; right: boolean; from_us: number; us: number; activities: Activity[] }[];
  notices: string[];
}

export interface Suites {
  suites: { name: string; evaluations: { step: number; numbers: Record<string, number> }[] }[];
  notices: string[];
}

export interface Matrix {
  steps: number[];
  tasks: { task: string; answer: string; problem: string; cells: ([number, number, number] | null)[] }[];
  notices: string[];
}

/** What is new of a run, as the server saw it last. */
export interface Look {
  state: string;
  generation: number;
  lines: number;
  step: number | null;
  episode_steps: number;
  last_episode_step: number | null;
  evaluations: number;
  events: number;
  survey: Progress;
  sandbox_ms: number | null;
}

/** Changes when a run's steps may be others than they were: one came, or was made again. */
export function stepsMark(look: Look | null): string {
  return look ? `${look.generation}:${look.lines}:${look.episode_steps}` : 'still';
}

export function api(...parts: (string | number)[]): string {
  return '/api/' + parts.map((part) => encodeURIComponent(part)).join('/');
}

export async function ask<T>(address: string, options?: RequestInit): Promise<T> {
  const response = await fetch(address, options);
  if (!response.ok) throw new Error(await told(response));
  return (await response.json()) as T;
}

/** What an answer that is a failure says. */
export async function told(response: Response): Promise<string> {
  const text = await response.text();
  const status = `${response.status} ${response.statusText}`;
  try {
    return (JSON.parse(text) as { error?: string }).error ?? status;
  } catch {
    // An answer of something between here and the server.
    return status;
  }
}

export function send<T>(method: string, address: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const headers = { 'content-type': 'application/json' };
  return ask<T>(address, { method, headers, body: JSON.stringify(body), ...(signal ? { signal } : {}) });
}

export interface Loaded<T> {
  data: T | null;
  error: string | null;
  loading: boolean;
}

/**
 * Asks for `address`, again when it or `version` changes. What was there stays until the answer; that of another
 * address only where the view `keeps` it, since it says itself what it shows.
 */
export function useLoad<T>(address: string | null, version?: unknown, keeps = false): Loaded<T> {
  const [loaded, set] = useState<Loaded<T>>({ data: null, error: null, loading: true });
  const shown = useRef<string | null>(null);
  // Before the picture is drawn, so that the question is on its way meanwhile.
  useLayoutEffect(() => {
    if (address === null) return;
    const abort = new AbortController();
    // Another address is another thing: the old one must not stand under its name.
    if (shown.current !== address) set((old) => ({ data: keeps ? old.data : null, error: null, loading: true }));
    shown.current = address;
    ask<T>(address, { signal: abort.signal })
      .then((data) => {
        if (!abort.signal.aborted) set({ data, error: null, loading: false });
      })
      .catch((error: Error) => {
        if (!abort.signal.aborted) set((old) => ({ data: old.data, error: error.message, loading: false }));
      });
    return () => abort.abort();
  }, [address, version]);
  return loaded;
}

/** All rows of a run's metrics; only new ones are asked for. */
export function useCurves(run: string | null, version: unknown): Loaded<Curves> {
  const [loaded, set] = useState<Loaded<Curves>>({ data: null, error: null, loading: true });
  const known = useRef<{ run: string | null; curves: Curves | null }>({ run: null, curves: null });
  useEffect(() => {
    if (run === null) return;
    if (known.current.run !== run) {
      known.current = { run, curves: null };
      set({ data: null, error: null, loading: true });
    }
    const abort = new AbortController();
    const have = known.current.curves;
    const rows = have?.kinds.map((kind) => `${kind.kind}:${kind.rows.steps.length}`).join(',');
    const query = have ? `?generation=${have.generation}&rows=${encodeURIComponent(rows ?? '')}` : '';
    ask<Curves>(api('runs', run, 'curves') + query, { signal: abort.signal })
      .then((fresh) => {
        if (abort.signal.aborted) return;
        const curves = joined(have, fresh);
        known.current = { run, curves };
        set({ data: curves, error: null, loading: false });
      })
      .catch((error: Error) => {
        if (!abort.signal.aborted) set((old) => ({ data: old.data, error: error.message, loading: false }));
      });
    return () => abort.abort();
  }, [run, version]);
  return loaded;
}

function joined(have: Curves | null, fresh: Curves): Curves {
  if (!have || have.generation !== fresh.generation) return fresh;
  const kinds = fresh.kinds.map((part) => {
    const old = have.kinds.find((kind) => kind.kind === part.kind);
    if (!old || part.first === 0) return part;
    const columns: Record<string, (number | null)[]> = {};
    const empty = old.rows.steps.map(() => null);
    for (const [name, values] of Object.entries(part.rows.columns)) {
      columns[name] = [...(old.rows.columns[name] ?? empty), ...values];
    }
    return { kind: part.kind, first: 0, rows: { steps: [...old.rows.steps, ...part.rows.steps], columns } };
  });
  return { ...fresh, kinds };
}

export function rowsOf(curves: Curves | null, kind: string): Rows | null {
  return curves?.kinds.find((one) => one.kind === kind)?.rows ?? null;
}
