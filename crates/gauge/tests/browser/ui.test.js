// `gauge ui` in a browser, with a history that has runs in it. Every page is looked at in light and dark, wide and narrow.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { chromium } from 'playwright-core';

const { GAUGE, CHROMIUM, RUN, DESCRIPTION, SCREENSHOTS = '/tmp' } = process.env;
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'];
const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 360, height: 740 };

// Two services that need nothing but this program.
const SERVICES = `name: Demonstrations
api: demo.openapi.yaml
systems:
  - name: plain
    language: Rust
    command: ["{gauge}", demo, --listen, "{address}:{http}"]
    ports: &ports {http: "http://127.0.0.1:8090"}
    ready: "http://{address}:{http}/healthz"
  - name: cacheable
    language: Rust
    command: ["{gauge}", demo, --listen, "{address}:{http}", --cache-control, max-age=60]
    ports: *ports
    ready: "tcp://{address}:{http}"
  - {name: third, command: [not-started, "{http}"], ports: *ports}
before_each:
  - {run: [echo, "{system}"]}
  - {send: addItem}
warmup: 500ms
workloads:
  - {name: write, operations: [{id: addItem, body: {event: default}}], load: {closed: {users: 4, duration: 3s}}}
`;
const OTHER_API = `openapi: 3.1.0
info: {title: Other, version: "1"}
servers: [{url: "http://127.0.0.1:8090"}]
paths: {/other: {post: {operationId: other, requestBody: {content: {application/json: {schema: {type: object}}}}, responses: {}}}}
`;

let folder;
let ui;
let url;
let browser;
let run;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gauge-ui-'));
  const store = join(folder, 'history.db');
  const evaluations = join(folder, 'evaluations');
  mkdirSync(evaluations);
  copyFileSync(DESCRIPTION, join(evaluations, 'demo.openapi.yaml'));
  writeFileSync(join(evaluations, 'services.yaml'), SERVICES);
  writeFileSync(join(evaluations, 'other.openapi.yaml'), OTHER_API);
  writeFileSync(join(evaluations, 'other.yaml'), SERVICES.replace('demo.openapi', 'other.openapi').replaceAll('addItem', 'other'));
  execFileSync(GAUGE, ['import', RUN, '--store', store]);
  [run] = execFileSync(GAUGE, ['list', '--store', store]).toString().match(/[0-9a-f]{12}/);
  ui = spawn(GAUGE, ['ui', '--listen', '127.0.0.1:0', '--folder', evaluations, '--store', store], { stdio: ['ignore', 'pipe', 'inherit'] });
  url = await new Promise((resolve, reject) => {
    ui.stdout.on('data', (data) => resolve(data.toString().match(/http:\/\/[^/]+/)[0]));
    ui.on('exit', () => reject(new Error('gauge ui ended')));
  });
  browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  });
  mkdirSync(SCREENSHOTS, { recursive: true });
});

after(async () => {
  await browser?.close();
  const ended = new Promise((resolve) => ui.on('exit', resolve));
  ui?.kill('SIGTERM');
  await ended;
  rmSync(folder, { recursive: true, force: true });
});

/** A page whose every complaint is a failure of the test. */
async function open(t, { scheme = 'light', viewport = WIDE, bypassCSP = false, javaScriptEnabled = true, expected = null } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport, bypassCSP, javaScriptEnabled, reducedMotion: 'reduce' });
  const page = await context.newPage();
  const complaints = [];
  const add = (text) => expected?.test(text) || complaints.push(text);
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && add(message.text()));
  page.on('pageerror', (error) => add(String(error)));
  page.on('request', (request) => new URL(request.url()).origin !== url && add(`a request to ${request.url()}`));
  t.after(async () => {
    await context.close();
    assert.deepEqual(complaints, []);
  });
  return page;
}

