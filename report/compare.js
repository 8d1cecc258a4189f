/* SPDX-License-Identifier: MIT */
/* compare: what changed from the first run to the second. Functions are the same if name and line are, or else the name; kernels if their
 * text is, without names and estimates. */

function pairUp(a, b, keys) {
	const left = new Set(b), pairs = [];
	for (const key of keys) {
		const of = new Map();
		for (const y of left) {
			const k = key(y);
			of.set(k, [...(of.get(k) || []), y]);
		}
		for (const x of a) {
			if (pairs.some(([p]) => p === x)) continue;
			const y = (of.get(key(x)) || []).shift();
			if (!y) continue;
			left.delete(y);
			pairs.push([x, y]);
		}
	}
	const met = new Map(pairs);
	return [...a.map((x) => [x, met.get(x) || null]), ...[...left].map((y) => [null, y])];
}

/* +12 %, coloured: more is worse. what: formats a value */
function change(x, y, what, worse = 1) {
	if (x === y) return el('span', { class: 'soft' }, 'same');
	const way = worse && (y > x ? worse : -worse), part = x ? y / x - 1 : Infinity;
	const text = !Number.isFinite(part) ? `+${what(y)}`
		: Math.abs(part) < 1 ? `${part > 0 ? '+' : '−'}${digits(Math.abs(100 * part))} %`
			: `× ${digits(y / x)}`;
	return el('span', { class: Math.abs(part) < 0.03 || !way ? 'soft' : way > 0 ? 'up' : 'down' }, text);
}
const both = (x, y, of, what, worse) => el('span', { class: 'both' }, x && y && of(x) === of(y) ? [what(of(x)), ' ', change(1, 1)] : [
	`${x ? what(of(x)) : '–'} → ${y ? what(of(y)) : '–'}`, x && y && [el('br'), change(of(x), of(y), what, worse)]
]);

function compareView([a, b]) {
	const pairs = pairUp(a.functions, b.functions, [
		(f) => `${f.name} ${f.site}`, (f) => `${f.name} ${fileOf(f.site).replace(/:.*/, '')}`, (f) => f.name
	]).map(([x, y]) => ({ x, y, rowClass: y ? '' : 'gone' }));
	return [
		el('h1', {}, 'What changed'),
		el('div', { class: 'pair' },
			[a, b].map(
				(run) => el('div', { class: 'panel' },
					el('h3', {}, el('span', { class: 'runmark' }, run.letter.toUpperCase()), ' ',
						el('a', { href: `#${run.letter}`, title: run.file }, fileOf(run.file))),
					el('p', {}, run.dump.program, ', ', day(run.dump.written)), el('p', { class: 'soft' }, machineLine(run.dump))))),
		el('section', {}, el('h2', {}, 'Functions'), el('div', { class: 'panel' }, compareFunctions(pairs))),
		el('section', {}, el('h2', {}, 'Traced again'), compareReasons(pairs)),
		el('section', {}, el('h2', {}, 'Kernels and other steps'),
			pairs.filter((p) => p.x && p.y).map((p) => compareSteps(p.x, p.y))),
		el('section', {}, el('h2', {}, 'Settings, versions, machine'), compareSettings(a, b)),
	].flat();
}

const state = (p) => !p.y ? tag('gone', 'warn') : !p.x ? tag('new', 'accent') : '';
const oneRun = (f) => f.plans.filter((p) => !p.inside).reduce((n, p) => n + p.oneRun, 0);

function compareFunctions(pairs) {
	const has = (p) => p.y || p.x;
	return table(
		[
			{
				name: 'Function',
				of: (p) => has(p).name,
				show: (p) => [el('b', {}, has(p).name), ' ', state(p), ' ', p.x && el('a', { href: p.x.route }, 'A'), ' ',
					p.y && el('a', { href: p.y.route }, 'B'), el('br'), site(has(p).site)]
			},
			{ name: 'Calls', n: true, show: (p) => both(p.x, p.y, (f) => f.stats.calls, whole, 0) },
			{
				name: 'Traced again',
				n: true,
				of: (p) => (p.y ? p.y.again : 0) - (p.x ? p.x.again : 0),
				show: (p) => both(p.x, p.y, (f) => f.again, whole)
			},
			{ name: 'Kernels', n: true, show: (p) => both(p.x, p.y, (f) => f.stats.kernels, whole) },
			{ name: 'Temporaries', n: true, show: (p) => both(p.x, p.y, (f) => f.stats.peak_bytes, bytes) },
			{ name: 'Compile', n: true, show: (p) => both(p.x, p.y, (f) => f.compileMs, millis) },
			{
				name: 'One run of each plan',
				n: true,
				of: (p) => p.x && p.y ? oneRun(p.y) - oneRun(p.x) : 0,
				show: (p) => both(p.x, p.y, oneRun, nanos)
			},
		],
		pairs, -1, 'Functions of both runs');
}

