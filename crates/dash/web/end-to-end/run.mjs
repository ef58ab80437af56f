// The dashboard as a person uses it, in a real Chromium: a run is watched while it trains, a group is
// opened, a slider moved, a token view opened, the episodes searched, the report read; and a hostile
// run does nothing.
//
//   ROCSTAR=target/release/rocstar SYNTHESIZE=target/release/examples/synthesize node end-to-end/run.mjs
//
// RUN names a finished run to look at instead of one that trains, for work on the page. CHROMIUM names
// the browser. Screenshots go to end-to-end/out, or to OUT.

import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';
import { lowContrast } from './contrast.mjs';
import { refusals, tokens, zoom } from './parts.mjs';

const rocstar = program(process.env.ROCSTAR ?? 'rocstar');
const synthesize = process.env.SYNTHESIZE && program(process.env.SYNTHESIZE);
const finished = process.env.RUN;
const browserPath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const out = process.env.OUT ?? new URL('./out', import.meta.url).pathname;

if (!existsSync(browserPath)) {
  console.log(`SKIP the dashboard in a browser: there is no ${browserPath}; CHROMIUM names another`);
  process.exit(0);
}

// Commands run in `place`, so that what is seen names no path of this machine.
const place = mkdtempSync(join(tmpdir(), 'rocstar-dash-'));
const folder = join(place, 'runs');
const children = [];
let failures = 0;

/** A program's path, which means the same from any folder. */
function program(path) {
  return path.includes('/') ? resolve(path) : path;
}

function check(what, holds, detail = '') {
  console.log(`${holds ? 'ok    ' : 'FAILED'} ${what}${holds || detail === '' ? '' : `: ${detail}`}`);
  if (!holds) failures += 1;
}

function start(command, args) {
  const child = spawn(command, args, { cwd: place, stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  return child;
}

function ended(child) {
  return new Promise((resolve) => (child.exitCode === null ? child.on('exit', resolve) : resolve(child.exitCode)));
}

async function serve() {
  const child = start(rocstar, ['dash', 'runs', '--listen', '127.0.0.1:0', '--no-open', '--json']);
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) return { child, url: JSON.parse(line).url.replace(/\/$/, '') };
  throw new Error('the dashboard did not start');
}

async function main() {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  mkdirSync(folder, { recursive: true });
  if (finished) cpSync(finished, join(folder, 'quickstart'), { recursive: true });
  const training = finished ? null : start(rocstar, ['--no-progress', 'quickstart', '--no-open']);
  training?.stdout.resume();
  const { child: server, url } = await serve();
  const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });

  if (training) await whileItTrains(page, url, training);
  await whenItIsDone(page, context, url);
  const run = await name(url);
  await everyView(browser, url, run);
  await keys(page, url, run);
  await ends(page, url, run);
  await tokens(page, `${url}/runs/${run}`, check);
  await refusals(context, `${url}/runs/${run}`, check);
  if (synthesize) await hostile(page, url);
  else console.log('SKIP the hostile run: SYNTHESIZE names no program');
  check('the browser has nothing to complain of', complaints.length === 0, complaints.join('; '));
  await browser.close();
  server.kill('SIGTERM');
  check('the dashboard ends when it is told to', (await ended(server)) === 0, `status ${server.exitCode}`);
}

