// The groups of a step and the episodes of a group: who was kept, who was dropped, and why; and what
// other settings would have kept.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { api, send, useLoad, type Card, type Choice, type Group, type Look, type RunDetail, type Selection, type Step, type Summary, type WhatIf } from '../api';
import { cause, duration, number, plural, share, words } from '../format';
import { Mark, Notices, Outcome, Show } from '../parts';
import { go, path, setQuery } from '../route';

const DEFAULT: Selection = { mode: 'paper', keep: 16, epsilon: 0.05, released_minimum: 2 };

/** The newest step's groups where none is named. */
export function StepView({ run, step, query, look }: { run: string; step: number | null; query: URLSearchParams; look: Look | null }) {
  const detail = useLoad<RunDetail>(api('runs', run), look?.episode_steps);
  const steps = detail.data?.episode_steps ?? [];
  const shown = step ?? steps[steps.length - 1] ?? null;
  const loaded = useLoad<Step>(shown === null ? null : api('runs', run, 'steps', shown));
  const only = query.get('only') ?? 'all';
  const what = useWhatIf(run, loaded.data, null, query);
  if (shown === null) {
    return <p class="muted">{detail.loading ? 'reading …' : 'There are no episodes yet.'}</p>;
  }
  return (
    <>
      <h1>
        Step {shown} <span class="muted">{look && look.last_episode_step !== null && `of ${look.last_episode_step}`}</span>
      </h1>
      <Show of={loaded}>
        {(data) => (
          <>
            <div class="row controls">
              <StepLinks run={run} data={data} all={steps} />
              <label>
                groups{' '}
                <select value={only} onChange={(event) => setQuery({ only: event.currentTarget.value === 'all' ? null : event.currentTarget.value })}>
                  <option value="all">all</option>
                  <option value="used">learned from</option>
                  <option value="dropped">not learned from</option>
                  <option value="errors">with tool errors</option>
                  <option value="changed">that other settings change</option>
                </select>
              </label>
            </div>
            <Notices all={data.notices} />
            <WhatIfPanel what={what} own={data.selection} most={Math.max(2, ...data.groups.map((group) => group.episodes.length))} />
            <PipLegend />
            <ul class="groups">
              {data.groups.map((group) => {
                const choice = what.answer?.groups.find((one) => one.number === group.number);
                return fits(group, only, choice) ? <Row key={group.number} run={run} step={data.step} group={group} choice={what.is_own ? undefined : choice} /> : null;
              })}
            </ul>
          </>
        )}
      </Show>
    </>
  );
}

function fits(group: Group, only: string, choice: Choice | undefined): boolean {
  switch (only) {
    case 'used':
      return group.verdict.kind === 'used';
    case 'dropped':
      return group.verdict.kind !== 'used';
    case 'errors':
      return group.episodes.some((card) => card.calls.some((call) => call.kind !== 'ok'));
    case 'changed':
      return choice !== undefined && choice.gained.length + choice.lost.length > 0;
    default:
      return true;
  }
}

function StepLinks({ run, data, all }: { run: string; data: Step; all: number[] }) {
  const keep = location.search;
  return (
    <span class="row">
      {data.previous !== null ? <a class="button" rel="prev" href={path('runs', run, 'steps', data.previous) + keep}>← {data.previous}</a> : <span class="button off">←</span>}
      {data.next !== null ? <a class="button" rel="next" href={path('runs', run, 'steps', data.next) + keep}>{data.next} →</a> : <span class="button off">→</span>}
      <label>
        step{' '}
        <input
          type="range"
          min="0"
          max={Math.max(0, all.length - 1)}
          value={all.indexOf(data.step)}
          aria-valuetext={`step ${data.step}`}
          onChange={(event) => go(path('runs', run, 'steps', all[Number(event.currentTarget.value)] ?? data.step) + keep)}
        />
      </label>
    </span>
  );
}

function PipLegend() {
  return (
    <p class="muted pip-legend">
      <span class="pip right kept">✓</span> right, kept <span class="pip right dropped">✓</span> right, dropped{' '}
      <span class="pip wrong kept">✗</span> wrong, kept <span class="pip wrong dropped">✗</span> wrong, dropped; a bar below: a tool call failed
    </p>
  );
}