/* ---- reasons ---- */
function compareReasons(pairs) {
	const rows = [];
	for (const { x, y } of pairs) {
		const of = (f) => f ? f.data.traced_again.last : [], key = (r) => `${r.site} ${whatFailed(r)}`;
		for (const [r, s] of pairUp(of(x), of(y), [key])) rows.push({ fn: y || x, r, s, rowClass: s ? '' : 'gone' });
	}
	if (!rows.length) return el('p', { class: 'soft' }, 'In both runs every call after the first found its trace.');
	return el('div', { class: 'panel' },
		table(
			[
				{ name: 'Function', of: (o) => o.fn.name, show: (o) => el('a', { href: `${o.fn.route}/why` }, o.fn.name) },
				{ name: 'Line', show: (o) => site((o.s || o.r).site) },
				{ name: 'What failed', show: (o) => whatFailed(o.s || o.r) },
				{ name: 'Times', n: true, show: (o) => both(o.r, o.s, (r) => r.times, whole) },
				{ name: '',
					show: (o) => !o.s ? tag('gone', 'accent')
						: !o.r ? tag('new', 'warn')
							: '' },
				{ name: 'What to do', show: (o) => (o.s || o.r).cure },
			],
			rows, -1, 'Why calls were traced again'));
}

/* ---- steps ---- */
const stepKey = (s) => s.data.kernel ? s.data.kernel.replace(/^kernel .*$/m, 'kernel').replace(/\b(ns|grain)=\S+/g, '')
	: `${s.kind} ${opsOf(s).join(' ')} ${sitesOf(s).join(' ')}`;
const stepLike = (s) => `${s.kind} ${opsOf(s).join(' ')} ${s.nodes.map((r) => s.plan.lowered.nodes[r].type).join(' ')}`;
const stepNear = (s) => `${s.kind} ${[...new Set(opsOf(s))].sort().join(' ')}`;

function compareSteps(f, g) {
	const steps = (fn) => fn.plans.flatMap((p) => p.steps), a = steps(f), b = steps(g);
	if (!a.length && !b.length) return null;
	const equal = pairUp(a, b, [stepKey]), same = equal.filter(([x, y]) => x && y);
	const other =
		pairUp(equal.filter(([, y]) => !y).map(([x]) => x), equal.filter(([x]) => !x).map(([, y]) => y), [stepLike, stepNear]);
	const rows = [
		...same.map(([x, y]) => ({ x, y, how: 'same' })),
		...other.map(([x, y]) => ({ x,
			y,
			how: x && y ? 'changed'
				: x ? 'gone'
					: 'new' }))
	].map((r) => ({...r, rowClass: r.how === 'gone' ? 'gone' : '' }));
	const count = (how) => rows.filter((r) => r.how === how).length, has = (r) => r.y || r.x;
	const delta = (r) => Math.abs((r.y ? r.y.time : 0) - (r.x ? r.x.time : 0));
	const measured = f.measured && g.measured ? 'time' : 'time (estimates, unless measured)';
	const make =
		() =>
			table(
				[
					{
						name: 'Step',
						of: (r) => has(r).short,
						show: (r) => [r.x ? el('a', { href: r.x.route }, r.x.short) : '–', ' → ',
							r.y ? el('a', { href: r.y.route }, r.y.short) : '–']
					},
					{
						name: '',
						of: (r) => r.how,
						show: (r) => r.how === 'same' ? tag('same') : tag(r.how, r.how === 'changed' ? 'warn' : 'accent')
					},
					{ name: 'Ops', show: (r) => el('span', { class: 'mono' }, [...new Set(opsOf(has(r)))].slice(0, 8).join(' ')) },
					{ name: 'Line', show: (r) => site(sitesOf(has(r))[0]) },
					{ name: measured, n: true, of: delta, show: (r) => both(r.x, r.y, (s) => s.time, nanos) },
				],
				rows, 4, `Steps of ${f.name}`);
	const d = el('details', { class: 'panel', open: rows.length < 60 },
		el('summary', {}, el('b', {}, f.name),
			`: ${whole(count('same'))} same, ${whole(count('changed'))} changed, ${whole(count('new'))} new, ${
				whole(count('gone'))} gone`));
	const fill = () => d.open && d.childElementCount === 1 && d.append(make());
	d.addEventListener('toggle', fill);
	fill();
	return d;
}

/* ---- settings ---- */
function flat(run) {
	const d = run.dump, all = {
		tjit: d.tjit,
		build: d.build,
		CPU: d.machine.cpu,
		'vector bits': d.machine.vector_bits,
		'CPUs allowed': d.machine.allowed
	};
	for (const l of d.libraries) all[l.name] = l.version || 'missing';
	for (const [k, v] of Object.entries(d.settings)) all[`settings.${k}`] = v;
	for (const [k, v] of Object.entries(d.options)) all[`options.${k}`] = v;
	for (const v of d.environment) all[v.replace(/=.*/s, '')] = v.replace(/^[^=]*=/, '');
	return all;
}

function compareSettings(a, b) {
	const x = flat(a), y = flat(b),
		rows = [...new Set([...Object.keys(x), ...Object.keys(y)])].filter((k) => x[k] !== y[k]).map((k) => ({ k }));
	if (!rows.length) return el('p', { class: 'soft' }, 'They are the same.');
	const cell = (v) => v === undefined ? '–' : show(v);
	return el('div', { class: 'panel' },
		table(
			[
				{ name: 'Name', show: (r) => el('span', { class: 'mono' }, r.k) }, { name: 'A', show: (r) => cell(x[r.k]) },
				{ name: 'B', show: (r) => cell(y[r.k]) }
			],
			rows, -1, 'Settings that differ'));
}
