/* SPDX-License-Identifier: MIT */
/* traces: a function: its counters, why it was traced again, its traces as a tree with their guards; of a plan its events and decisions. */

function functionView(fn) {
	const s = fn.stats, rate = s.calls ? s.hits / s.calls : 0, o = fn.data.options;
	return [
		el('p', { class: 'crumbs' }, el('a', { href: `#${fn.run.letter}` }, 'Overview'), ' › function'),
		el('h1', {}, fn.name, ' ', el('span', { class: 'site' }, fn.site)),
		el('p', {}, tag(o.mode), ' ', tag(o.numerics), ' ', o.autocast && tag(`autocast ${o.autocast}`), ' ',
			o.dynamic !== 'auto' && tag(`.dynamic ${o.dynamic}`), o.shapes && tag(`.shapes "${o.shapes}"`), ' ',
			o.own_backend && tag('own back end'), ' ', tag(`${plural(o.nin, 'argument')}, ${plural(o.nout, 'result')}`)),
		el('div', { class: 'cards' }, card(whole(s.calls), 'calls'),
			card(s.calls ? percent(rate) : '–', 'found their trace', s.calls > 4 && rate < 0.5 ? 'warn' : ''),
			card(whole(fn.again), 'traced again', fn.again ? 'warn' : ''), card(whole(s.kernels), 'kernels'),
			card(whole(s.library_calls), 'library calls'), card(whole(s.eval_steps), 'evaluator steps', s.eval_steps ? 'bad' : ''),
			card(millis(fn.compileMs), 'to trace and compile'), card(bytes(s.peak_bytes), 'temporaries at most'),
			s.failures > 0 && card(whole(s.failures), 'failed calls', 'bad')),
		compileBar(fn),
		el('section', { id: 'why' }, el('h2', {}, `Traced again ${plural(fn.again, 'time')}`),
			fn.data.traced_again.last.length ? fn.data.traced_again.last.map((r) => reasonPanel(fn, r))
				: el('p', { class: 'soft' }, 'Every call after the first one found its trace.')),
		fn.data.noted.last.length > 0 && el('section', {}, el('h2', {}, 'Noted'), fn.data.noted.last.map((r) => reasonPanel(fn, r))),
		el('section', {}, el('h2', {}, 'Traces and their guards'), tree(fn)),
		el('section', {}, el('h2', {}, 'Counters'),
			el('details', {}, el('summary', {}, 'All of tj_fn_stats()'), list(Object.entries(s).map(([k,
				v]) => [k, typeof v === 'number' ? (Number.isInteger(v) ? whole(v) : digits(v)) : '–'])))),
	].flat()
		.filter(Boolean);
}

function compileBar(fn) {
	const s = fn.stats, all = fn.compileMs;
	if (!all) return null;
	return el('div', {},
		bar([[s.trace_ms / all, 'var(--trace)'], [s.lower_ms / all, 'var(--lower)'], [s.codegen_ms / all, 'var(--codegen)']],
			`Tracing ${millis(s.trace_ms)}, lowering ${millis(s.lower_ms)}, code generation ${millis(s.codegen_ms)}`),
		legend([
			['var(--trace)', `tracing ${millis(s.trace_ms)}`], ['var(--lower)', `lowering ${millis(s.lower_ms)}`],
			[
				'var(--codegen)',
				`code generation ${millis(s.codegen_ms)}: ${whole(s.compiled)} compiled, ${whole(s.loaded)} from disk, ${
					whole(s.shared)} shared`
			]
		]));
}

function reasonPanel(fn, r) {
	const where = whatFailed({...r, expected: undefined });
	return el('div', { class: 'panel reason' },
		el('h3', {}, tag(r.kind, 'warn'), where === r.kind ? '' : where, ' ', site(r.site),
			r.times > 1 && tag(`${whole(r.times)} times`)),
		r.expected !== undefined && r.found !== undefined
			? el('div', { class: 'change' }, el('span', { class: 'was', title: 'expected' }, r.expected), '→',
				el('span', { class: 'is', title: 'found' }, r.found))
			: el('p', {}, r.text),
		r.trace !== undefined &&
			el('p', { class: 'soft' },
				`Trace ${r.trace}${r.segment === undefined ? '' : `, segment ${r.segment}`}${
					r.event === undefined ? '' : `, event ${r.event}`}`),
		r.cure && el('p', { class: 'cure' }, r.cure));
}

/* ---- the tree ---- */
const guardRow = (g) => el('div', { class: `guard leaf ${g.dropped ? 'dropped' : ''}` }, tag(g.kind),
	el('span', { class: 'mono' }, g.text, g.dropped && ' (dropped by .guard_filter)'));

/* What a node of the tree has inside is made when it is opened. */
function branch(open, summary, inside) {
	const d = el('details', { open }, el('summary', {}, summary));
	const fill = () => d.open && d.childElementCount === 1 && d.append(el('ul', {}, inside().map((x) => el('li', {}, x))));
	d.addEventListener('toggle', fill);
	fill();
	return d;
}

