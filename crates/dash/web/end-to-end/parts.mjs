// Parts of the test that look at one thing each: zoom, the token view, and what is refused.

/** Zoom is in the address, comes to an end, and is taken back. */
export async function zoom(page, chart, check) {
  await chart.locator('svg').focus();
  await page.keyboard.press('+');
  await page.getByRole('button', { name: 'whole range' }).waitFor();
  const [, low, high] = /zoom=([^&~]+)(?:~|%7E)([^&]+)/.exec(page.url()) ?? [];
  check('zoom is in the address', Number(low) < Number(high), page.url());
  for (let press = 0; press < 70; press += 1) await page.keyboard.press('+');
  check('zooming in comes to an end', (await page.evaluate(() => document.querySelectorAll('.chart .tick').length)) > 0);
  await page.reload();
  await page.getByRole('button', { name: 'whole range' }).waitFor();
  await chart.locator('svg').focus();
  await page.keyboard.press('0');
  await page.waitForURL((address) => !address.search.includes('zoom'));
  check('all charts clip at what they show', await page.evaluate(() => [...document.querySelectorAll('.chart g[clip-path]')].every((it) => document.getElementById(/#(.*?)"?\)/.exec(it.getAttribute('clip-path'))?.[1] ?? '') !== null)));
}

/** Tokens by keys; a chosen one is in the address; no ratio where the loss has another; text to copy. */
export async function tokens(page, run, check) {
  const address = `${run}/steps/2/groups/1/episodes/1?view=tokens`;
  await page.goto(address);
  const list = page.getByRole('listbox');
  await list.focus();
  await page.keyboard.press('End');
  await page.waitForURL(/token=\d+/);
  const marked = await list.getAttribute('aria-activedescendant');
  const isSeen = await page.evaluate((id) => {
    const { top, bottom } = document.getElementById(id).getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  }, marked);
  check('a token that keys choose is told and seen', marked === `token-${(await list.getByRole('option').count()) - 1}` && isSeen, String(marked));
  const place = () => page.locator('.token-facts div', { hasText: 'place' }).locator('dd').innerText();
  const before = await place();
  await page.reload();
  await list.waitFor();
  check('a link opens the chosen token', (await place()) === before, before);

  await page.route(/\/tokens\?/, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), clip: null, tokens: [{ ...(await answer.json()).tokens[0], author: 'policy', now: -1, sampled: -3 }] } });
  });
  await page.goto(`${address}&color=ratio&token=0`);
  const ratio = () => page.locator('.token-facts div', { hasText: 'ratio' }).locator('dd').innerText();
  await list.waitFor();
  check('no ratio where the loss has another', (await ratio()) === '–' && (await page.locator('main').innerText()).includes('Neither ratios'));
  await page.unroute(/\/tokens\?/);

  await page.goto(address);
  await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined }));
  await page.locator('.summary button', { hasText: 'copy' }).click();
  await page.locator('.summary button', { hasText: 'marked' }).waitFor();
  check('what cannot be copied is marked', (await page.evaluate(() => String(getSelection()))).startsWith('rocstar replay '));
}

/** What the server refuses is said, and a view that fails leaves the rest of the page. */
export async function refusals(context, run, check) {
  // A page of its own: a refusal is told in the browser's console too.
  const page = await context.newPage();
  await page.route(/\/live$/, (route) => route.fulfill({ status: 429, json: { error: 'too many open pages: close some' } }));
  await page.goto(run);
  await page.locator('.failure', { hasText: 'too many open pages' }).waitFor();
  check('a stream that is refused says why', (await page.locator('header').innerText()).includes('not reached') === false);
  await page.route(/\/problems/, (route) => (route.request().resourceType() === 'document' ? route.continue() : route.fulfill({ json: { tasks: 1, notices: [], progress: { steps: 1, of: 1 } } })));
  await page.goto(`${run}/problems`);
  await page.locator('.notices', { hasText: 'This view fails' }).waitFor();
  await page.keyboard.press('o');
  await page.locator('main h1').waitFor();
  check('a view that fails leaves the others', (await page.locator('.notices', { hasText: 'This view fails' }).count()) === 0);
  await page.close();
}
