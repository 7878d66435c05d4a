// The console in a browser, in front of a real gateway. Every page is looked at in light and dark, wide and narrow.

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';

import { chromium } from 'playwright-core';

import { API_KEY, JWT_SECRET, MARKUP, SECRETS, configuration, startGateway, startService, until } from './gateway.js';

const PAGES = { overview: 'Overview', errors: 'Errors', routes: 'Routes', upstreams: 'Upstreams', auth: 'Authentication', limits: 'Limits', caches: 'Caches', ai: 'AI', tls: 'TLS', config: 'Configuration' };
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 360, height: 740 };
const TOKEN = 'canary-console-token-0123';

let service;
let gateway;
let browser;

before(async () => {
  service = await startService();
  gateway = await startGateway(configuration(service.port));
  // The browser may send requests to this machine only.
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  });
  for (const path of ['/items/1', '/items/1', '/orders/1', '/reports/1', '/limited', '/nothing']) await fetch(gateway.url + path);
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  service?.stop();
});

/** A page whose every complaint is a failure of the test, but those that it expects. */
async function open(t, { url = gateway.console, scheme = 'light', viewport = WIDE, expected = null, bypassCSP = false } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, bypassCSP, reducedMotion: 'reduce' });
  const page = await context.newPage();
  const complaints = [];
  const add = (text) => expected?.test(text) || complaints.push(text);
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && add(message.text()));
  page.on('pageerror', (error) => add(String(error)));
  page.on('request', (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(url).origin && protocol !== 'data:') add(`a request to ${request.url()}`);
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(complaints, []);
  });
  await page.goto(url);
  return page;
}

async function go(page, id) {
  await page.evaluate((to) => (location.hash = `#/${to}`), id);
  await page.getByRole('heading', { level: 1, name: PAGES[id], exact: true }).waitFor();
  await page.locator('#state.good').waitFor();
  await page.waitForFunction(() => document.querySelector('#live')?.textContent !== 'Loading');
}

/** The page is accessible and fits; its checker must have been added. */
async function checked(page, name) {
  const result = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
  const violations = result.violations.map(({ id: rule, nodes }) => `${rule}: ${nodes.map((node) => node.html).join(' ')}`);
  assert.deepEqual(violations, [], name);
  assert.ok(result.passes.some(({ id: rule }) => rule === 'color-contrast'), 'contrast was looked at');
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(overflow, 0, `${name} is wider than the screen`);
}

for (const scheme of ['light', 'dark']) {
  for (const viewport of [WIDE, NARROW]) {
    test(`every page is accessible and fits: ${scheme}, ${viewport.width} wide`, async (t) => {
      // The checker is a script of this test that the policy would refuse, rightly.
      const page = await open(t, { scheme, viewport, bypassCSP: true });
      await page.addScriptTag({ path: AXE });
      const folder = `${process.env.SCREENSHOTS ?? '/tmp'}`;
      mkdirSync(folder, { recursive: true });
      for (const id of Object.keys(PAGES)) {
        await go(page, id);
        await checked(page, id);
        const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        assert.equal(background, scheme === 'light' ? 'rgb(244, 245, 247)' : 'rgb(17, 20, 24)');
        await page.screenshot({ path: `${folder}/console-${id}-${scheme}-${viewport.width}.png`, fullPage: true });
      }
    });
  }
}

test('the pages work under their own policy, and show text as text and no secret', async (t) => {
  const page = await open(t);
  for (const id of Object.keys(PAGES)) {
    await go(page, id);
    const text = await page.evaluate(() => document.body.textContent);
    for (const secret of SECRETS) assert.ok(!text.includes(secret), `${secret} on ${id}`);
    assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script').length), 0);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    if (id === 'routes') assert.ok(text.includes(MARKUP));
  }
});

test('values follow the traffic', async (t) => {
  const page = await open(t);
  await go(page, 'overview');
  const value = (name) => page.locator('.tiles div', { has: page.getByText(name, { exact: true }) }).locator('dd').textContent();
  let isRunning = true;
  const traffic = (async () => {
    while (isRunning) await fetch(`${gateway.url}/orders/1`).then((response) => response.text());
  })();
  await until('requests', async () => Number((await value('Requests/s')).replaceAll(',', '')) > 1);
  await go(page, 'routes');
  const rate = page.locator('tr', { has: page.locator('th', { hasText: 'orders' }) }).locator('td').nth(2);
  await until('requests of the route', async () => Number((await rate.textContent()).replaceAll(',', '')) > 1);
  isRunning = false;
  await traffic;
  await until('no requests', async () => (await rate.textContent()) === '0');
  await go(page, 'upstreams');
  await page.getByText('unhealthy').waitFor();
});