/** The run appears by itself, is seen to go on, and can be looked into. */
async function whileItTrains(page, url, training) {
  await page.goto(url);
  await page.locator('a.run-link').first().waitFor({ timeout: 60_000 });
  await page.locator('a.run-link').first().click();
  await page.locator('.chart').first().waitFor({ timeout: 120_000 });
  const progress = () => page.locator('.facts div', { hasText: 'progress' }).locator('dd').innerText();
  const before = await progress();
  await page.waitForFunction((was) => ![...document.querySelectorAll('.facts dd')].some((it) => it.textContent === was), before, { timeout: 120_000 });
  check('a run is seen to go on while it trains', (await progress()) !== before);
  check('it says that it runs', (await page.locator('header .state').innerText()).includes('running'));

  // Groups, while it still trains.
  await page.keyboard.press('g');
  await page.locator('li.group').first().waitFor();
  check('a step shows its groups', (await page.locator('li.group').count()) === 32);
  const run = await name(url);
  const { episode_steps } = await (await fetch(`${url}/api/runs/${run}`)).json();
  await page.goto(`${url}/runs/${run}/steps/${episode_steps.at(-1)}`);
  await page.locator('a[rel=next]').waitFor({ timeout: 120_000 });
  check('the newest step gets a next one when it comes', true);
  await page.goto(`${url}/compare?runs=${run},${run}`);
  await page.locator('.chart').first().waitFor();
  await page.waitForRequest(/curves\?generation=/, { timeout: 120_000 });
  check('runs that are compared go on', true);
  await page.goto(`${url}/runs/${run}/steps`);
  const used = page.locator('li.group', { hasText: 'learned from' }).first();
  await used.locator('.group-head a').click();
  await page.locator('li.card').first().waitFor();
  check('a group shows its episodes', (await page.locator('li.card').count()) === 16);
  check('some are kept and some dropped', (await page.locator('li.card.kept').count()) === 8);

  // What if: fewer are kept at once.
  const keep = page.locator('.what-if label', { hasText: 'keep' }).locator('input');
  await keep.fill('4');
  await page.waitForFunction(() => document.querySelectorAll('li.card.kept').length === 4);
  check('a slider selects anew', (await page.locator('li.card.kept').count()) === 4);
  check('the settings are in the address', page.url().includes('keep=4'), page.url());
  await page.screenshot({ path: join(out, 'group.png') });
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll('li.card.kept').length === 4);
  check('a link opens what was seen', true);

  // An episode and its tokens.
  await page.locator('li.card.kept a').first().click();
  await page.locator('.transcript .turn').first().waitFor();
  check('the episode shows its program', (await page.locator('.call pre.code').count()) > 0);
  check('it gives the command to replay it', (await page.locator('.summary code').innerText()).startsWith('rocstar replay '));
  check('tokens have text before the first checkpoint', !(await page.locator('.turn.policy pre.text').first().innerText()).includes('⟨'));
  await page.getByRole('tab', { name: 'tokens' }).click();
  await page.locator('.token').first().waitFor();
  await page.locator('.tokens .a-policy').first().hover();
  check('a token tells its log-probability', (await page.locator('.token-facts').innerText()).includes('log-prob then'));
  await page.screenshot({ path: join(out, 'tokens.png') });

  // Search.
  await page.keyboard.press('/');
  await page.locator('input[type=search]').fill('print');
  await page.locator('.hits li').first().waitFor();
  check('search finds what was written', (await page.locator('.hits mark').first().innerText()).toLowerCase() === 'print');

  // What engine, tools and trainer did within a step, and what the code environment does now.
  await page.keyboard.press('Escape');
  await page.locator('main').focus();
  await page.keyboard.press('t');
  await page.locator('.lane-row svg').first().waitFor();
  check('a step has a lane for engine, tools, verifier and trainer', (await page.locator('.lane-row svg').count()) === 4);
  check('its episodes are drawn by their times', (await page.locator('.spans svg rect').count()) > 80);
  await page.screenshot({ path: join(out, 'timeline-live.png') });
  await page.keyboard.press('e');
  await page.locator('[aria-label=Now] .state', { hasText: 'live' }).waitFor({ timeout: 20_000 });
  const answered = () => page.locator('[aria-label=Now] .facts div', { hasText: 'calls answered' }).locator('dd').innerText();
  const first = await answered();
  await page.waitForFunction((was) => [...document.querySelectorAll('[aria-label=Now] .facts div')].some((it) => it.firstChild?.textContent === 'calls answered' && it.lastChild?.textContent !== was), first, { timeout: 120_000 });
  check('the environment is seen to work', (await answered()) !== first);
  check('it says which slots are in use', / of \d+/.test(await page.locator('[aria-label=Now] .facts div', { hasText: 'slots in use' }).locator('dd').innerText()));
  await page.screenshot({ path: join(out, 'environment-live.png') });

  await ended(training);
  check('quickstart ended well', training.exitCode === 0, `status ${training.exitCode}`);
}

