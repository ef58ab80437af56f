// A line chart: zoom by dragging, a cursor that all charts of a page share, SVG and CSV to keep.

import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { number } from './format';
import { download } from './parts';
import { nearest, smoothed, thinned, ticks, zoomed, type Range } from './scale';

export interface Line {
  name: string;
  /** Index of its colour. */
  color: number;
  x: number[];
  y: (number | null)[];
  /** Half of the error bar of each point. */
  error?: (number | null)[];
  dots?: boolean;
}

export interface ChartProps {
  title: string;
  unit: string;
  about?: string | undefined;
  range?: { lowest: number | null; highest: number | null; text: string } | null | undefined;
  lines: Line[];
  xLabel: string;
  smoothing?: number;
  zoom: Range | null;
  onZoom: (zoom: Range | null) => void;
}

const HEIGHT = 190;
const LEFT = 52;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 26;

/** The x that the pointer is at, shared by all charts. */
const cursor = { x: null as number | null, listeners: new Set<(x: number | null) => void>() };

function setCursor(x: number | null): void {
  cursor.x = x;
  cursor.listeners.forEach((listen) => listen(x));
}

function useCursor(): number | null {
  const [x, set] = useState(cursor.x);
  useEffect(() => {
    cursor.listeners.add(set);
    return () => void cursor.listeners.delete(set);
  }, []);
  return x;
}