/** Looks at the page as a checker of accessibility does, and takes a picture. */
async function look(page, name, { scheme, viewport }) {
  await page.addScriptTag({ path: AXE });
  const result = await page.evaluate((runOnly) => window.axe.run(document, { runOnly }), RULES);
  const violations = result.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`);
  assert.ok(result.passes.some(({ id }) => id === 'color-contrast'), 'contrast was looked at');
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (overflow !== 0) violations.push('wider than the screen');
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(background, scheme === 'light' ? 'rgb(244, 245, 247)' : 'rgb(17, 20, 24)');
  await page.screenshot({ path: join(SCREENSHOTS, `gauge-ui-${name}-${scheme}-${viewport.width}.png`), fullPage: true });
  return violations.map((violation) => `${name}: ${violation}`);
}

/** From an API description to the page of the evaluation that it became. */
async function prepare(page, name, { seconds = 2 } = {}) {
  await page.goto(`${url}/new`);
  await page.getByLabel('Name of the evaluation').fill(name);
  await page.getByLabel('API description', { exact: true }).setInputFiles(DESCRIPTION);
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  for (const box of await page.locator('input[name=gateway]').all()) await box.setChecked((await box.getAttribute('value')) === 'nginx');
  for (const box of await page.locator('input[name=operation]').all()) await box.setChecked((await box.getAttribute('value')) === 'getItem');
  await page.locator('input[name=upstream][value=demo]').check();
  await page.getByLabel('Users, or connections').fill('2');
  await page.getByLabel('Seconds of a trial').fill(String(seconds));
  await page.getByLabel('Rounds; a decision needs six or more').fill('1');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Start' }).waitFor();
}

/** From the description of an evaluation of services to the form with its systems. */
async function describeServices(page, name) {
  await page.goto(`${url}/new`);
  await page.getByLabel('Name of the evaluation').fill(name);
  await page.getByLabel('Or the description of an evaluation of services').selectOption('services.yaml');
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByRole('group', { name: 'Systems' }).waitFor();
}

/** From there to the page of the evaluation that it became. */
async function chooseServices(page, { load = 'own' } = {}) {
  await page.getByRole('checkbox', { name: /^third/ }).uncheck();
  await page.locator(`input[name=load][value=${load}]`).check();
  await page.getByRole('checkbox', { name: /^default/ }).check();
  await page.getByLabel('Another size, bytes').fill('2048');
  await page.getByLabel('Rounds; a decision needs six or more').fill('1');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Start' }).waitFor();
}

for (const scheme of ['light', 'dark']) {
  for (const viewport of [WIDE, NARROW]) {
    test(`every page is accessible and fits: ${scheme}, ${viewport.width} wide`, async (t) => {
      // The checker is a script of this test that the policy would refuse, rightly.
      const page = await open(t, { scheme, viewport, bypassCSP: true });
      const found = [];
      const pages = {
        dashboard: '/', runs: '/runs', run: `/runs/${run}`, configurations: `/runs/${run}/configurations`, compare: `/compare?a=${run}&b=${run}`,
        trends: '/trends?system=weir', evaluations: '/evaluations', upload: '/new',
      };
      for (const [name, path] of Object.entries(pages)) {
        await page.goto(url + path);
        found.push(...(await look(page, name, { scheme, viewport })));
      }
      await prepare(page, `Look ${scheme} ${viewport.width}`);
      found.push(...(await look(page, 'confirm', { scheme, viewport })));
      await page.getByRole('link', { name: 'Change it' }).click();
      found.push(...(await look(page, 'choose', { scheme, viewport })));
      await page.getByRole('link', { name: 'Configuration files of all gateways' }).click();
      found.push(...(await look(page, 'gateways', { scheme, viewport })));
      assert.deepEqual(found, []);
    });

    test(`the pages that choose services are accessible and fit: ${scheme}, ${viewport.width} wide`, async (t) => {
      const page = await open(t, { scheme, viewport, bypassCSP: true, expected: /status of 422/ });
      const found = [];
      await prepare(page, `Both ${scheme} ${viewport.width}`);
      await page.getByRole('link', { name: 'Change it' }).click();
      await page.getByRole('navigation', { name: 'What is compared' }).getByRole('link', { name: 'Services' }).click();
      await page.getByRole('heading', { name: 'Evaluation that names the services' }).waitFor();
      await page.getByText('Does not fit: the description has no operation').waitFor();
      found.push(...(await look(page, 'services', { scheme, viewport })));
      await page.getByRole('link', { name: 'services.yaml' }).click();
      await page.getByRole('group', { name: 'Systems' }).waitFor();
      found.push(...(await look(page, 'services-choose', { scheme, viewport })));
      for (const box of await page.locator('input[name=system]').all()) await box.uncheck();
      await page.getByRole('button', { name: 'Continue' }).click();
      await page.getByRole('alert').getByText('Choose at least one system').waitFor();
      found.push(...(await look(page, 'services-refused', { scheme, viewport })));
      for (const name of [/^plain/, /^cacheable/]) await page.getByRole('checkbox', { name }).check();
      await chooseServices(page, { load: 'saturation' });
      await page.getByText(/84 min of load/).first().waitFor();
      found.push(...(await look(page, 'services-confirm', { scheme, viewport })));
      assert.deepEqual(found, []);
    });
  }
}

test('the keyboard reaches everything, from the link to the content on', async (t) => {
  const page = await open(t);
  await page.goto(url);
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim());
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Skip to content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await page.getByRole('link', { name: 'Runs', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
});

test('a broken upload is refused with its reason', async (t) => {
  const page = await open(t, { expected: /status of 422/ });
  const broken = join(folder, 'broken.yaml');
  writeFileSync(broken, 'openapi: 3.1.0\npaths: [\n');
  await page.goto(`${url}/new`);
  await page.getByLabel('Name of the evaluation').fill('Broken');
  await page.getByLabel('API description', { exact: true }).setInputFiles(broken);
  await page.getByRole('button', { name: 'Upload' }).click();
  await page.getByRole('alert').getByText('The description cannot be used').waitFor();
  assert.equal(await page.getByLabel('Name of the evaluation').inputValue(), 'Broken');
  await page.screenshot({ path: join(SCREENSHOTS, 'gauge-ui-refused.png') });
});

test('a run is started and watched to its end', async (t) => {
  const page = await open(t, { bypassCSP: true });
  await prepare(page, 'Watched', { seconds: 4 });
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('heading', { level: 1, name: 'Watched' }).waitFor();
  // Without loading the page anew: the script shows what happens.
  await page.evaluate(() => (window.same = true));
  const rate = () => /Responses\/s([1-9][0-9,]*)$/.test(document.querySelector('.tiles div')?.textContent ?? '');
  await page.waitForFunction(rate, null, { timeout: 60_000 });
  await page.getByRole('img', { name: /^Rate: responses\/s/ }).waitFor();
  assert.deepEqual(await look(page, 'live', { scheme: 'light', viewport: WIDE }), []);
  await page.getByRole('link', { name: 'Results of this run' }).waitFor({ timeout: 120_000 });
  assert.equal(await page.evaluate(() => window.same), true);
  await page.getByRole('link', { name: 'Results of this run' }).click();
  await page.getByRole('heading', { level: 1, name: 'Watched' }).waitFor();
  await page.getByRole('cell', { name: /of 1/ }).first().waitFor();
  const [report] = await Promise.all([page.waitForURL(/report$/), page.getByRole('link', { name: 'Full report' }).click()]);
  assert.equal(report, undefined);
  // On a machine that is busy the report has no figures, and says so.
  for (const name of ['Ranking', 'Validity', 'Environment', 'Reproduce']) await page.getByRole('heading', { name }).waitFor();
});

test('two services are started by the keyboard and watched to their end', async (t) => {
  const page = await open(t, { bypassCSP: true });
  await describeServices(page, 'Services');
  const third = page.getByRole('checkbox', { name: /^third/ });
  await third.focus();
  await page.keyboard.press('Space');
  assert.equal(await third.isChecked(), false);
  await chooseServices(page);
  await page.getByRole('button', { name: 'Start' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Services' }).waitFor();
  await page.getByRole('img', { name: /^Rate: responses\/s/ }).waitFor({ timeout: 60_000 });
  await page.getByText('cacheable').first().waitFor({ timeout: 60_000 });
  const found = await look(page, 'services-live', { scheme: 'light', viewport: WIDE });
  await page.getByRole('link', { name: 'Results of this run' }).click({ timeout: 120_000 });
  await page.getByRole('heading', { level: 1, name: 'Services' }).waitFor();
  for (const name of ['addItem default', 'addItem 2k']) await page.getByRole('heading', { level: 2, name }).waitFor();
  const result = page.url();
  for (const scheme of ['light', 'dark']) {
    for (const viewport of [WIDE, NARROW]) {
      const other = await open(t, { scheme, viewport, bypassCSP: true });
      await other.goto(result);
      found.push(...(await look(other, 'services-run', { scheme, viewport })));
      const id = result.split('/').pop();
      await other.goto(`${url}/compare?a=${id}&b=${id}`);
      await other.getByRole('heading', { level: 2, name: /^Services of/ }).waitFor();
      found.push(...(await look(other, 'services-compare', { scheme, viewport })));
    }
  }
  assert.deepEqual(found, []);
});

test('the pages work without JavaScript', async (t) => {
  const page = await open(t, { javaScriptEnabled: false });
  for (const path of ['/', '/runs', `/runs/${run}`, '/trends', '/new']) {
    await page.goto(url + path);
    await page.getByRole('heading', { level: 1 }).waitFor();
  }
  await prepare(page, 'Plain');
  await describeServices(page, 'Plain services');
  await chooseServices(page, { load: 'smoke' });
});

test('the full report has no rights here', async (t) => {
  const page = await open(t);
  await page.goto(`${url}/runs/${run}/report`);
  await page.locator('#theme').click();
  assert.equal(await page.evaluate(() => window.origin), 'null');
});
