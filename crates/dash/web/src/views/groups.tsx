// The groups of a step and the episodes of a group: who was kept, who was dropped, and why.

import { api, stepsMark, useLoad, type Card, type Choice, type Group, type Look, type RunDetail, type Step } from '../api';
import { cause, duration, number, plural, words } from '../format';
import { Mark, Notices, Outcome, Show } from '../parts';
import { go, path, setQuery } from '../route';
import { useWhatIf, WhatIfPanel } from './what-if';

/** The newest step's groups where none is named. */
export function StepView({ run, step, query, look }: { run: string; step: number | null; query: URLSearchParams; look: Look | null }) {
  const detail = useLoad<RunDetail>(api('runs', run), look?.episode_steps);
  const steps = detail.data?.episode_steps ?? [];
  const shown = step ?? steps[steps.length - 1] ?? null;
  const loaded = useLoad<Step>(shown === null ? null : api('runs', run, 'steps', shown), stepsMark(look), true);
  const only = query.get('only') ?? 'all';
  const what = useWhatIf(run, loaded.data, null, query);
  if (shown === null) {
    return <p class="muted">{detail.loading ? 'reading …' : 'There are no episodes yet.'}</p>;
  }
  return (
    <>
      <h1>
        Step {loaded.data?.step ?? shown} <span class="muted">{look && look.last_episode_step !== null && `of ${look.last_episode_step}`}</span>
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
  const loaded = useLoad<Step>(api('runs', run, 'steps', step, 'groups', group), stepsMark(look));
  const what = useWhatIf(run, loaded.data, group, query);
  const sort = query.get('sort') ?? 'sample';
  return (
    <Show of={loaded}>
      {(data) => {
        const shown = data.groups[0];
        if (!shown) return null;
        const choice = what.is_own ? undefined : what.answer?.groups.find((one) => one.number === group);
        const cards = [...shown.episodes].sort(order(sort));
        return (
          <>
            <h1>{shown.task}</h1>
            <p class="muted">
              <a href={path('runs', run, 'steps', step)}>step {step}</a>, group {group} ·{' '}
              {group > 0 && <a rel="prev" href={path('runs', run, 'steps', step, 'groups', group - 1)}>← previous</a>}{' '}
              {group + 1 < data.all_groups && <a rel="next" href={path('runs', run, 'steps', step, 'groups', group + 1)}>next →</a>}
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
