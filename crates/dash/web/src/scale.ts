// What a chart computes: smoothing, thinning, round numbers for its axes, and how far it is zoomed.

/** Exponential smoothing that corrects its start, so that the first points are no outliers. */
export function smoothed(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let [sum, norm] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

/** At most two points a pixel: the lowest and the highest, so that no peak is lost. */
export function thinned(x: number[], y: (number | null)[], most: number): [number, number][] {
  const points: [number, number][] = [];
  for (let at = 0; at < x.length; at += 1) {
    const value = y[at];
    if (value !== null && value !== undefined) points.push([x[at]!, value]);
  }
  if (points.length <= 2 * most) return points;
  const each = Math.ceil(points.length / most);
  const thin: [number, number][] = [];
  for (let from = 0; from < points.length; from += each) {
    const part = points.slice(from, from + each);
    const low = part.reduce((best, point) => (point[1] < best[1] ? point : best));
    const high = part.reduce((best, point) => (point[1] > best[1] ? point : best));
    thin.push(...(low[0] < high[0] ? [low, high] : low === high ? [low] : [high, low]));
  }
  return thin;
}

/** Round numbers from `low` to `high`, about `count` of them. */
export function ticks(low: number, high: number, count: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const first = Math.ceil(low / step);
  const all = new Set<number>();
  // Counted, and never added up: beside a large number a small step is lost, and its end never comes.
  for (let index = 0; index <= 2 * count + 2; index += 1) {
    const at = (first + index) * step;
    if (at > high + step * 1e-9) break;
    all.add(Number(at.toPrecision(12)));
  }
  return [...all];
}

export type Range = [low: number, high: number];

/** The least part of all there is that is still zoomed into. */
const LEAST_PART = 1e-6;

/** `range` as it can be shown of `whole`: null is all of it, and undefined that it is too small a part. */
export function zoomed(range: Range, whole: Range): Range | null | undefined {
  const [low, high] = [Math.max(range[0], whole[0]), Math.min(range[1], whole[1])];
  if (range[0] <= whole[0] && range[1] >= whole[1]) return null;
  return high > low && high - low >= LEAST_PART * (whole[1] - whole[0]) ? [low, high] : undefined;
}

/** A range as an address tells it; null where it tells none. */
export function rangeFrom(text: string | null): Range | null {
  const [low, high, ...more] = (text ?? '').split('~').map((part) => (part.trim() === '' ? NaN : Number(part)));
  if (low === undefined || high === undefined || more.length > 0) return null;
  return Number.isFinite(low) && Number.isFinite(high) && low < high ? [low, high] : null;
}

/** As an address tells it. */
export function rangeText(range: Range | null): string | null {
  return range === null ? null : range.map((end) => String(Number(end.toPrecision(9)))).join('~');
}

/** Index of the value of `all`, which rise, that `x` is next to. */
export function nearest(all: number[], x: number): number {
  let [low, high] = [0, all.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle]! < x) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && Math.abs(all[low - 1]! - x) <= Math.abs(all[low]! - x)) low -= 1;
  return low;
}