function tree(fn) {
	const { signatures } = fn.data;
	if (!signatures.length) return el('p', { class: 'soft' }, 'It was not called.');
	return el('ul', { class: 'tree panel' },
		signatures.map((s) => el('li', {},
			branch(signatures.length < 6,
				[
					el('b', {}, `Signature ${s.number} `), el('span', { class: 'mono' }, s.text), ' ',
					s.sizes > 1 && tag(plural(s.sizes, 'size'))
				],
				() => [...s.traces.map((t) => traceBranch(fn, s, t)),
					...(s.more ? [el('span', { class: 'leaf soft' },
						`and ${whole(s.more)} more sizes: ${whole(s.more_hits)} calls hit them`)]
						: [])]))));
}

function traceBranch(fn, signature, trace) {
	return branch(signature.traces.length < 4,
		[el('b', {}, `Trace ${traceName(trace)} `), tag(plural(trace.hits, 'hit'), trace.hits ? 'accent' : '')],
		() => [...trace.guards.map(guardRow), ...trace.segments.map((g) => segmentBranch(fn, trace, g)),
			...(trace.segments_left_out
				? [el('span', { class: 'leaf soft' }, `${plural(trace.segments_left_out, 'segment')}, as in the traces above`)]
				: [])]);
}

function segmentBranch(fn, trace, segment) {
	const plan = fn.plans.find((p) => p.trace === trace && p.segment === segment && !p.inside),
		guards = segment.events.flatMap((e) => e.guards);
	return branch(trace.segments.length < 5,
		[
			el('b', {}, `Segment ${segment.number} `),
			`${plural(Math.max(0, segment.events.length - 1), 'event')}, ends in ${segment.ends_in} at `, site(segment.site), ' ',
			tag(plural(segment.runs, 'run'), segment.runs ? 'accent' : ''), ' ', segment.boundary && tag('boundary', 'warn'), ' ',
			plan && el('a', { href: `${plan.route}/graph` }, 'graph and kernels')
		],
		() => [segment.boundary && el('div', { class: 'leaf' }, segment.boundary),
			...(segment.branches || [])
				.map((b) => el('div', { class: 'leaf' },
					`${b.value}: ${plural(b.times, 'time')}${b.then === undefined ? '' : `, then segment ${b.then}`}`)),
			...guards.map(guardRow), branch(false, plural(segment.events.length, 'event'), () => [eventTable(segment)])]
				.filter(Boolean));
}

function eventTable(segment) {
	return el('div', { class: 'events' },
		table(
			[
				{ name: '', n: true, show: (e) => `%${e.number}` },
				{ name: 'Event', show: (e) => el('span', { class: 'mono' }, e.op) },
				{ name: 'Result', show: (e) => el('span', { class: 'mono' }, e.type) },
				{ name: 'Operands', show: (e) => el('span', { class: 'mono' }, e.operands) },
				{ name: 'Attributes', show: (e) => el('span', { class: 'mono' }, e.attrs || '') },
				{ name: 'Line', show: (e) => site(e.site) },
			],
			segment.events.map((e, i) => ({...e, number: i })), -1, 'Events'));
}

/* ---- tabs of a plan ---- */
function eventsView(plan) {
	const guards = [...plan.trace.guards, ...plan.segment.events.flatMap((e) => e.guards)];
	return [
		el('h2', {}, plural(guards.length, 'guard')),
		el('p', { class: 'soft' },
			'The first ones are compared before the body runs. Then each event that the body asks for is compared with the recorded one: ' +
				'op, operands and attributes.'),
		el('div', { class: 'panel' }, guards.map(guardRow)), el('h2', {}, plural(plan.segment.events.length, 'event')),
		el('div', { class: 'panel' }, eventTable(plan.segment))
	];
}

function decisionsView(plan) {
	const all = plan.segment.plan.decisions || [], kinds = { evaluator: 'bad', device: 'bad', fusion: 'warn' };
	return [
		plan.segment.boundary &&
			el('div', { class: 'panel reason' }, el('h3', {}, tag('boundary', 'warn')), el('p', {}, plan.segment.boundary)),
		all.length ? el('div', { class: 'panel' },
			table(
				[
					{ name: 'Kind', of: (d) => d.kind, show: (d) => tag(d.kind, kinds[d.kind] || '') },
					{ name: 'Op', of: (d) => d.op, show: (d) => el('span', { class: 'mono' }, d.op) },
					{ name: 'Line', of: (d) => d.site, show: (d) => site(d.site) },
					{ name: 'What was decided, and why', show: (d) => `${d.text}` },
					{ name: 'Bytes', n: true, of: (d) => d.bytes, show: (d) => d.bytes > 0 ? bytes(d.bytes) : '' },
				],
				all, -1, 'Decisions'))
			: el('p', { class: 'soft' },
				'All values are computed where they are read, or are stored for a reader that needs them in memory.')
	].filter(Boolean);
}
