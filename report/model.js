/* SPDX-License-Identifier: MIT */
/* model: the dumps in the page, read and joined: functions, their plans, the time of each step, what to look at first.
 *
 * run.functions[f].plans[p] is a plan of a segment, or of a region of control flow; its steps have the names, texts and buffers of
 * `lowered` and the times of the plan that ran. */

async function readDumps() {
	const runs = [];
	for (const script of document.querySelectorAll('script.dump')) {
		const packed = Uint8Array.from(atob(script.textContent.replace(/\s/g, '')), (c) => c.charCodeAt(0));
		script.remove();
		const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
		const { file, dump } = JSON.parse(await new Response(plain).text());
		runs.push(makeRun(file, dump, 'ab'[runs.length]));
	}
	return runs;
}

function makeRun(file, dump, letter) {
	const run = { file, dump, letter };
	run.functions = dump.functions.map((data, index) => makeFunction(run, data, index));
	run.findings = findings(run);
	return run;
}

/* ---- functions ---- */
function makeFunction(run, data, index) {
	const
		fn = { run, data, index, name: data.name, site: data.site, stats: data.stats, plans: [], route: `#${run.letter}/f${index}` };
	for (const signature of data.signatures)
		for (const trace of signature.traces)
			for (const segment of trace.segments)
				if (segment.plan && segment.plan.lowered)
					addPlan(fn, { signature, trace, segment }, segment.plan.lowered, segment.plan.steps || [], null);
	fn.compileMs = (fn.stats.trace_ms || 0) + (fn.stats.lower_ms || 0) + (fn.stats.codegen_ms || 0);
	fn.measured = fn.plans.some((p) => p.measured);
	fn.ns = fn.plans.filter((p) => !p.inside).reduce((sum, p) => sum + p.totalNs, 0);
	fn.again = fn.data.traced_again.told;
	return fn;
}

const traceName = (trace) => trace.nth ? `${trace.number}.${trace.nth}` : `${trace.number}`;

/* within: the step that it is a region of; null: of none. which: the number of the region */
function addPlan(fn, of, lowered, ran, within, which = 0) {
	const plan = { fn, ...of, lowered, index: fn.plans.length, within, inside: within !== null };
	plan.route = `${fn.route}/p${plan.index}`;
	plan.label = within ? `region ${which} of step ${within.index}, ${within.short}`
		: `trace ${traceName(of.trace)}, segment ${of.segment.number}`;
	fn.plans.push(plan);
	plan.steps = lowered.steps.map((step, i) => makeStep(plan, step, i, ran.length === lowered.steps.length ? ran[i] : null));
	plan.measured = plan.steps.some((s) => s.runs > 0);
	for (const s of plan.steps) s.time = plan.measured ? (s.runs ? s.ns / s.runs : 0) : s.estimate;
	plan.oneRun = plan.steps.reduce((sum, s) => sum + s.time, 0);
	plan.totalNs = plan.measured ? plan.steps.reduce((sum, s) => sum + s.ns, 0) : 0;
	lowered.nodes.forEach((node, r) => node.step !== undefined && plan.steps[node.step].nodes.push(r));
	markRows(plan);
	plan.steps.forEach((s, i) => (s.data.regions || []).forEach((region, k) => {
		const inner = s.ran && s.ran.regions && s.ran.regions[k] ? s.ran.regions[k].steps : [];
		s.regions.push(addPlan(fn, of, region, inner, s, k + 1));
	}));
	return plan;
}

function makeStep(plan, data, index, ran) {
	const same = ran && ran.name === data.name ? ran : null;
	return {
		plan,
		data,
		index,
		ran: same,
		nodes: [],
		regions: [],
		kind: data.kind,
		name: data.name,
		short: shortName(plan.fn.name, data.name),
		route: `${plan.route}/kernels/s${index}`,
		runs: same && same.runs || 0,
		ns: same && same.ns || 0,
		estimate: same && same.estimated_ns || 0,
	};
}

/* "tj_step_k12" of the function step is "k12". */
function shortName(fn, name) {
	const prefix = `tj_${fn.replace(/[^A-Za-z0-9_./-]/g, '_')}_`;
	return name.startsWith(prefix) && name.length > prefix.length ? name.slice(prefix.length) : name;
}

/* Steps that run in one region of the team. */
function markRows(plan) {
	let left = 0;
	for (const s of plan.steps) {
		s.beside = left > 0;
		if (s.data.beside)
			left = s.data.beside;
		else if (left)
			left--;
	}
}

/* ---- what a step computes ---- */
function opsOf(step) {
	const names = step.nodes.map((r) => step.plan.lowered.nodes[r].op).filter((op) => op !== 'get');
	return names.length ? names : [step.kind];
}
const sitesOf = (step) => [...new Set(step.nodes.map((r) => step.plan.lowered.nodes[r].site).filter(Boolean))];
/* What a text of the step is: its own, or that of the step whose code it runs. */
function textOf(step, what) {
	const own = step.data[what], from = step.data.shares;
	if (own !== undefined || step.data[`${what}_cut`] || from === undefined || what === 'kernel')
		return { text: own, cut: step.data[`${what}_cut`] || 0 };
	const other = step.plan.steps[from];
	return { text: other.data[what], cut: other.data[`${what}_cut`] || 0, from: other };
}
function kindColour(kind) { return `var(--${['kernel', 'library', 'evaluator', 'flow', 'copy'].includes(kind) ? kind : 'leaf'})`; }

