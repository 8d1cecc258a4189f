/* SPDX-License-Identifier: MIT */
/* search: everything that has a name, found by all words of what is typed. */
const SHOWN = 60;

function indexOf(runs) {
	const all = [], several = runs.length > 1;
	for (const run of runs) {
		const add = (kind, what, where, route) => all.push({
			kind,
			what,
			where: several ? `${run.letter.toUpperCase()} · ${where}` : where,
			route,
			low: `${kind} ${what} ${where}`.toLowerCase()
		});
		for (const fn of run.functions) {
			add('function', fn.name, fn.site, fn.route);
			for (const r of fn.data.traced_again.last) add('traced again', whatFailed(r), `${fn.name}, ${r.site}`, `${fn.route}/why`);
			for (const r of fn.data.noted.last) add('noted', r.text, fn.name, fn.route);
			for (const plan of fn.plans) {
				const at = `${fn.name}, ${plan.label}`;
				plan.steps.forEach((s) => add(s.kind, `${s.short} ${[...new Set(opsOf(s))].join(' ')}`, at, s.route));
				plan.lowered.nodes.forEach((n, r) => n.op !== 'const' && n.op !== 'num' &&
					add('op', `${n.op} ${n.type}`, `${n.site || ''} · ${at}`, `${plan.route}/graph/n${r}`));
				for (const g of plan.inside ? [] : plan.trace.guards) add('guard', g.text, at, `${plan.route}/events`);
				for (const e of plan.inside ? [] : plan.segment.events)
					add('event', `${e.op} ${e.type}`, `${e.site} · ${at}`, `${plan.route}/events`);
				for (const e of plan.inside ? [] : plan.segment.events)
					for (const g of e.guards) add('guard', g.text, at, `${plan.route}/events`);
			}
		}
		for (const v of run.dump.environment) add('setting', v, 'environment', `#${run.letter}`);
	}
	return all;
}

/* Functions and kernels before ops, whole beginnings before parts of words. */
function find(index, text) {
	const words = text.toLowerCase().split(/\s+/).filter(Boolean),
		order = ['function', 'traced again', 'kernel', 'library', 'evaluator', 'flow', 'noted', 'op', 'event', 'guard', 'setting'];
	if (!words.length) return [];
	const rank = (e) => (e.what.toLowerCase().startsWith(words[0]) ? 0 : 100) + (order.indexOf(e.kind) + 1 || 9);
	return index.filter((e) => words.every((w) => e.low.includes(w))).sort((a, b) => rank(a) - rank(b));
}

function marked(text, words) {
	const out = [], low = text.toLowerCase();
	let at = 0;
	while (at < text.length) {
		let next = text.length, long = 0;
		for (const w of words) {
			const k = low.indexOf(w, at);
			if (k >= 0 && (k < next || (k === next && w.length > long))) next = k, long = w.length;
		}
		if (next > at) out.push(text.slice(at, next));
		if (long) out.push(el('mark', {}, text.slice(next, next + long)));
		at = next + long;
		if (!long) break;
	}
	return out;
}

function openSearch(runs) {
	const input = byId('search'), results = byId('results');
	let index = null, found = [], at = -1;
	function choose(k) {
		at = k;
		[...results.children].forEach((li, i) => li.setAttribute('aria-selected', String(i === at)));
		if (at >= 0) {
			results.children[at].scrollIntoView({ block: 'nearest' });
			input.setAttribute('aria-activedescendant', results.children[at].id);
		} else
			input.removeAttribute('aria-activedescendant');
	}
	function close() {
		results.hidden = true;
		input.setAttribute('aria-expanded', 'false');
	}
	function go(k) {
		if (!found[k]) return;
		close();
		input.blur();
		if (location.hash === found[k].route)
			window.dispatchEvent(new Event('hashchange'));
		else
			location.hash = found[k].route;
	}
	function search() {
		index = index || indexOf(runs);
		const words = input.value.toLowerCase().split(/\s+/).filter(Boolean), all = find(index, input.value);
		found = all.slice(0, SHOWN);
		results.replaceChildren(...found.map(
			(e, i) => el('li', {
				role: 'option',
				id: `result-${i}`,
				'aria-selected': 'false',
				onmousedown: (ev) => ev.preventDefault(),
				onclick: () => go(i)
			},
				el('span', { class: 'kind' }, e.kind), el('span', { class: 'what' }, marked(e.what.slice(0, 200), words)),
				el('span', { class: 'where' }, marked(e.where.slice(0, 160), words)))));
		if (words.length && !all.length) results.append(el('li', { class: 'none' }, 'Nothing has all of these words.'));
		if (all.length > SHOWN)
			results.append(el('li', { class: 'none' }, `and ${whole(all.length - SHOWN)} more: another word narrows it`));
		results.hidden = !words.length;
		input.setAttribute('aria-expanded', String(!results.hidden));
		choose(found.length ? 0 : -1);
		highlight(words);
	}
	input.addEventListener('input', search);
	input.addEventListener('focus', () => input.value && search());
	input.addEventListener('blur', close);
	input.addEventListener('keydown', (e) => {
		if (e.key === 'ArrowDown' || e.key === 'ArrowUp')
			found.length && choose(Math.max(0, Math.min(found.length - 1, at + (e.key === 'ArrowDown' ? 1 : -1))));
		else if (e.key === 'Enter')
			go(at);
		else if (e.key === 'Escape') {
			input.value = '';
			search();
			input.blur();
		} else
			return;
		e.preventDefault();
	});
}

/* The nodes of the graph in the page that have all words. */
function highlight(words) {
	if (!shown.graph) return;
	const { nodes } = shown.graph.plan.lowered;
	shown.graph.nodeOf.forEach((g, r) => {
		const n = nodes[r], low = `${n.op} ${n.type} ${n.site || ''}`.toLowerCase();
		g.classList.toggle('found', words.length > 0 && words.every((w) => low.includes(w)));
	});
}
