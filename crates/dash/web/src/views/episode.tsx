// One episode: what was asked, written, run and judged; and its tokens with all that is known of each.

import { useEffect, useState } from 'preact/hooks';
import { api, stepsMark, useLoad, type Call, type Episode, type Look, type Matrix, type Step, type Token, type Tokens } from '../api';
import { bytes, cause, duration, number, words } from '../format';
import { Python } from '../highlight';
import { clipped, ratio } from '../learned';
import { Copy, Facts, Mark, Outcome, Show } from '../parts';
import { path, setQuery } from '../route';

type Place = { step: number; group: number } | { suite: string; step: number; task: number };

function parts(run: string, place: Place, sample: number): (string | number)[] {
  return 'group' in place
    ? ['runs', run, 'steps', place.step, 'groups', place.group, 'episodes', sample]
    : ['runs', run, 'evaluations', place.suite, place.step, 'tasks', place.task, 'episodes', sample];
}

/** The samples of the same task that stand before and behind this one; a lost one is not there. */
function useNeighbours(run: string, place: Place, sample: number, version: string): { before: number | undefined; behind: number | undefined } {
  const isStep = 'group' in place;
  const group = useLoad<Step>(isStep ? api('runs', run, 'steps', place.step, 'groups', place.group) : null, version);
  const matrix = useLoad<Matrix>(isStep ? null : api('runs', run, 'evaluations', place.suite), version);
  if (isStep) {
    const samples = group.data?.groups[0]?.episodes.map((card) => card.sample) ?? [];
    return { before: samples.findLast((one) => one < sample), behind: samples.find((one) => one > sample) };
  }
  const column = matrix.data?.steps.indexOf(place.step) ?? -1;
  const cell = matrix.data?.tasks.map((task) => task.cells[column]).find((one) => one?.[0] === place.task);
  return { before: sample > 0 ? sample - 1 : undefined, behind: cell && sample + 1 < cell[2] ? sample + 1 : undefined };
}

/** What the address asks for beyond one episode: its own tokens are not another's. */
function kept(): string {
  const query = new URLSearchParams(location.search);
  ['first', 'token'].forEach((name) => query.delete(name));
  return query.size > 0 ? `?${query}` : '';
}

export function EpisodeView({ run, place, sample, query, look }: { run: string; place: Place; sample: number; query: URLSearchParams; look: Look | null }) {
  const address = parts(run, place, sample);
  const version = 'group' in place ? stepsMark(look) : String(look?.evaluations ?? 'still');
  const loaded = useLoad<Episode>(api(...address), version);
  const { before, behind } = useNeighbours(run, place, sample, version);
  const tab = query.get('view') === 'tokens' ? 'tokens' : 'transcript';
  return (
    <>
      <h1>
        Sample {sample} <span class="muted">of</span> {loaded.data?.task ?? ''}
      </h1>
      <p class="muted">
        {'group' in place ? (
          <>
            <a href={path('runs', run, 'steps', place.step)}>step {place.step}</a>, <a href={path('runs', run, 'steps', place.step, 'groups', place.group)}>group {place.group}</a>
          </>
        ) : (
          <>
            <a href={path('runs', run, 'evaluations', place.suite)}>{place.suite}</a> after step {place.step}, task {place.task}
          </>
        )}
        {' · '}
        {before !== undefined && <a rel="prev" href={path(...parts(run, place, before)) + kept()}>← previous</a>}{' '}
        {behind !== undefined && <a rel="next" href={path(...parts(run, place, behind)) + kept()}>next →</a>}
      </p>
      <Show of={loaded}>
        {(episode) => (
          <>
            <Summary episode={episode} />
            <div class="tabs" role="tablist">
              {['transcript', 'tokens'].map((name) => (
                <button key={name} type="button" role="tab" aria-selected={tab === name} onClick={() => setQuery({ view: name === 'tokens' ? name : null })}>
                  {name}
                </button>
              ))}
            </div>
            {!episode.has_text && <p class="notices">{episode.vocabulary_notice ?? 'The run has saved no tokenizer yet'}: tokens are shown by their numbers.</p>}
            {tab === 'tokens' ? <TokensTab address={api(...address, 'tokens')} version={version} query={query} /> : <Transcript episode={episode} />}
          </>
        )}
      </Show>
    </>
  );
}