test('a chart shows the values under the pointer', async (t) => {
  const page = await open(t);
  await go(page, 'overview');
  const figure = page.locator('figure').first();
  await until('two rows', async () => (await figure.evaluate((node) => node.series.times.length)) > 2);
  await figure.locator('.plot').hover({ position: { x: 5000, y: 20 }, force: true }).catch(() => {});
  const box = await figure.locator('.plot').boundingBox();
  await page.mouse.move(box.x + box.width - 3, box.y + 20);
  await until('the time', async () => /^\d\d:\d\d:\d\d$/.test(await figure.locator('.now').textContent()));
  await page.mouse.move(1, 1);
  await until('now', async () => (await figure.locator('.now').textContent()) === 'now');
});

test('everything is within reach of the keyboard, and stays where it is while values change', async (t) => {
  const page = await open(t);
  await go(page, 'overview');
  await page.reload();
  await page.locator('#state.good').waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent || document.activeElement.name || document.activeElement.id);
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Skip to content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  assert.equal(await page.locator('h1').textContent(), 'Overview', 'a place on the page is no other page');
  await page.getByRole('link', { name: 'Limits' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main', 'the page that was asked for is next');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.name), 'key');
  await page.keyboard.type('127.0.0.1');
  const refreshed = async () => {
    const count = await page.evaluate(() => performance.getEntriesByType('resource').length);
    await until('a refresh', async () => (await page.evaluate(() => performance.getEntriesByType('resource').length)) > count);
  };
  await refreshed();
  assert.deepEqual(await page.evaluate(() => [document.activeElement.name, document.activeElement.value]), ['key', '127.0.0.1']);
  await page.keyboard.press('Enter');
  await page.locator('.said').getByText('per_client').waitFor();
  // What is selected to be copied stays selected.
  await go(page, 'config');
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector('#live pre')));
  await refreshed();
  assert.ok((await page.evaluate(() => getSelection().toString())).includes('listen:'));
});

test('actions', async (t) => {
  // A browser says on its console which responses were errors.
  const page = await open(t, { expected: /status of 422/ });
  await go(page, 'limits');
  const said = page.locator('.said');
  await fetch(`${gateway.url}/limited`);
  await page.getByLabel('Key (a part').fill('127.0.0.1');
  await page.getByRole('button', { name: 'Look up' }).click();
  await said.getByText('allowed').first().waitFor();
  await page.getByRole('button', { name: 'Reset the key' }).click();
  await said.getByText('Forgotten: per_client.').waitFor();
  await page.getByLabel('Limit (empty: all)').fill('unknown');
  await page.getByRole('button', { name: 'Look up' }).click();
  await said.getByText('there is no limit `unknown`').waitFor();

  await go(page, 'caches');
  await fetch(`${gateway.url}/items/1`);
  await page.getByLabel('URL, prefix or tag').fill(`${gateway.url}/items/1`);
  await page.getByLabel('Only mark as stale').check();
  await page.getByRole('button', { name: 'Purge' }).click();
  await said.getByText('1 response marked as stale.').waitFor();
  await page.getByLabel('What').selectOption('all');
  await page.getByLabel('Only mark as stale').uncheck();
  page.once('dialog', (dialog) => dialog.dismiss());
  await page.getByRole('button', { name: 'Purge' }).click();
  await said.getByText('Nothing was purged.').waitFor();
  page.once('dialog', (dialog) => dialog.accept());
  await page.getByRole('button', { name: 'Purge' }).click();
  await said.getByText('1 response purged.').waitFor();

  await go(page, 'config');
  const text = configuration(service.port);
  gateway.write(text.replace('upstream: reports', 'upstream: report'));
  await page.getByRole('button', { name: 'Reload' }).click();
  await said.getByText('did you mean `reports`?').waitFor();
  await page.locator('.events').getByText('refused').first().waitFor();
  await go(page, 'overview');
  await page.getByText('The last reload was refused').waitFor();
  await go(page, 'config');
  gateway.write(text);
  await page.getByRole('button', { name: 'Reload' }).click();
  await said.getByText('Put in force').waitFor();
  await page.locator('.events li').first().getByText('in force').waitFor();
});

