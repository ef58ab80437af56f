// Streams of what changes, and what is told where there is none.

import { useEffect, useState } from 'preact/hooks';
import { told } from './api';

export interface Stream<T> {
  last: T | null;
  /** The server can't be reached; the browser tries again by itself. */
  broken: boolean;
  /** Why the server gives no news. */
  refused: string | null;
}

/** Between two times that a stream is asked for which the server refused. */
const ASK_AGAIN_MS = 5_000;

/** The newest event of a stream, and whether there are any. */
export function useStream<T>(address: string | null): Stream<T> {
  const [state, set] = useState<Stream<T>>({ last: null, broken: false, refused: null });
  useEffect(() => {
    set({ last: null, broken: false, refused: null });
    if (address === null) return;
    let stream: EventSource | null = null;
    let timer: number | undefined;
    let abort = new AbortController();
    // A browser keeps six connections to a server, all tabs together: those that nobody sees give
    // theirs back.
    const follow = () => {
      stream?.close();
      stream = null;
      clearTimeout(timer);
      abort.abort();
      if (document.hidden) return;
      abort = new AbortController();
      const own = new EventSource(address);
      stream = own;
      own.onmessage = (event) => set({ last: JSON.parse(event.data as string) as T, broken: false, refused: null });
      own.onerror = () => {
        if (own.readyState !== EventSource.CLOSED) return set((old) => ({ ...old, broken: true }));
        // It was answered, but with no stream; a stream doesn't say with what, so it is asked for plainly.
        void refusal(address, abort).then((refused) => {
          if (stream !== own) return;
          set((old) => ({ ...old, broken: false, refused }));
          timer = setTimeout(follow, ASK_AGAIN_MS);
        });
      };
    };
    follow();
    document.addEventListener('visibilitychange', follow);
    return () => {
      document.removeEventListener('visibilitychange', follow);
      clearTimeout(timer);
      abort.abort();
      stream?.close();
      stream = null;
    };
  }, [address]);
  return state;
}

/** What the server says instead of giving a stream; null where it would give it now. */
async function refusal(address: string, abort: AbortController): Promise<string | null> {
  try {
    const response = await fetch(address, { signal: abort.signal });
    return response.ok ? null : await told(response);
  } catch {
    return 'the server is not reached';
  } finally {
    // A stream would never end by itself.
    abort.abort();
  }
}