function Summary({ episode }: { episode: Episode }) {
  const { timing, penalties } = episode;
  const rest = Math.max(0, timing.total_us - timing.generating_us - timing.tools_us);
  return (
    <section class="summary">
      <p>
        <Mark verdict={episode.verdict.kind} />{' '}
        {episode.kept !== null && <span class={episode.kept ? 'chip used' : 'chip'}>{episode.kept ? 'kept' : 'dropped'}</span>} {episode.cause && <span>{cause(episode.cause)}. </span>}
        Answer found: <strong>{episode.verdict.answer ?? 'none'}</strong>; right is <strong>{episode.answer}</strong>. <span class="muted">{episode.verdict.explanation}</span>
      </p>
      <Facts
        all={[
          ['reward', number(episode.reward)],
          ['advantage', episode.advantage === null ? '–' : number(episode.advantage)],
          ['p_err', number(penalties?.tool_errors)],
          ['p_format', number(penalties?.answer_format)],
          ['ended by', words(episode.finish)],
          ['tokens', `${episode.response_tokens} (${episode.policy_tokens} sampled) after ${episode.prompt_tokens}`],
          ['weights', episode.weight_versions.map(([version]) => version).join(', ') || '–'],
          ['time', `${duration(timing.total_us)}: ${duration(timing.generating_us)} generating, ${duration(timing.tools_us)} tools, ${duration(rest)} else`],
        ]}
      />
      <p class="row">
        <span>open in replay:</span> <code>{episode.replay}</code> <Copy text={episode.replay} />
      </p>
    </section>
  );
}

function Transcript({ episode }: { episode: Episode }) {
  return (
    <ol class="transcript">
      <li class="turn prompt">
        <h2>problem</h2>
        <pre class="text">{episode.problem || '(none)'}</pre>
        <details>
          <summary>whole prompt, {episode.prompt_tokens} tokens</summary>
          <pre class="text">{episode.prompt}</pre>
        </details>
      </li>
      {episode.turns.map((turn, at) => (
        <li class="turn policy" key={at}>
          <h2>
            turn {at + 1}{' '}
            <span class="muted">
              {turn.policy_tokens} tokens{turn.answer_tags > 0 ? `, ${turn.answer_tags} answer ${turn.answer_tags === 1 ? 'tag' : 'tags'}` : ''}
            </span>
          </h2>
          <pre class="text">{turn.text}</pre>
          {turn.calls.map((call, index) => (
            <ToolCall key={index} call={call} />
          ))}
        </li>
      ))}
      <li class="turn verdict">
        <h2>verdict</h2>
        <p>
          <Mark verdict={episode.verdict.kind} /> {episode.verdict.explanation}
        </p>
      </li>
    </ol>
  );
}

function ToolCall({ call }: { call: Call }) {
  const { outcome } = call;
  const detail = outcome.message ?? outcome.name ?? outcome.what ?? (outcome.code === undefined ? null : String(outcome.code));
  return (
    <div class={`call ${outcome.kind === 'ok' ? 'ok' : 'bad'}`}>
      <div class="call-head">
        <strong>{call.tool || 'no tool named'}</strong> <Outcome kind={outcome.kind} detail={detail} />
        <span class="muted">
          wall {duration(call.wall_us)} · CPU {duration(call.cpu_us)} · memory {bytes(call.memory_bytes)}
        </span>
        {call.isolation.length > 0 && (
          <details class="inline">
            <summary>isolated by {call.isolation.length} layers</summary>
            {call.isolation.map(words).join(', ')}
          </details>
        )}
      </div>
      <div class="call-body">
        <div>
          <h3>program</h3>
          {call.program ? <Python code={call.program} /> : <p class="muted">nothing ran</p>}
          {call.input && (
            <>
              <h3>input</h3>
              <pre class="code">{call.input}</pre>
            </>
          )}
        </div>
        <div>
          <h3>what the model was shown{call.cut_tokens > 0 ? `, ${call.cut_tokens} tokens cut` : ''}</h3>
          <pre class="code">{call.shown || detail || '(nothing)'}</pre>
        </div>
      </div>
    </div>
  );
}

const PAGE = 1500;
type ColorBy = 'author' | 'probability' | 'ratio' | 'advantage';

function TokensTab({ address, version, query }: { address: string; version: string; query: URLSearchParams }) {
  const first = Number(query.get('first') ?? 0);
  const loaded = useLoad<Tokens>(`${address}?first=${first}&count=${PAGE}`, version);
  const by = (query.get('color') ?? 'author') as ColorBy;
  return (
    <Show of={loaded}>
      {(data) => (
        <>
          <div class="row controls">
            <label>
              colour by{' '}
              <select value={by} onChange={(event) => setQuery({ color: event.currentTarget.value === 'author' ? null : event.currentTarget.value })}>
                <option value="author">author</option>
                <option value="probability">probability when sampled</option>
                <option value="ratio">ratio now / then</option>
                <option value="advantage">what it is worth</option>
              </select>
            </label>
            <TokenLegend by={by} />
            {first > 0 && <button type="button" onClick={() => setQuery({ first: String(Math.max(0, first - PAGE)), token: null })}>earlier</button>}
            {first + data.tokens.length < data.all && <button type="button" onClick={() => setQuery({ first: String(first + PAGE), token: null })}>later</button>}
          </div>
          {data.clip === null && data.tokens.some((token) => token.now !== null) && (
            <p class="muted">Neither ratios nor what was clipped are shown: this run's loss does not clip each token's ratio to what was sampled, or its recipe does not tell.</p>
          )}
          <TokenList key={first} data={data} by={by} query={query} />
        </>
      )}
    </Show>
  );
}

