/* SPDX-License-Identifier: MIT */
/* main: the contents at the side, what the address asks for, keys.
 *
 *   #compare            two runs            #a/f2             a function; /why: why it was traced again
 *   #a                  a run               #a/f2/p0/graph/n7 a plan: graph, kernels, memory, events, decisions; what is chosen there */
const shown = {
	graph: null
};
let allRuns = [];

/* ---- the side ---- */
function sideOf(run) {
	const link = (route, name, count) => el('a', { href: route }, name, count && el('span', { class: 'count' }, count));
	const plansOf = (fn) => fn.plans.filter((p) => !p.inside);
	return [
		allRuns.length > 1
			? el('h2', { class: 'file' }, el('span', { class: 'runmark' }, run.letter.toUpperCase()), ` ${fileOf(run.file)}`)
			: el('h2', {}, 'Report'),
		el('ul', {}, el('li', {}, link(`#${run.letter}`, 'Overview')),
			run.functions.map(
				(fn) => el('li', {}, link(fn.route, fn.name, fn.again ? `again ${whole(fn.again)}` : ''),
					plansOf(fn).length > 0 &&
						el('ul', {},
							plansOf(fn).slice(0, 40).map(
								(p) => el('li', {}, link(`${p.route}/graph`, p.label, plural(p.steps.length, 'step')))),
							plansOf(fn).length > 40 && el('li', { class: 'soft' }, `and ${plansOf(fn).length - 40} more`))))),
	];
}

const outermost = (plan) => plan.inside ? outermost(plan.within.plan) : plan;

function markSide(hash, plan) {
	const here = plan ? `${outermost(plan).route}/graph` : hash.replace(/\/why$/, '');
	for (const a of byId('side').querySelectorAll('a')) {
		if (a.getAttribute('href') === here) {
			a.setAttribute('aria-current', 'page');
			a.scrollIntoView({ block: 'nearest' });
		} else
			a.removeAttribute('aria-current');
	}
}

/* ---- a plan ---- */
const tabs =
	[['graph', 'Graph'], ['kernels', 'Kernels'], ['memory', 'Memory'], ['events', 'Events and guards'], ['decisions', 'Decisions']];

function planCrumbs(plan) {
	const { fn, within } = plan;
	return el('p', { class: 'crumbs' }, el('a', { href: `#${fn.run.letter}` }, 'Overview'), ' › ', el('a', { href: fn.route }, fn.name),
		' › ', within ? [el('a', { href: within.route }, within.plan.label), ' › region'] : 'plan');
}

function planFacts(plan) {
	const { segment } = plan, facts = [plural(plan.lowered.nodes.length, 'node'), plural(plan.steps.length, 'step')];
	if (!plan.inside) facts.push(plural(segment.runs, 'run'));
	if (plan.oneRun) facts.push(`${nanos(plan.oneRun)} a run${plan.measured ? ', measured' : ' by estimate'}`);
	if (!plan.inside) facts.push(`lowering ${millis(segment.plan.lower_ms || 0)}, code generation ${millis(segment.plan.codegen_ms || 0)}`);
	return facts.join(' · ');
}

function planView(plan, tab, wanted) {
	const { fn } = plan;
	const list = el('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Views of the plan' },
		tabs.map(([id, name]) => el('button', {
			type: 'button',
			role: 'tab',
			id: `tab-${id}`,
			'aria-selected': String(id === tab),
			'aria-controls': 'panel',
			tabindex: id === tab ? 0 : -1,
			onclick: () => location.hash = `${plan.route}/${id}`
		},
			name)));
	list.addEventListener('keydown', (e) => {
		const way = { ArrowRight: 1, ArrowLeft: -1 }[e.key], at = tabs.findIndex(([id]) => id === tab);
		if (!way) return;
		e.preventDefault();
		shown.focusTab = true;
		location.hash = `${plan.route}/${tabs[(at + way + tabs.length) % tabs.length][0]}`;
	});
	const head = el('div', { class: 'planhead' }, planCrumbs(plan),
		el('h1', {}, `${fn.name}, ${plan.label}`, el('span', { class: 'facts-line' }, planFacts(plan))), list);
	const body = el('div', { class: 'tabpanel', id: 'panel', role: 'tabpanel', 'aria-labelledby': `tab-${tab}` });
	if (tab === 'graph') {
		body.classList.add('split');
		shown.graph = graphView(plan, wanted('n'));
		body.append(...shown.graph.panel);
	} else if (tab === 'kernels' || tab === 'memory') {
		body.classList.add('split');
		body.append(...(tab === 'kernels' ? kernelsView(plan, wanted('s')) : memoryView(plan, wanted('b'))));
	} else {
		body.classList.add('pad');
		body.append(...(tab === 'events' ? eventsView(plan) : decisionsView(plan)));
	}
	return [head, body];
}

