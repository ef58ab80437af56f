// What a token's log-probabilities say of how it was learned from.

import type { Token, Tokens } from './api';

type Known = Pick<Tokens, 'advantage' | 'clip'>;

/** p(now) / p(then), where both are known and the loss goes by it. */
export function ratio(token: Pick<Token, 'now' | 'sampled'>, { clip }: Known): number | null {
  if (clip === null || token.now === null || token.sampled === null) return null;
  return Math.exp(token.now - token.sampled);
}

/** Whether the ratio stops the update: above for what is worth much, below for what is worth little. */
export function clipped(token: Pick<Token, 'now' | 'sampled'>, known: Known): 'above' | 'below' | 'no' | null {
  const value = ratio(token, known);
  if (value === null || known.clip === null || known.advantage === null) return null;
  if (known.advantage > 0 && value > known.clip[1]) return 'above';
  if (known.advantage < 0 && value < known.clip[0]) return 'below';
  return 'no';
}