/** The tokens, of which one is chosen, by a click or by keys, and another may be pointed at. */
function TokenList({ data, by, query }: { data: Tokens; by: ColorBy; query: URLSearchParams }) {
  const asked = query.get('token');
  const [chosen, choose] = useState<number | null>(asked === null ? null : Number(asked) - data.first);
  const [pointed, point] = useState<number | null>(null);
  const at = pointed ?? chosen;
  const token = at === null ? undefined : data.tokens[at];
  const isThere = chosen !== null && data.tokens[chosen] !== undefined;
  const keep = (index: number) => setQuery({ token: String(data.first + index) });
  useEffect(() => {
    if (isThere) document.getElementById(`token-${chosen}`)?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const onKey = (event: KeyboardEvent) => {
    const last = data.tokens.length - 1;
    const next = { ArrowRight: (chosen ?? -1) + 1, ArrowLeft: (chosen ?? 1) - 1, Home: 0, End: last }[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    point(null);
    choose(Math.min(last, Math.max(0, next)));
  };
  return (
    <div class="token-view">
      <div
        class={`tokens by-${by}`}
        role="listbox"
        aria-label="Tokens"
        aria-activedescendant={isThere ? `token-${chosen}` : undefined}
        tabIndex={0}
        onKeyDown={onKey}
        // A key that is held down would write the address at each repetition.
        onKeyUp={() => chosen !== null && keep(chosen)}
        onPointerLeave={() => point(null)}
      >
        {data.tokens.map((one, index) => (
          <span
            key={index}
            id={`token-${index}`}
            role="option"
            aria-selected={index === chosen}
            class={`token ${color(one, by, data)}${index === at ? ' on' : ''}`}
            onPointerEnter={() => point(index)}
            onClick={() => {
              choose(index);
              keep(index);
            }}
          >
            {one.text.replaceAll('\n', '⏎\n')}
          </span>
        ))}
      </div>
      <aside class="token-facts" aria-live={pointed === null ? 'polite' : 'off'}>
        {token ? <TokenFacts token={token} at={data.first + (at ?? 0)} data={data} /> : <p class="muted">Point at a token, or use the arrow keys.</p>}
      </aside>
    </div>
  );
}

function color(token: Token, by: ColorBy, data: Tokens): string {
  if (by === 'author' || token.author !== 'policy') return token.special ? `a-${token.author} special` : `a-${token.author}`;
  if (by === 'probability') {
    const p = Math.exp(token.model ?? 0);
    return p > 0.9 ? 'p4' : p > 0.6 ? 'p3' : p > 0.3 ? 'p2' : p > 0.1 ? 'p1' : 'p0';
  }
  if (by === 'advantage') return data.advantage === null ? 'w0' : data.advantage > 0 ? 'w-up' : 'w-down';
  const value = ratio(token, data);
  if (value === null) return 'w0';
  if (['above', 'below'].includes(clipped(token, data) ?? 'no')) return 'w-clip';
  return value > 1.02 ? 'w-up' : value < 0.98 ? 'w-down' : 'w0';
}

function TokenLegend({ by }: { by: ColorBy }) {
  const keys: Record<ColorBy, [string, string][]> = {
    author: [['a-policy', 'policy'], ['a-tool', 'tool'], ['a-template', 'template'], ['a-prompt', 'prompt']],
    probability: [['p4', '> 0.9'], ['p3', '> 0.6'], ['p2', '> 0.3'], ['p1', '> 0.1'], ['p0', 'less']],
    ratio: [['w-up', 'likelier now'], ['w-down', 'less likely now'], ['w-clip', 'clipped'], ['w0', 'same, or not recorded']],
    advantage: [['w-up', 'made likelier'], ['w-down', 'made less likely'], ['w0', 'not learned from']],
  };
  return (
    <span class="token-legend">
      {keys[by].map(([name, text]) => (
        <span key={name} class={`token ${name}`}>
          {text}
        </span>
      ))}
    </span>
  );
}

function TokenFacts({ token, at, data }: { token: Token; at: number; data: Tokens }) {
  const value = ratio(token, data);
  const of = token.author === 'policy';
  const log = (it: number | null) => (it === null ? 'not recorded' : `${it.toFixed(4)} (p = ${number(Math.exp(it))})`);
  return (
    <Facts
      all={[
        ['token', <code key="t">{JSON.stringify(token.text)}</code>],
        ['place', `${at} of ${data.all}`],
        ['id', String(token.id)],
        ['author', token.author + (token.special ? ', control token' : '')],
        ['mask', of ? (data.advantage === null ? '1 (its episode is not learned from)' : '1: learned from') : '0: not sampled by the policy'],
        ...(of
          ? ([
              ['turn', token.turn === null ? '–' : String(token.turn + 1)],
              ['weights', token.weights === null ? '–' : `version ${token.weights}`],
              ['log-prob then', log(token.sampled)],
              ['then, temperature 1', log(token.model)],
              ['log-prob now', log(token.now)],
              ['ratio', value === null ? '–' : number(value)],
              ['clipped', clipped(token, data) ?? '–'],
              ['advantage', data.advantage === null ? '–' : number(data.advantage)],
            ] as [string, string][])
          : []),
      ]}
    />
  );
}
