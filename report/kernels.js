/* SPDX-License-Identifier: MIT */
/* kernels: the steps of a plan, and of the chosen one the text of its kernel, its code and its assembly beside each other. A text gets into
 * the page when it is looked at, and leaves it with the step. */

/* ---- colours of texts ---- */
const comments = {
	kernel: /#.*/,
	code: /;.*|\/\/.*/,
	assembly: /#.*/
};
const words = {
	kernel: /\b(?:kernel|schedule|buf|dim|red|loop|point|load|store|reduce|keep|in|out|kept)\b/,
	code: new RegExp('\\b(?:define|declare|void|ret|br|phi|icmp|fcmp|load|store|getelementptr|call|select|add|fadd|fsub|fmul|fdiv|' +
		'sub|mul|shl|label|entry|float|double|ptr|i1|i8|i16|i32|i64|align|x)\\b'),
	assembly: /^\s+[a-z][a-z0-9.]*/,
};
const numbers = /(?<![\w.%])-?(?:0x[0-9a-fA-F.]+(?:p[+-]?\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b/;
const labels = {
	kernel: /%\d+/,
	code: /[%@][\w.]+/,
	assembly: /%[a-z]\w*|^[\w.$/-]+:/
};

function coloured(text, what) {
	const all = new RegExp(
		`(?<c>${comments[what].source})|(?<l>${labels[what].source})|(?<k>${words[what].source})|(?<d>${numbers.source})`, 'gm');
	const into = document.createDocumentFragment();
	let at = 0;
	for (const m of text.matchAll(all)) {
		if (m.index > at) into.append(text.slice(at, m.index));
		into.append(el('span', { class: Object.keys(m.groups).find((k) => m.groups[k] !== undefined) }, m[0]));
		at = m.index + m[0].length;
	}
	into.append(text.slice(at));
	return into;
}
const COLOURED = 120000; /* characters; longer texts are plain, so that they open at once */

const shut = {
	kernel: false,
	code: false,
	assembly: false
};
const titles = {
	kernel: 'Kernel',
	code: 'LLVM',
	assembly: 'Assembly'
};

/* Why a kernel has no code here: that of a plan which only shares code is not made a second time. */
function whyNone(step) {
	const { compiled, loaded } = step.plan.segment.plan;
	return step.kind === 'kernel' && !compiled && !loaded ? 'It runs the code of an earlier plan.' : 'There is none.';
}

function textPane(step, what) {
	const { text, cut, from } = textOf(step, what), id = `text-${what}`,
		title = what === 'code' && text && text.startsWith('//') ? 'CUDA C' : titles[what];
	const pre = el('pre', { id, tabindex: 0, 'aria-label': title });
	const pane = el('div', { class: 'text' });
	const button = el('button', { type: 'button', 'aria-controls': id }, from ? `${title}, shared with ${from.short}` : title);
	function show() {
		pane.classList.toggle('shut', shut[what]);
		button.setAttribute('aria-expanded', String(!shut[what]));
		if (shut[what] || pre.firstChild) return;
		if (!text)
			pre.append(el('span', { class: 'soft' }, cut ? '' : whyNone(step)));
		else
			pre.append(text.length > COLOURED ? text : coloured(text, what));
	}
	button.addEventListener('click', () => {
		shut[what] = !shut[what];
		show();
	});
	pane.append(button, cut ? el('div', { class: 'cutoff' }, `${bytes(cut)} of it had no room in the dump`) : '', pre);
	show();
	return pane;
}

/* ---- one step ---- */
const rate = (n, ns, unit) => ns > 0 && n > 0 ? `${digits(n / ns)} ${unit}` : null;

function stepFacts(step) {
	const { plan, ran } = step, facts = [];
	const add = (name, value) =>
		value !== null && value !== undefined && value !== '' && facts.push(el('span', {}, `${name} `, el('b', {}, value)));
	add(plan.measured ? 'time' : 'estimate', step.time ? nanos(step.time) : null);
	add('of a run', plan.oneRun && step.time ? percent(step.time / plan.oneRun) : null);
	add('runs', step.runs ? whole(step.runs) : null);
	if (ran) {
		add('reads', ran.read ? bytes(ran.read) : null);
		add('writes', ran.wrote ? bytes(ran.wrote) : null);
		add('', plan.measured ? rate((ran.read || 0) + (ran.wrote || 0), step.time, 'GB/s') : null);
		add('flops', ran.flops ? large(ran.flops) : null);
		add('', plan.measured ? rate(ran.flops, step.time, 'GF/s') : null);
		add('units', ran.units ? whole(ran.units) : null);
		add('on', ran.device);
		add('if need be, plain and then', ran.rest);
	}
	if (step.data.beside) add('in one region with the', `${plural(step.data.beside, 'step')} after it`);
	if (step.data.follows) add('goes through its rows', 'with the step before it');
	if (step.data.epilogue) add('epilogue', 'the kernel after it, in the same call');
	return facts;
}

function opTable(step) {
	const { nodes } = step.plan.lowered, ran = step.ran;
	const rows = ran && ran.ops && ran.ops.length
		? ran.ops.map((o) => ({ op: o.op, site: o.site, share: o.share || 0 }))
		: step.nodes.map((r) => ({ op: nodes[r].op, site: nodes[r].site || '?', share: 0 }));
	const merged = new Map();
	for (const o of rows) {
		const key = `${o.op} ${o.site}`, m = merged.get(key) || {...o, share: 0, times: 0 };
		m.share += o.share;
		m.times++;
		merged.set(key, m);
	}
	const lines = [...merged.values()], known = lines.some((o) => o.share > 0);
	return table(
		[
			{ name: 'Op', show: (o) => el('span', { class: 'mono' }, o.times > 1 ? `${o.op} × ${o.times}` : o.op), of: (o) => o.op },
			{ name: 'Line', show: (o) => site(o.site), of: (o) => o.site },
			known && { name: 'Share of the work', n: true, show: (o) => o.share ? percent(o.share) : '', of: (o) => o.share },
		].filter(Boolean),
		lines, known ? 2 : -1, `Ops of ${step.short}`);
}

function stepView(step) {
	const { plan } = step, lines = sitesOf(step), node = step.nodes.find((r) => plan.lowered.nodes[r].how !== 'view');
	const ops = el('details', {},
		el('summary', {}, `${plural(step.nodes.length, 'op')} of ${plural(lines.length, 'line')}: `,
			el('span', { class: 'mono' }, [...new Set(opsOf(step))].slice(0, 12).join(' '))));
	ops.addEventListener('toggle', () => ops.open && ops.childElementCount === 1 && ops.append(opTable(step)));
	return [
		el('div', { class: 'stephead' }, el('h2', {}, step.name, ' ', tag(step.kind, step.kind === 'evaluator' ? 'bad' : '')),
			el('div', { class: 'facts' }, stepFacts(step)), ops,
			el('p', {}, node !== undefined && el('a', { href: `${plan.route}/graph/n${node}` }, 'Show it in the graph'),
				step.regions.map((p, i) => [node !== undefined || i ? ' · ' : '',
					el('a', { href: `${p.route}/graph` }, `region ${i + 1}: its plan`)]))),
		el('div', { class: 'texts' },
			step.data.kernel !== undefined || step.data.kernel_cut || step.kind === 'kernel'
				? ['kernel', 'code', 'assembly'].map((what) => textPane(step, what))
				: el('p', { class: 'waiting' },
					step.kind === 'flow' ? 'The regions of control flow have plans of their own.' : 'It has no kernel.')),
	];
}

/* ---- the list ---- */
let stepOrder = 'program';

function kernelsView(plan, wanted) {
	const chosen = el('div', { class: 'step' }), most = plan.steps.reduce((m, s) => Math.max(m, s.time), 0);
	const items = el('ol', { role: 'listbox', tabindex: 0, 'aria-label': 'Steps of the plan' });
	let now = null, order = [];
	const select = el('select', { 'aria-label': 'Order of the steps' },
		[['program', 'as they run'], ['time', plan.measured ? 'by time' : 'by estimate']].map(
			([v, t]) => el('option', { value: v, selected: v === stepOrder }, t)));
	function open(step, focus) {
		now = step;
		for (const li of items.children) li.setAttribute('aria-selected', String(li.dataset.step === String(step.index)));
		const li = items.querySelector(`[data-step="${step.index}"]`);
		items.setAttribute('aria-activedescendant', li.id);
		if (focus) li.scrollIntoView({ block: 'nearest' });
		history.replaceState(null, '', step.route);
		chosen.replaceChildren(...stepView(step).flat().filter(Boolean));
	}
	function fill() {
		order = stepOrder === 'time' ? [...plan.steps].sort((a, b) => b.time - a.time) : plan.steps;
		items.replaceChildren(
			...order.map((s) => el('li', {
				role: 'option',
				id: `step-${s.index}`,
				'data-step': s.index,
				class: s.beside && stepOrder === 'program' ? 'in-bundle' : '',
				'aria-selected': String(s === now),
				onclick: () => open(s, false),
				title: s.beside ? 'runs beside the step above' : null
			},
				el('span', { class: 'name' }, s.short), el('span', { class: 'soft' }, s.time ? nanos(s.time) : ''),
				el('span', { class: 'ops' }, s.kind === 'kernel' ? '' : `${s.kind}: `, [...new Set(opsOf(s))].join(' ')),
				most > 0 && bar([[s.time / most, kindColour(s.kind)]], `${nanos(s.time)} of at most ${nanos(most)}`))));
	}
	select.addEventListener('change', () => {
		stepOrder = select.value;
		fill();
		if (now) open(now, true);
	});
	items.addEventListener('keydown', (e) => {
		const way = { ArrowDown: 1, ArrowUp: -1 }[e.key], at = order.indexOf(now);
		if (!way && e.key !== 'Home' && e.key !== 'End') return;
		e.preventDefault();
		open(order[e.key === 'Home' ? 0
			: e.key === 'End' ? order.length - 1
				: Math.max(0, Math.min(order.length - 1, at + way))],
			true);
	});
	fill();
	if (plan.steps.length)
		requestAnimationFrame(() => open(plan.steps[wanted] || order[0], true));
	else
		chosen.append(el('p', { class: 'waiting' }, 'The plan has no steps: all results are there already.'));
	return [el('div', { class: 'steps' }, el('div', { class: 'order' }, plural(plan.steps.length, 'step'), select), items), chosen];
}