function Row({ run, step, group, choice }: { run: string; step: number; group: Group; choice: Choice | undefined }) {
  const used = group.verdict.kind === 'used';
  return (
    <li class="group">
      <div class="group-head">
        <a href={path('runs', run, 'steps', step, 'groups', group.number)}>{group.task}</a>
        <span class={used ? 'chip used' : 'chip'} title={used ? '' : cause(group.verdict.why ?? null)}>
          {used ? 'learned from' : words(group.verdict.why ?? 'dropped')}
        </span>
        <span class="muted">
          {group.right}/{group.episodes.length} right, answer {group.answer}
        </span>
        {choice && choice.gained.length + choice.lost.length > 0 && <span class="chip changed">{choice.gained.length} in, {choice.lost.length} out</span>}
      </div>
      <div class="problem">{group.problem}</div>
      <div class="pips">
        {group.episodes.map((card) => (
          <Pip key={card.sample} card={card} choice={choice} href={path('runs', run, 'steps', step, 'groups', group.number, 'episodes', card.sample)} />
        ))}
        {group.lost.map((lost) => (
          <span key={lost.sample} class="pip lost" title={`sample ${lost.sample} lost: ${lost.cause.what ?? lost.cause.why ?? ''}`}>
            !
          </span>
        ))}
      </div>
    </li>
  );
}

function Pip({ card, choice, href }: { card: Card; choice: Choice | undefined; href: string }) {
  const right = card.verdict === 'right';
  const failed = card.calls.filter((call) => call.kind !== 'ok').length;
  const kept = choice ? choice.kept.some(([sample]) => sample === card.sample) : card.kept;
  const changed = choice && kept !== card.kept ? (kept ? ' gained' : ' out') : '';
  const text = `sample ${card.sample}: ${card.verdict}, ${kept ? 'kept' : 'dropped'}${card.cause ? ` (${words(card.cause)})` : ''}, ${plural(card.calls.length, 'call')}, ${failed} failed`;
  return (
    <a class={`pip ${right ? 'right' : 'wrong'} ${kept ? 'kept' : 'dropped'}${failed ? ' failed' : ''}${changed}`} href={href} title={text} aria-label={text}>
      {right ? '✓' : '✗'}
    </a>
  );
}

export function GroupView({ run, step, group, query, look }: { run: string; step: number; group: number; query: URLSearchParams; look: Look | null }) {
  const loaded = useLoad<Step>(api('runs', run, 'steps', step, 'groups', group));
  const what = useWhatIf(run, loaded.data, group, query);
  const sort = query.get('sort') ?? 'sample';
  void look;
  return (
    <Show of={loaded}>
      {(data) => {
        const shown = data.groups[0];
        if (!shown) return null;
        const choice = what.is_own ? undefined : what.answer?.groups[0];
        const cards = [...shown.episodes].sort(order(sort));
        return (
          <>
            <h1>{shown.task}</h1>
            <p class="muted">
              <a href={path('runs', run, 'steps', step)}>step {step}</a>, group {group} ·{' '}
              {group > 0 && <a rel="prev" href={path('runs', run, 'steps', step, 'groups', group - 1)}>← previous</a>}{' '}
              <a rel="next" href={path('runs', run, 'steps', step, 'groups', group + 1)}>next →</a>
            </p>
            <p class="problem large">{shown.problem}</p>
            <p>
              Answer <strong>{shown.answer}</strong>, {shown.right} of {shown.episodes.length} right.{' '}
              {shown.verdict.kind === 'used' ? (
                <>{shown.episodes.filter((card) => card.kept).length} are learned from.</>
              ) : (
                <>None is learned from: {cause(shown.verdict.why ?? null)}.</>
              )}
            </p>
            <Notices all={[...data.notices, ...shown.lost.map((lost) => `sample ${lost.sample} came to no episode: ${lost.cause.what ?? lost.cause.why ?? lost.cause.cause}`)]} />
            <WhatIfPanel what={what} own={data.selection} most={Math.max(2, shown.episodes.length)} />
            <div class="row controls">
              <label>
                order{' '}
                <select value={sort} onChange={(event) => setQuery({ sort: event.currentTarget.value === 'sample' ? null : event.currentTarget.value })}>
                  <option value="sample">by number</option>
                  <option value="kept">kept first</option>
                  <option value="penalty">most flawed first</option>
                  <option value="length">longest first</option>
                </select>
              </label>
            </div>
            <ul class="cards">
              {cards.map((card) => (
                <EpisodeCard key={card.sample} card={card} choice={choice} href={path('runs', run, 'steps', step, 'groups', group, 'episodes', card.sample)} />
              ))}
            </ul>
          </>
        );
      }}
    </Show>
  );
}

