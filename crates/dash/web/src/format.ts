// Numbers and names as people read them.

export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  return String(Number(value.toPrecision(4)));
}

export function share(value: number | null | undefined): string {
  return value === null || value === undefined || Number.isNaN(value) ? '–' : `${(100 * value).toFixed(1)} %`;
}

/** A number by the unit that the registry gives for it. */
export function inUnit(value: number | null | undefined, unit: string): string {
  if (unit === 'share') return share(value);
  const text = number(value);
  return unit === 's' ? `${text} s` : text;
}

export function duration(us: number): string {
  if (us < 1_000) return `${us} µs`;
  if (us < 1_000_000) return `${(us / 1_000).toFixed(us < 10_000 ? 1 : 0)} ms`;
  return `${(us / 1_000_000).toFixed(2)} s`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return 'not known';
  if (value < 1024) return `${value} B`;
  if (value < 1 << 20) return `${(value / 1024).toFixed(0)} KiB`;
  if (value < 1 << 30) return `${(value / (1 << 20)).toFixed(1)} MiB`;
  return `${(value / (1 << 30)).toFixed(2)} GiB`;
}

export function ago(ms: number | null): string {
  if (ms === null) return '';
  const seconds = Math.max(0, (Date.now() - ms) / 1000);
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129_600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

export function words(name: string): string {
  return name.replaceAll('_', ' ');
}

const CAUSES: Record<string, string> = {
  all_right: 'every rollout was right: nothing to compare',
  all_wrong: 'every rollout was wrong: nothing to compare',
  kept_alike: 'those that would be kept are all right or all wrong',
  group_too_small: 'too few rollouts came to an episode',
  wrong_not_drawn: 'a wrong rollout that the draw passed over',
  right_not_drawn: 'a right rollout that the draw, weighted against its flaws, passed over',
  surplus: 'beyond the number that is kept',
};

/** What a cause means; the cause itself where it is none that is known here. */
export function cause(name: string | null): string {
  if (name === null) return '';
  return CAUSES[name] ?? words(name);
}

export function plural(count: number, one: string, many = one + 's'): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}
