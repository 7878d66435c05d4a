// Replaces what changes while a run goes on. Pages are made by the program; without this script they are loaded anew now and then.

const EVERY = 1000;

const main = () => document.querySelector('main[data-live]');

async function refresh() {
  const live = main()?.querySelector('#live');
  if (!live || document.hidden) return;
  const response = await fetch(location.href, { headers: { Accept: 'text/html' } });
  // A page that has changed altogether (a login, the end of a run) is shown as a whole.
  if (response.redirected) {
    location.assign(response.url);
    return;
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const fresh = page.querySelector('#live');
  // What has the focus stays in its place.
  if (fresh && !live.contains(document.activeElement)) live.replaceChildren(...fresh.childNodes);
  const said = page.querySelector('#said')?.textContent ?? '';
  const here = document.querySelector('#said');
  if (here && here.textContent !== said) here.textContent = said;
  if (!page.querySelector('main[data-live]')) {
    main().replaceChildren(...page.querySelector('main').childNodes);
    main().removeAttribute('data-live');
  }
}

async function follow() {
  const lost = document.querySelector('#lost');
  try {
    await refresh();
    if (lost) lost.hidden = true;
  } catch {
    if (lost) lost.hidden = false;
  }
  if (main()) setTimeout(follow, EVERY);
}

if (main()) setTimeout(follow, EVERY);