const part = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
function token(claims) {
  const signed = `${part({ alg: 'HS256' })}.${part(claims)}`;
  return `${signed}.${createHmac('sha256', JWT_SECRET).update(signed).digest('base64url')}`;
}

/** What came of a question is accessible, fits, and is text. */
async function seen(page, name, scheme) {
  await page.addScriptTag({ path: AXE });
  await checked(page, name);
  assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script').length), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await page.screenshot({ path: `${process.env.SCREENSHOTS ?? '/tmp'}/console-${name}-${scheme}.png`, fullPage: true });
}

for (const [scheme, viewport] of [['light', WIDE], ['dark', NARROW]]) {
  test(`questions and what comes of them: ${scheme}, ${viewport.width} wide`, async (t) => {
    const page = await open(t, { scheme, viewport, bypassCSP: true, expected: /status of 4/ });
    const said = page.locator('.said');
    await go(page, 'routes');
    await page.getByLabel('Path, with query').fill('/staff/1?x=<b>');
    await page.getByLabel('Header fields').fill(`X-Api-Key: canary-match\nX-Tag: ${MARKUP}`);
    await page.getByRole('button', { name: 'Test' }).click();
    await said.getByText('staff, or keys').waitFor();
    await said.getByText('/staff/1?x=<b>').waitFor();
    await seen(page, 'route-test', scheme);
    await page.getByLabel('Path, with query').fill('/markup');
    await page.getByRole('button', { name: 'Test' }).click();
    await said.getByText('markup', { exact: true }).first().waitFor();
    await page.getByLabel('Path, with query').fill('/a//b');
    await page.getByRole('button', { name: 'Test' }).click();
    await said.getByText('path_empty_segment').waitFor();

    await go(page, 'auth');
    await page.locator('#live').getByText('k1').waitFor();
    await page.locator('#live').getByText('Last failure').waitFor();
    const good = token({ iss: 'me', aud: 'api', sub: 'u1', exp: Math.floor(Date.now() / 1000) + 600, scope: 'orders', [MARKUP]: MARKUP });
    await page.getByLabel('Token or API key').fill(good);
    await page.getByRole('button', { name: 'Check' }).click();
    await said.getByText('passes', { exact: true }).first().waitFor();
    await said.getByText(MARKUP).first().waitFor();
    await seen(page, 'token', scheme);
    await page.getByLabel('Token or API key').fill(token({ iss: 'me', aud: 'api', exp: 1 }));
    await page.getByRole('button', { name: 'Check' }).click();
    await said.getByText('expired').waitFor();
    await page.getByLabel('Token or API key').fill(API_KEY);
    await page.getByRole('button', { name: 'Check' }).click();
    await said.getByText(MARKUP).waitFor();
    assert.ok(!gateway.output().includes(good) && !gateway.output().includes(API_KEY));
    assert.ok(!page.url().includes('eyJ'));

    await go(page, 'caches');
    await fetch(`${gateway.url}/items/2`).then((response) => response.text());
    await page.getByLabel('URL, as clients').fill(`${gateway.url}/items/2`);
    await page.getByRole('button', { name: 'Look up response' }).click();
    await said.getByText('fresh for').first().waitFor();
    await seen(page, 'cache-look-up', scheme);

    await go(page, 'limits');
    for (let request = 0; request < 5; request += 1) await fetch(`${gateway.url}/limited`);
    await page.locator('#live').getByText('127.0.0.1').waitFor();
    await seen(page, 'refused-keys', scheme);

    await go(page, 'config');
    await page.getByRole('button', { name: 'Compare with the file' }).click();
    await said.getByText('The file says what is in force.').waitFor();
    const text = configuration(service.port);
    gateway.write(text.replace('listen:', 'listen:\n  - 192.0.2.1:1'));
    await page.getByRole('button', { name: 'Compare with the file' }).click();
    await said.getByText('192.0.2.1:1').waitFor();
    await seen(page, 'difference', scheme);
    gateway.write(text.replace('upstream: reports', 'upstream: report'));
    await page.getByRole('button', { name: 'Compare with the file' }).click();
    await said.getByText('did you mean `reports`?').waitFor();
    gateway.write(text);
    await page.getByRole('button', { name: 'Reload' }).click();
    await said.getByText('Put in force').waitFor();
  });
}