function order(sort: string): (a: Card, b: Card) => number {
  const flaw = (card: Card) => (card.penalties ? card.penalties.tool_errors + card.penalties.answer_format : 0);
  switch (sort) {
    case 'kept':
      return (a, b) => Number(b.kept) - Number(a.kept) || a.sample - b.sample;
    case 'penalty':
      return (a, b) => flaw(b) - flaw(a) || a.sample - b.sample;
    case 'length':
      return (a, b) => b.response_tokens - a.response_tokens;
    default:
      return (a, b) => a.sample - b.sample;
  }
}

function EpisodeCard({ card, choice, href }: { card: Card; choice: Choice | undefined; href: string }) {
  const kept = choice ? choice.kept.some(([sample]) => sample === card.sample) : card.kept;
  const why = choice ? (choice.dropped.find(([sample]) => sample === card.sample)?.[1] ?? null) : card.cause;
  const advantage = choice ? (choice.kept.find(([sample]) => sample === card.sample)?.[1] ?? null) : card.advantage;
  return (
    <li class={`card ${kept ? 'kept' : 'dropped'}`}>
      <div class="card-head">
        <a href={href}>sample {card.sample}</a> <Mark verdict={card.verdict} />
        <span class={kept ? 'chip used' : 'chip'}>{kept ? 'kept' : 'dropped'}</span>
        {choice && kept !== card.kept && <span class="chip changed">{kept ? 'was dropped' : 'was kept'}</span>}
      </div>
      {why && <p class="why">{cause(why)}</p>}
      <dl class="small-facts">
        <div>
          <dt>reward</dt>
          <dd>{number(card.reward)}</dd>
        </div>
        <div>
          <dt>advantage</dt>
          <dd>{advantage === null ? '–' : number(advantage)}</dd>
        </div>
        <div>
          <dt title="failed calls over calls; 0.5 without a call">p_err</dt>
          <dd>{number(card.penalties?.tool_errors)}</dd>
        </div>
        <div>
          <dt title="answers that are missing or too many">p_format</dt>
          <dd>{number(card.penalties?.answer_format)}</dd>
        </div>
        <div>
          <dt>tokens</dt>
          <dd>{card.response_tokens}</dd>
        </div>
        <div>
          <dt>turns</dt>
          <dd>{card.turns}</dd>
        </div>
        <div>
          <dt>time</dt>
          <dd>{duration(card.timing.total_us)}</dd>
        </div>
      </dl>
      <div class="outcomes">
        {card.calls.map((call, at) => (
          <Outcome key={at} kind={call.kind} detail={call.detail} />
        ))}
        {card.calls.length === 0 && <span class="muted">no tool call</span>}
        {card.finish !== 'done' && <span class="outcome bad">{words(card.finish)}</span>}
      </div>
      <div class="muted">answer: {card.answer ?? 'none'}</div>
    </li>
  );
}

interface WhatIfState {
  settings: Selection;
  is_own: boolean;
  answer: WhatIf | null;
  error: string | null;
}

/** Asks what other settings would keep; the settings are in the address. */
function useWhatIf(run: string, step: Step | null, group: number | null, query: URLSearchParams): WhatIfState {
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
  const [state, set] = useState<{ answer: WhatIf | null; error: string | null }>({ answer: null, error: null });
  const text = JSON.stringify(settings);
  const number = step?.step ?? null;
  useEffect(() => {
    if (number === null) return;
    const abort = new AbortController();
    const body = group === null ? { selection: settings } : { selection: settings, group };
    const timer = setTimeout(() => {
      send<WhatIf>('POST', api('runs', run, 'steps', number, 'what-if'), body, abort.signal)
        .then((answer) => set({ answer, error: null }))
        .catch((error: Error) => {
          if (!abort.signal.aborted) set({ answer: null, error: error.message });
        });
    }, 40);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [run, number, group, text]);
  const answer = state.answer && state.answer.step === number ? state.answer : null;
  return { settings, is_own: text === JSON.stringify(own), answer, error: state.error };
}

function WhatIfPanel({ what, own, most }: { what: WhatIfState; own: Selection | null; most: number }) {
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
      {agrees === null && <p class="muted">The step's place in the run isn't known, so draws differ from those of training.</p>}
    </>
  );
}
