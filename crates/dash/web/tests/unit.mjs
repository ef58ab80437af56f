// What the page computes by itself. `npm test` builds this with the sources and runs it by node's own runner.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bytes, cause, duration, number, plural, share } from '../src/format';
import { clipped, ratio } from '../src/learned';
import { isolation } from '../src/sandbox';
import { nearest, rangeFrom, rangeText, smoothed, thinned, ticks, zoomed } from '../src/scale';

test('ticks are round, rise and lie within', () => {
  assert.deepEqual(ticks(0, 1, 4), [0, 0.5, 1]);
  assert.deepEqual(ticks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
  for (const [low, high] of [[-3, 7], [0.1, 0.3], [1e9, 1e9 + 3], [-1e-9, 1e-9], [1e15, 1e15 + 1]]) {
    const all = ticks(low, high, 4);
    assert.ok(all.length <= 11 && all.every((at, index) => index === 0 || at > all[index - 1]), `${low} ${high}: ${all}`);
  }
});

test('ticks come to an end where a step is lost beside the numbers', () => {
  for (const at of [1, 30, 1e6, 1e300]) {
    for (let size = 1; size > 0; size /= 2) assert.ok(ticks(at, at + size, 4).length <= 11, `${at} ${size}`);
  }
  for (const [low, high] of [[0, 0], [2, 1], [NaN, 1], [0, Infinity], [-Infinity, Infinity], [-1.7e308, 1.7e308]]) {
    assert.equal(ticks(low, high, 4).length, 1);
  }
});

test('nobody zooms into nothing, nor out of everything', () => {
  let range = [0, 100];
  for (let press = 0; press < 200; press += 1) {
    const half = (range[1] - range[0]) / 4;
    range = zoomed([range[0] + half, range[1] - half], [0, 100]) ?? range;
  }
  assert.ok(range[1] - range[0] >= 1e-4 && range[1] - range[0] < 2e-4, `${range}`);
  assert.equal(zoomed([-50, 150], [0, 100]), null);
  assert.deepEqual(zoomed([-50, 50], [0, 100]), [0, 50]);
  assert.equal(zoomed([200, 300], [0, 100]), undefined);
  assert.equal(zoomed([5, 5.1], [5, 5]), null);
  assert.equal(zoomed([5.01, 5.1], [5, 5]), undefined);
});

test('a range goes through the address', () => {
  assert.deepEqual(rangeFrom(rangeText([0.25, 12])), [0.25, 12]);
  assert.deepEqual(rangeFrom(rangeText([-60, -1e-3])), [-60, -1e-3]);
  assert.equal(rangeText(null), null);
  for (const text of [null, '', '1', '2~1', '1~1', '~', 'a~b', '1~2~3', '0~Infinity']) assert.equal(rangeFrom(text), null, String(text));
});

test('curves are smoothed and thinned without losing ends and peaks', () => {
  assert.deepEqual(smoothed([1, null, 1], 0.9), [1, null, 1]);
  const y = Array.from({ length: 1000 }, (_, at) => (at === 500 ? 9 : at % 2));
  const thin = thinned(y.map((_, at) => at), y, 50);
  assert.ok(thin.length <= 100 && thin.some(([x, value]) => x === 500 && value === 9));
  assert.deepEqual([nearest([1, 2, 4], 0), nearest([1, 2, 4], 2.9), nearest([1, 2, 4], 9)], [0, 1, 2]);
});

test('a ratio is told only where the loss goes by it', () => {
  const token = { now: Math.log(0.6), sampled: Math.log(0.4) };
  assert.ok(Math.abs(ratio(token, { advantage: 1, clip: [0.8, 1.28] }) - 1.5) < 1e-12);
  assert.equal(ratio(token, { advantage: 1, clip: null }), null);
  assert.equal(clipped(token, { advantage: 1, clip: null }), null);
  assert.equal(ratio({ now: null, sampled: -1 }, { advantage: 1, clip: [0.8, 1.28] }), null);
});

test('what is clipped goes by the sign of what it is worth', () => {
  const clip = [0.8, 1.28];
  const [high, low] = [{ now: 0, sampled: -1 }, { now: -1, sampled: 0 }];
  assert.equal(clipped(high, { advantage: 1, clip }), 'above');
  assert.equal(clipped(high, { advantage: -1, clip }), 'no');
  assert.equal(clipped(low, { advantage: 1, clip }), 'no');
  assert.equal(clipped(low, { advantage: -1, clip }), 'below');
  assert.equal(clipped(low, { advantage: null, clip }), null);
});

test('an environment of any form is read', () => {
  const good = { layers: [{ layer: 'seccomp', holds: true }], degraded: false, python: '/usr/bin/python3', python_version: '3.12', packages: ['numpy'] };
  assert.deepEqual(isolation(good), { ...good, notices: [] });
  assert.equal(isolation(null).notices.length, 0);
  for (const broken of [{ layers: 'x' }, { layers: [null] }, { packages: 'x' }, { packages: [1] }, { degraded: 'no' }, { python: {} }, 'x', [1]]) {
    assert.equal(isolation(broken).notices.length, 1, JSON.stringify(broken));
  }
});

test('numbers are told as people read them', () => {
  assert.deepEqual([number(null), number(NaN), number(0), number(1234.5), number(0.12345), number(1e-5)], ['–', '–', '0', '1,235', '0.1235', '1.00e-5']);
  assert.deepEqual([share(0.5), share(undefined)], ['50.0 %', '–']);
  assert.deepEqual([duration(12), duration(1500), duration(2_500_000)], ['12 µs', '1.5 ms', '2.50 s']);
  assert.deepEqual([bytes(null), bytes(512), bytes(3 << 20)], ['not known', '512 B', '3.0 MiB']);
  assert.deepEqual([plural(1, 'call'), plural(2000, 'call')], ['1 call', '2,000 calls']);
  assert.deepEqual([cause(null), cause('something_new')], ['', 'something new']);
});