/** The overview tells the story, and the report opens. */
async function whenItIsDone(page, context, url) {
  const run = await name(url);
  await page.goto(`${url}/runs/${run}`);
  await page.waitForFunction(() => document.querySelector('header .state')?.textContent === 'finished');
  check('the page says why accuracy rose', (await page.locator('.story').innerText()).includes('held-out tasks from'));
  await page.screenshot({ path: join(out, 'run.png'), fullPage: true });

  await curves(page, url, run);
  await page.goto(`${url}/runs/${run}`);

  // The report.
  const [report] = await Promise.all([context.waitForEvent('page'), page.getByRole('link', { name: 'report', exact: true }).click()]);
  await report.waitForLoadState();
  check('the report has curves and episodes', (await report.locator('polyline').count()) > 5 && (await report.locator('.episode').count()) > 1);
  await report.screenshot({ path: join(out, 'report.png'), fullPage: true });
  await report.close();

  await page.evaluate(() => {
    const faint = document.createElement('p');
    faint.className = 'faint-on-purpose';
    // By the object model, which the policy allows.
    faint.style.color = '#999';
    faint.textContent = 'faint';
    document.querySelector('main').append(faint);
  });
  check('faint text is found', (await page.evaluate(lowContrast)).some((it) => it.includes('faint-on-purpose')));
}

/** Zoom, smoothing, meanings, files to keep, and a second run laid over the first. */
async function curves(page, url, run) {
  await page.goto(`${url}/runs/${run}/curves`);
  const chart = page.locator('.chart', { hasText: 'accuracy' }).first();
  await chart.waitFor();
  const titles = await page.locator('.chart-title').allInnerTexts();
  const wanted = ['accuracy', 'reward mean', 'tool error share', 'response tokens mean', 'turns mean', 'truncated share', 'entropy mean', 'clip shares', 'mismatch kl', 'gradient norm', 'kv use max', 'tokens per s', 'seconds'];
  const absent = wanted.filter((title) => !titles.some((it) => it.startsWith(title)));
  check('every curve is there', absent.length === 0, absent.join(', '));
  await chart.locator('.chart-title').hover();
  check('a curve says what it means', (await chart.locator('.about').innerText()).includes('right final answers'));
  const entropy = page.locator('.chart', { hasText: 'entropy mean' }).first();
  await entropy.locator('.chart-title').hover();
  check('and what is healthy', (await entropy.locator('.about').innerText()).includes('healthy'));
  await zoom(page, chart, check);
  await page.locator('.controls input[type=range]').fill('0.8');
  check('smoothing shows the values behind it', (await chart.locator('.line.faint').count()) > 0);
  await chart.locator('svg').hover();
  check('one cursor goes through all curves', (await page.locator('.chart .cursor').count()) > 5);
  await page.locator('.controls select').selectOption('time');
  await page.waitForURL(/axis=time/);
  for (const form of ['SVG', 'CSV']) {
    const [kept] = await Promise.all([page.waitForEvent('download'), chart.getByRole('button', { name: `as ${form}` }).click()]);
    check(`a curve is kept as ${form}`, kept.suggestedFilename() === `accuracy.${form.toLowerCase()}`);
  }
  await page.goto(`${url}/compare?runs=${run},${run}`);
  await page.locator('.chart').first().waitFor();
  check('two runs are laid over each other', (await page.locator('.chart').first().locator('path.line').count()) === 2);
  await page.goto(`${url}/compare?runs=${Array(7).fill(run).join(',')}`);
  await page.locator('.chart').first().waitFor();
  check('runs that are too many are told of', (await page.locator('main .notices').innerText()).includes(`left out: ${run}`));
}

async function name(url) {
  const runs = await (await fetch(`${url}/api/runs`)).json();
  return runs.runs[0].name;
}

/** Every view, at two widths and in both schemes: nothing wider than the page, contrast as it must be. */
async function everyView(browser, url, run) {
  const at = `/runs/${run}`;
  const views = {
    runs: '/',
    overview: at,
    curves: `${at}/curves?smooth=0.6`,
    step: `${at}/steps/2`,
    'what-if': `${at}/steps/2/groups/1?mode=off`,
    episode: `${at}/steps/2/groups/1/episodes/1`,
    'token-view': `${at}/steps/2/groups/1/episodes/1?view=tokens&color=probability`,
    problems: `${at}/problems`,
    search: `${at}/search?text=result`,
    timeline: `${at}/timeline`,
    evaluations: `${at}/evaluations`,
    environment: `${at}/environment`,
  };
  for (const [width, scheme] of [[1280, 'light'], [1280, 'dark'], [390, 'dark'], [390, 'light']]) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    const page = await context.newPage();
    for (const [view, path] of Object.entries(views)) {
      await page.goto(url + path);
      await page.locator('main h1').first().waitFor();
      await page.waitForLoadState('load');
      // Streams never end, so the network is never idle: what is asked for is waited for.
      await page.waitForFunction(() => !document.querySelector('main')?.textContent?.includes('reading …'));
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(`${view} fits ${width} pixels, ${scheme}`, wider <= 0, `wider by ${wider}`);
      const low = await page.evaluate(lowContrast);
      check(`${view} has contrast, ${width} ${scheme}`, low.length === 0, low.slice(0, 3).join('; '));
      await page.screenshot({ path: join(out, `${view}-${width}-${scheme}.png`) });
    }
    await context.close();
  }
}