/* ---- what the address asks for ---- */
function open() {
	const main = byId('main'), hash = location.hash || (allRuns.length > 1 ? '#compare' : '#a'),
		[letter, f, p, ...rest] = hash.slice(1).split('/');
	const run = allRuns.find((r) => r.letter === letter) || allRuns[0], fn = f && run.functions[Number(f.slice(1))];
	const plan = fn && p && p[0] === 'p' ? fn.plans[Number(p.slice(1))] : null;
	shown.graph = null;
	main.classList.toggle('whole', Boolean(plan));
	if (plan) {
		const tab = tabs.some(([id]) => id === rest[0]) ? rest[0] : 'graph', chosen = rest[1] || '';
		main.replaceChildren(...planView(plan, tab, (kind) => chosen[0] === kind ? Number(chosen.slice(1)) : -1));
		document.title = `${fn.name}, ${plan.label}: tjit report`;
	} else if (fn) {
		main.replaceChildren(...functionView(fn));
		document.title = `${fn.name}: tjit report`;
	} else if (letter === 'compare' && allRuns.length > 1) {
		main.replaceChildren(...compareView(allRuns));
		document.title = 'What changed: tjit report';
	} else {
		main.replaceChildren(...overview(run));
		document.title = `${run.dump.program}: tjit report`;
	}
	byId('program').textContent = allRuns.length < 2 ? run.dump.program
		: letter === 'compare' ? 'two runs'
			: `${run.letter.toUpperCase()} · ${fileOf(run.file)}`;
	main.scrollTop = 0;
	if (p === 'why') byId('why').scrollIntoView();
	if (shown.focusTab && plan) main.querySelector('[role="tab"][aria-selected="true"]').focus();
	shown.focusTab = false;
	markSide(plan || fn ? hash : letter === 'compare' ? '#compare' : `#${run.letter}`, plan);
}

function onKey(e) {
	const typing = e.target.closest && e.target.closest('input, textarea, select');
	if (e.ctrlKey || e.metaKey || e.altKey || typing || byId('help').open) return;
	if (e.key === '/')
		byId('search').focus(), byId('search').select();
	else if (e.key === '?')
		byId('help').showModal();
	else if (e.key === 'Escape' && shown.graph && shown.graph.chosen >= 0)
		choose(shown.graph, -1, true);
	else
		return;
	e.preventDefault();
}

async function start() {
	openTheme();
	byId('keys').addEventListener('click', () => byId('help').showModal());
	document.addEventListener('keydown', onKey);
	try {
		allRuns = await readDumps();
	} catch (e) {
		byId('main').replaceChildren(el('p', { class: 'waiting' },
			typeof DecompressionStream === 'undefined' ? 'This page needs a browser of 2023 or later (DecompressionStream).'
				: `The report cannot be read: ${e.message}`));
		return;
	}
	byId('side').append(...(allRuns.length > 1 ? [el('ul', {}, el('li', {}, el('a', { href: '#compare' }, 'What changed')))] : []),
		...allRuns.flatMap(sideOf));
	byId('brand').setAttribute('href', allRuns.length > 1 ? '#compare' : '#a');
	window.addEventListener('hashchange', open);
	openSearch(allRuns);
	open();
	document.documentElement.dataset.ready = 'yes';
}
start();