export function Chart(props: ChartProps) {
  const { title, unit, about, range, lines, xLabel, smoothing = 0, zoom, onZoom } = props;
  const [width, setWidth] = useState(360);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const clip = useId();
  const box = useRef<HTMLDivElement>(null);
  const svg = useRef<SVGSVGElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(Math.max(200, element.clientWidth)));
    watch.observe(element);
    setWidth(Math.max(200, element.clientWidth));
    return () => watch.disconnect();
  }, []);

  const frame = useMemo(() => {
    const xs = lines.flatMap((line) => [line.x[0], line.x[line.x.length - 1]]);
    const known = xs.filter((x): x is number => x !== undefined);
    // Without points any range will do.
    const whole: Range = known.length > 0 ? [Math.min(...known), Math.max(...known)] : [0, 1];
    let [x0, x1] = zoom ?? whole;
    if (!(x1 > x0)) [x0, x1] = [x0 - 0.5, x0 + 0.5];
    const values: number[] = [];
    for (const line of lines) {
      line.y.forEach((value, at) => {
        const x = line.x[at]!;
        if (value === null || value === undefined || x < x0 || x > x1) return;
        const error = line.error?.[at] ?? 0;
        values.push(value - error, value + error);
      });
    }
    let [y0, y1] = values.length > 0 ? [values[0]!, values[0]!] : [0, 1];
    for (const value of values) {
      if (value < y0) y0 = value;
      if (value > y1) y1 = value;
    }
    if (unit === 'share' && y0 >= 0 && y1 <= 1) {
      // A share is seen against none of it, and against all of it where it comes near.
      y0 = 0;
      y1 = y1 > 0.6 ? 1 : y1 * 1.15 || 0.1;
    } else {
      const pad = (y1 - y0) * 0.06 || Math.abs(y0) * 0.1 || 1;
      [y0, y1] = [y0 - pad, y1 + pad];
    }
    return { x0, x1, y0, y1, whole };
  }, [lines, zoom, unit]);

  const { x0, x1, y0, y1, whole } = frame;
  const inner = width - LEFT - RIGHT;
  const toX = (x: number) => LEFT + ((x - x0) / (x1 - x0)) * inner;
  const toY = (y: number) => TOP + (1 - (y - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
  const fromPixel = (pixel: number) => x0 + ((pixel - LEFT) / inner) * (x1 - x0);
  const at = (event: PointerEvent) => {
    const left = svg.current?.getBoundingClientRect().left ?? 0;
    return Math.min(x1, Math.max(x0, fromPixel(event.clientX - left)));
  };

  const drawn = useMemo(
    () =>
      lines.map((line) => {
        const path = (values: (number | null)[]) =>
          thinned(line.x, values, inner)
            .map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`)
            .join('');
        return { line, raw: path(line.y), smooth: smoothing > 0 ? path(smoothed(line.y, smoothing)) : null };
      }),
    [lines, smoothing, width, frame],
  );

  const zoomTo = (range: Range) => {
    const next = zoomed(range, whole);
    if (next !== undefined) onZoom(next);
  };
  const zoomBy = (factor: number) => {
    const middle = cursor.x !== null && cursor.x >= x0 && cursor.x <= x1 ? cursor.x : (x0 + x1) / 2;
    zoomTo([middle - (middle - x0) * factor, middle + (x1 - middle) * factor]);
  };
  const onKey = (event: KeyboardEvent) => {
    const steps = (x1 - x0) / 40;
    if (event.key === 'ArrowLeft') setCursor(Math.max(x0, (cursor.x ?? x1) - steps));
    else if (event.key === 'ArrowRight') setCursor(Math.min(x1, (cursor.x ?? x0) + steps));
    else if (event.key === '+' || event.key === '=') zoomBy(0.5);
    else if (event.key === '-') zoomBy(2);
    else if (event.key === '0') onZoom(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const saveSvg = () => {
    const copy = svg.current?.cloneNode(true) as SVGSVGElement | undefined;
    if (!copy || !svg.current) return;
    copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    // Styles of the page are written out, since the file has none.
    const [from, to] = [svg.current.querySelectorAll('*'), copy.querySelectorAll('*')];
    from.forEach((element, index) => {
      const style = getComputedStyle(element);
      for (const name of ['stroke', 'fill', 'stroke-width', 'stroke-dasharray', 'opacity', 'font-size']) {
        to[index]?.setAttribute(name, style.getPropertyValue(name));
      }
      to[index]?.setAttribute('font-family', 'sans-serif');
    });
    download(`${title}.svg`, 'image/svg+xml', new XMLSerializer().serializeToString(copy));
  };
  const saveCsv = () => {
    const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
    const rows = lines.flatMap((line) => line.x.map((x, index) => `${quote(line.name)},${x},${line.y[index] ?? ''}`));
    download(`${title}.csv`, 'text/csv', [`line,${xLabel},${title}`, ...rows].join('\n') + '\n');
  };
  const label = (value: number) => (unit === 'share' ? `${Number((value * 100).toPrecision(4))} %` : number(value));

  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title" tabIndex={about ? 0 : -1}>
          {title.replaceAll('_', ' ')} <span class="muted">{unit}</span>
          {about && (
            <span class="about" role="tooltip">
              {about}
              {range && (
                <>
                  <br />
                  healthy: {range.text}
                </>
              )}
            </span>
          )}
        </span>
        <span class="chart-tools">
          {zoom && (
            <button type="button" class="small" onClick={() => onZoom(null)}>
              whole
            </button>
          )}
          <button type="button" class="small" onClick={saveSvg} aria-label={`${title} as SVG`}>
            svg
          </button>
          <button type="button" class="small" onClick={saveCsv} aria-label={`${title} as CSV`}>
            csv
          </button>
        </span>
      </figcaption>
      <div ref={box}>
        <svg
          ref={svg}
          width={width}
          height={HEIGHT}
          viewBox={`0 0 ${width} ${HEIGHT}`}
          // Attributes of SVG are told apart by case.
          tabindex={0}
          role="img"
          aria-label={`${title}: ${lines.map((line) => `${line.name} ends at ${label(line.y.findLast((y) => y !== null) ?? NaN)}`).join(', ')}`}
          onKeyDown={onKey}
          onPointerMove={(event) => {
            const x = at(event);
            setCursor(x);
            if (drag) setDrag([drag[0], x]);
          }}
          onPointerDown={(event) => {
            if (event.button === 0 && event.pointerType !== 'touch') {
              svg.current?.setPointerCapture(event.pointerId);
              setDrag([at(event), at(event)]);
            }
          }}
          onPointerUp={() => {
            if (drag && Math.abs(toX(drag[1]) - toX(drag[0])) > 8) {
              zoomTo([Math.min(...drag), Math.max(...drag)]);
            }
            setDrag(null);
          }}
          onPointerLeave={() => setCursor(null)}
          onDblClick={() => onZoom(null)}
        >
          <Healthy range={range} toY={toY} y0={y0} y1={y1} width={width} />
          {ticks(y0, y1, 4).map((value) => (
            <g key={value}>
              <line class="grid" x1={LEFT} x2={width - RIGHT} y1={toY(value)} y2={toY(value)} />
              <text class="tick" x={LEFT - 6} y={toY(value) + 4} text-anchor="end">
                {label(value)}
              </text>
            </g>
          ))}
          {ticks(x0, x1, Math.max(2, Math.floor(inner / 80))).map((value) => (
            <text class="tick" key={value} x={toX(value)} y={HEIGHT - 8} text-anchor="middle">
              {number(value)}
            </text>
          ))}
          <clipPath id={clip}>
            <rect x={LEFT - 4} y={0} width={inner + 8} height={HEIGHT - BOTTOM + 4} />
          </clipPath>
          <g clip-path={`url(#${clip})`}>
            {drawn.map(({ line, raw, smooth }) => (
              <g key={line.name} class={`c${line.color % 6}`}>
                <path class={smooth ? 'line faint' : 'line'} d={raw} />
                {smooth && <path class="line" d={smooth} />}
                {line.dots &&
                  line.x.map((x, index) => {
                    const y = line.y[index];
                    if (y === null || y === undefined) return null;
                    const error = line.error?.[index];
                    return (
                      <g key={x}>
                        {error !== null && error !== undefined && (
                          <line class="bar" x1={toX(x)} x2={toX(x)} y1={toY(y - error)} y2={toY(y + error)} />
                        )}
                        <circle class="dot" cx={toX(x)} cy={toY(y)} r={3.5} />
                      </g>
                    );
                  })}
              </g>
            ))}
            {drag && (
              <rect
                class="drag"
                x={Math.min(toX(drag[0]), toX(drag[1]))}
                width={Math.abs(toX(drag[1]) - toX(drag[0]))}
                y={TOP}
                height={HEIGHT - TOP - BOTTOM}
              />
            )}
          </g>
          <Cursor lines={lines} toX={toX} toY={toY} x0={x0} x1={x1} />
        </svg>
      </div>
      <Legend lines={lines} label={label} xLabel={xLabel} />
    </figure>
  );
}

function Healthy({
  range,
  toY,
  y0,
  y1,
  width,
}: {
  range: ChartProps['range'];
  toY: (y: number) => number;
  y0: number;
  y1: number;
  width: number;
}) {
  if (!range) return null;
  const edges = [range.lowest, range.highest].filter((edge): edge is number => edge !== null && edge > y0 && edge < y1);
  return (
    <>
      {edges.map((edge) => (
        <line key={edge} class="healthy" x1={LEFT} x2={width - RIGHT} y1={toY(edge)} y2={toY(edge)} />
      ))}
    </>
  );
}

function Cursor(props: { lines: Line[]; toX: (x: number) => number; toY: (y: number) => number; x0: number; x1: number }) {
  const { lines, toX, toY, x0, x1 } = props;
  const x = useCursor();
  if (x === null || x < x0 || x > x1) return null;
  return (
    <g class="cursor">
      <line x1={toX(x)} x2={toX(x)} y1={TOP} y2={HEIGHT - BOTTOM} />
      {lines.map((line) => {
        if (line.x.length === 0) return null;
        const index = nearest(line.x, x);
        const [px, py] = [line.x[index]!, line.y[index]];
        if (py === null || py === undefined || px < x0 || px > x1) return null;
        return (
          <g key={line.name} class={`c${line.color % 6}`}>
            <circle class="dot" cx={toX(px)} cy={toY(py)} r={3.5} />
          </g>
        );
      })}
    </g>
  );
}

function Legend({ lines, label, xLabel }: { lines: Line[]; label: (value: number) => string; xLabel: string }) {
  const x = useCursor();
  const drawn = lines.filter((line) => line.x.length > 0);
  const first = drawn[0];
  const at = x === null || !first ? null : first.x[nearest(first.x, x)]!;
  return (
    <p class="legend">
      {drawn.map((line) => {
        const index = x === null ? line.y.findLastIndex((y) => y !== null) : nearest(line.x, x);
        const value = line.y[index];
        return (
          <span key={line.name} class={`c${line.color % 6}`}>
            <span class="swatch" aria-hidden="true" /> {line.name}: {label(value ?? NaN)}
          </span>
        );
      })}
      <span class="muted">{at === null ? 'at the end' : `${xLabel} ${number(at)}`}</span>
    </p>
  );
}