test('another site can neither act nor read', async (t) => {
  // Reloads are counted in the log: the watched file may be one more at any time.
  const acted = () => gateway.output().match(/requested (in the console|over the admin)/g)?.length ?? 0;
  const before_ = acted();
  const api = `${gateway.admin}/console/api`;
  const evil = http.createServer((request, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end(`<form method="post" action="${api}/reload"><button>go</button></form><iframe src="${gateway.admin}/console/"></iframe>`);
  });
  await new Promise((resolve) => evil.listen(0, '127.0.0.1', resolve));
  t.after(() => evil.close());
  const url = `http://127.0.0.1:${evil.address().port}/`;
  const page = await open(t, { url, expected: /./ });
  const results = await page.evaluate(async (to) => {
    const attempt = (path, options) => fetch(`${to}/${path}`, { credentials: 'include', ...options }).then((response) => response.type, () => 'refused');
    return [
      await attempt('session'),
      await attempt('reload', { method: 'POST', headers: { 'X-Weir-CSRF': 'x' } }),
      await attempt('reload', { method: 'POST' }),
      await attempt('session', { mode: 'no-cors' }),
    ];
  }, api);
  assert.deepEqual(results, ['refused', 'refused', 'refused', 'refused']);
  assert.equal(await page.frames()[1].evaluate(() => document.querySelector('#main') === null), true, 'no page may frame it');
  await Promise.all([page.waitForNavigation(), page.click('button')]);
  assert.ok((await page.content()).includes('403'));
  assert.equal(acted(), before_);
});

test('the theme is remembered', async (t) => {
  const page = await open(t);
  await go(page, 'overview');
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByRole('button', { name: 'Theme: auto' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  assert.notEqual(await background(), light);
  await page.reload();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  assert.notEqual(await background(), light);
});

test('with a token: login, read-only, logout, and a gateway that is started anew', async (t) => {
  const text = (admin) => configuration(service.port, { admin, console: `console: {token: ${TOKEN}, read_only: true}` });
  let guarded = await startGateway(text('127.0.0.1:0'));
  t.after(() => guarded.stop());
  // What the browser itself says about 401 and about a port where nobody listens.
  const page = await open(t, { url: guarded.console, expected: /status of 401|ERR_CONNECTION|ERR_EMPTY_RESPONSE/ });
  await page.getByLabel('Token').fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByText('The token is wrong.').waitFor();
  await page.screenshot({ path: `${process.env.SCREENSHOTS ?? '/tmp'}/console-login.png` });
  await page.getByLabel('Token').fill(TOKEN);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  const [cookie] = await page.context().cookies(`${guarded.console}api/`);
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, 'Strict', '/console/']);
  assert.ok(!(await page.evaluate(() => document.cookie)).includes('weir'));
  await go(page, 'config');
  await page.getByText('The console is read-only.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Reload' }).isDisabled(), true);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Token').fill(TOKEN);
  await page.keyboard.press('Enter');
  await page.locator('#state.good').waitFor();

  await guarded.stop();
  await page.getByText('no connection').waitFor();
  guarded = await startGateway(text(new URL(guarded.console).host));
  await page.getByRole('heading', { name: 'Log in' }).waitFor();
});

test('an operator drains a target, sees it on every page, and undoes it', async (t) => {
  const other = await startGateway(configuration(service.port));
  t.after(() => other.stop());
  const page = await open(t, { url: other.console });
  await go(page, 'upstreams');
  const row = page.locator('tr', { has: page.locator('th', { hasText: `127.0.0.1:${service.port}` }) }).first();
  page.once('dialog', (dialog) => dialog.dismiss());
  await row.getByRole('button', { name: /^Drain/ }).click();
  await page.getByText('Nothing was done.').waitFor();
  page.once('dialog', (dialog) => dialog.accept());
  await row.getByRole('button', { name: /^Drain/ }).click();
  await row.getByText('drained', { exact: true }).waitFor();
  assert.equal((await fetch(`${other.url}/orders/1`)).status, 503);
  for (const id of Object.keys(PAGES)) {
    await go(page, id);
    await page.locator('#note').getByText('Drained by an operator').waitFor();
  }
  await go(page, 'errors');
  await page.locator('#live').getByText('/orders/1').waitFor();
  await go(page, 'upstreams');
  await row.getByRole('button', { name: /^Undrain/ }).click();
  await row.getByText('ready', { exact: true }).waitFor();
  await until('no note', async () => (await page.locator('#note').textContent()) === '');
  assert.equal((await fetch(`${other.url}/orders/1`)).status, 200);
});