/* ---- what to look at first ---- */
function findings(run) {
	const all = [];
	const add = (weight, kind, level, text, cure, route) => all.push({ weight, kind, level, text, cure, route });
	for (const fn of run.functions) {
		addTracedAgain(add, fn);
		if (fn.stats.failures)
			add(5e6, 'failed', 'bad', `${fn.name}: ${plural(fn.stats.failures, 'call')} failed`, 'tj_check() says why', fn.route);
		if (fn.stats.evictions)
			add(8e5, 'evicted', 'warn', `${fn.name}: ${plural(fn.stats.evictions, 'trace')} had no room and went`,
				'raise .max_bytes or .max_entries', fn.route);
		addBoundaries(add, fn);
		addSlowest(add, fn);
		for (const plan of fn.plans.filter((p) => !p.inside)) addPlanFindings(add, fn, plan);
	}
	return all.sort((a, b) => b.weight - a.weight);
}

/* Reasons that differ only in what was expected and found, together: the last one is shown. */
function addTracedAgain(add, fn) {
	const places = new Map();
	for (const r of fn.data.traced_again.last) {
		const key = [r.kind, r.site, r.argument, r.dim, r.state].join();
		places.set(key, [...(places.get(key) || []), r]);
	}
	for (const same of places.values()) {
		const r = same[same.length - 1], times = same.reduce((n, x) => n + x.times, 0), line = fileOf(r.site);
		const at = (r.found || '').endsWith(line) ? '' : `, at ${line}`, often = times > 1 ? `; ${whole(times)} times like this` : '';
		add(1e6 + 1000 * times, 'traced again', 'warn', `${fn.name}: ${whatFailed(r)}${at}${often}`, r.cure, `${fn.route}/why`);
	}
}

/* Boundaries of one line, together. */
function addBoundaries(add, fn) {
	const lines = new Map();
	for (const plan of fn.plans.filter((p) => !p.inside && p.segment.boundary_cure)) {
		const key = `${plan.segment.ends_in} at ${fileOf(plan.segment.site)}`;
		lines.set(key, [...(lines.get(key) || []), plan]);
	}
	for (const [line, plans] of lines) {
		const values = plans.reduce((n, p) => n + p.segment.plan.values, 0), { segment, route } = plans[0];
		add(2e5 + segment.runs, 'boundary', 'warn',
			`${fn.name}: ${line} ends ${plural(plans.length, 'segment')}: the pending ops run there, and ` +
			`${plural(values, 'value')} ${values === 1 ? 'is' : 'are'} stored`,
			segment.boundary_cure, `${route}/decisions`);
	}
}

/* The slowest step of all plans of the function. */
function addSlowest(add, fn) {
	const slowest = (plan) => [...plan.steps].sort((a, b) => b.time - a.time)[0];
	const [most] = fn.plans.filter((p) => !p.inside && p.oneRun > 0 && p.steps.length > 3)
		.map((plan) => ({ plan, slow: slowest(plan) }))
		.filter(({ plan, slow }) => slow.time / plan.oneRun > 0.15)
		.sort((a, b) => b.slow.time - a.slow.time);
	if (!most) return;
	const { plan, slow } = most;
	add(100 + slow.time / 1e6, 'slowest', 'accent',
		`${fn.name}: ${slow.short} (${[...new Set(opsOf(slow))].slice(0, 4).join(', ')}) takes ` +
			`${percent(slow.time / plan.oneRun)} of a run, ${nanos(slow.time)}${plan.measured ? '' : ' by estimate'}`,
		'', slow.route);
}

function addPlanFindings(add, fn, plan) {
	const decisions = plan.segment.plan.decisions || [];
	for (const d of decisions)
		if (d.kind === 'evaluator' || d.kind === 'device')
			add(5e5, d.kind, 'bad', `${fn.name}: ${d.op} at ${fileOf(d.site)} is computed by the ${d.other}: ${d.why}`, d.hint,
				`${plan.route}/decisions`);
	const stored = decisions.filter((d) => d.kind === 'fusion' && d.bytes >= 1 << 20).sort((a, b) => b.bytes - a.bytes)[0];
	if (stored)
		add(50, 'memory', 'accent',
			`${fn.name}: ${stored.op} at ${fileOf(stored.site)} goes through memory, ${bytes(stored.bytes)}: ${stored.why}`, '',
			`${plan.route}/decisions`);
}

/* "argument 1, dim 0: was 64, is 48" */
function whatFailed(r) {
	const where = [];
	if (r.argument !== undefined)
		where.push(r.event === undefined ? `argument ${r.argument}` : `operand ${r.argument} of event ${r.event}`);
	else if (r.event !== undefined)
		where.push(`event ${r.event}`);
	if (r.state !== undefined) where.push(`state variable ${r.state}`);
	if (r.dim !== undefined) where.push(`dim ${r.dim}`);
	const change = r.expected !== undefined && r.found !== undefined ? `: was ${r.expected}, is ${r.found}` : '';
	if (r.kind === 'attribute' && r.dim !== undefined) return `attribute ${r.dim} of event ${r.event}${change}`;
	if (r.kind === 'operand' && r.argument !== undefined) return where.join(', ') + change;
	return `${r.kind}${where.length ? ` of ${where.join(', ')}` : ''}${change}`;
}