async function keys(page, url, run) {
  await page.goto(`${url}/runs/${run}/steps/2`);
  await page.locator('li.group').first().waitFor();
  await page.keyboard.press('ArrowRight');
  await page.waitForURL(/steps\/3/);
  await page.keyboard.press('c');
  await page.waitForURL(/curves/);
  await page.keyboard.press('u');
  await page.waitForURL((address) => address.pathname === `/runs/${run}`);
  await page.keyboard.press('r');
  await page.waitForURL((address) => address.pathname === '/');
  check('keys lead everywhere', true);
}

/** There is a way on only where something is. */
async function ends(page, url, run) {
  const next = page.locator('a[rel=next]');
  for (const [path, there] of [['groups/30', 1], ['groups/31', 0], ['groups/1/episodes/14', 1], ['groups/1/episodes/15', 0]]) {
    const asked = path.includes('episodes') ? page.waitForResponse(/groups\/1$/) : null;
    await page.goto(`${url}/runs/${run}/steps/2/${path}`);
    await asked;
    await page.locator('li.card, .transcript').first().waitFor();
    await page.locator('a[rel=prev]').waitFor();
    check(`${there ? 'a' : 'no'} way on from ${path}`, (await next.count()) === there);
  }
}

/** What a model wrote is text: no script runs, no element of it is made. */
async function hostile(page, url) {
  await ended(start(synthesize, [join(folder, 'hostile'), '2', '2', '4', 'hostile']));
  for (const path of ['steps/1', 'steps/1/groups/0', 'steps/1/groups/0/episodes/0', 'steps/1/groups/0/episodes/0?view=tokens', 'search?text=onload', 'problems']) {
    await page.goto(`${url}/runs/hostile/${path}`);
    await page.locator('main h1').first().waitFor();
    await page.waitForFunction(() => !document.querySelector('main')?.textContent?.includes('reading …'));
  }
  const file = join(folder, 'hostile', 'env.json');
  const environment = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  writeFileSync(file, JSON.stringify({ ...environment, sandbox: { layers: [null], packages: 'x', degraded: 1 } }));
  await page.goto(`${url}/runs/hostile/environment`);
  await page.locator('.notices', { hasText: 'sandbox.layers' }).waitFor();
  check('an environment of another form is told of', (await page.locator('.notices', { hasText: 'sandbox.packages' }).count()) === 1);
  await page.goto(`${url}/runs/hostile/steps/1/groups/0/episodes/0`);
  await page.locator('.turn.policy').first().waitFor();
  const text = await page.locator('.turn.policy').last().innerText();
  check('markup that was written is shown as text', text.includes('<script>') && text.includes('<svg onload'), text);
  const made = await page.evaluate(() => ({
    ran: globalThis.hacked === true,
    elements: document.querySelectorAll('main script, main iframe, main [onload], main [onerror]').length,
  }));
  check('nothing of it ran', !made.ran && made.elements === 0, JSON.stringify(made));
  const report = await page.goto(`${url}/report/hostile`);
  check('nor in the report', report.status() === 200 && (await page.evaluate(() => globalThis.hacked === undefined && document.querySelector('script') === null)));
}

try {
  await main();
} catch (error) {
  check('the test came to its end', false, String(error?.stack ?? error));
} finally {
  for (const child of children) if (child.exitCode === null) child.kill('SIGKILL');
  rmSync(place, { recursive: true, force: true });
}
console.log(failures === 0 ? 'all is well' : `${failures} checks failed`);
process.exit(failures === 0 ? 0 : 1);
