// The address is the state: whatever a page shows is in it, so a link can be kept and sent.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { rangeFrom, rangeText, type Range } from './scale';

export interface Route {
  parts: string[];
  query: URLSearchParams;
}

/** What the address says now; a view that was not drawn again yet may hold an older one. */
export function read(): Route {
  const parts = location.pathname.split('/').filter((part) => part !== '');
  return { parts: parts.map(decode), query: new URLSearchParams(location.search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const listeners = new Set<() => void>();

export function useRoute(): Route {
  const [route, set] = useState(read);
  useEffect(() => {
    const update = () => set(read());
    listeners.add(update);
    addEventListener('popstate', update);
    return () => {
      listeners.delete(update);
      removeEventListener('popstate', update);
    };
  }, []);
  return route;
}

export function go(address: string, options: { replace?: boolean } = {}): void {
  if (options.replace) history.replaceState(null, '', address);
  else {
    history.pushState(null, '', address);
    scrollTo(0, 0);
  }
  listeners.forEach((update) => update());
}

/** Changes a part of the query and nothing else; null takes it out. */
export function setQuery(changes: Record<string, string | null>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(location.pathname + (text ? '?' + text : ''), { replace: true });
}

/** How far charts are zoomed, which the address keeps under `name`. */
export function useZoom(name = 'zoom'): [zoom: Range | null, zoomTo: (zoom: Range | null) => void] {
  const text = useRoute().query.get(name);
  const zoom = useMemo(() => rangeFrom(text), [text]);
  return [zoom, (next) => setQuery({ [name]: rangeText(next) })];
}

export function path(...parts: (string | number)[]): string {
  return '/' + parts.map((part) => encodeURIComponent(part)).join('/');
}

/** Follows links of this page without loading it anew. */
export function catchLinks(): void {
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest('a');
    if (!link || link.origin !== location.origin || link.target || link.hasAttribute('download')) return;
    if (link.pathname.startsWith('/report/')) return;
    event.preventDefault();
    if (link.href !== location.href) go(link.pathname + link.search);
  });
}
