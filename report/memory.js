/* SPDX-License-Identifier: MIT */
/* memory: the temporaries of a plan as a picture: across, the steps from the one that writes a value to the last one that reads it; down,
 * its place in the arena. Below, how many bytes are alive in each step. */
const PIC = {
	left: 76,
	right: 14,
	top: 14,
	height: 420,
	below: 80,
	gap: 34
};

const isPlaced = (b, device) =>
	b.place === 'temporary' && b.first !== undefined && b.offset !== undefined && (b.device || 'cpu') === device;
/* It lives over the fullest step, and that step does not use it. */
const isKept = (plan, b) => b.first < plan.lowered.memory.step && b.last > plan.lowered.memory.step;

function bufferTitle(plan, b) {
	const node = b.node === undefined ? null : plan.lowered.nodes[b.node];
	return node ? `${nodeTitle(node)} ${node.type}` : 'workspace';
}

function aliveBytes(plan, placed) {
	const change = new Array(plan.steps.length + 1).fill(0), taken = new Map();
	for (const [b] of placed)
		if (b.over !== undefined) taken.set(b.over, b.first);
	for (const [b, i] of placed) {
		change[b.first] += b.bytes;
		change[(taken.has(i) ? taken.get(i) - 1 : b.last) + 1] -= b.bytes;
	}
	let now = 0;
	return change.slice(0, -1).map((d) => now += d);
}

function memoryPicture(plan, device, total, details, wanted) {
	const placed = plan.lowered.buffers.map((b, i) => [b, i]).filter(([b]) => isPlaced(b, device)),
		n = Math.max(1, plan.steps.length);
	const width = Math.max(900, Math.min(2400, PIC.left + PIC.right + n * 12)), inner = width - PIC.left - PIC.right,
		alive = aliveBytes(plan, placed);
	const x = (step) => PIC.left + inner * step / n, y = (offset) => PIC.top + PIC.height * offset / total,
		most = Math.max(...alive, 1);
	const base = PIC.top + PIC.height + PIC.gap + PIC.below, high = (v) => base - PIC.below * v / most;
	const svg = shape('svg', {
		viewBox: `0 0 ${width} ${base + 30}`,
		role: 'application',
		tabindex: 0,
		'aria-label': `Memory of ${device}: ${placed.length} temporaries in ${bytes(total)}. Arrow keys go from value to value.`
	});
	for (let k = 0; k <= 4; k++)
		svg.append(shape('line', { class: 'grid', x1: PIC.left, x2: width - PIC.right, y1: y(total * k / 4), y2: y(total * k / 4) }),
			shape('text', { x: PIC.left - 8, y: y(total * k / 4) + 4, 'text-anchor': 'end' }, bytes(total * k / 4)));
	const each = Math.max(1, Math.ceil(n / 12));
	for (let s = 0; s < n; s += each) svg.append(shape('text', { x: x(s + 0.5), y: base + 16, 'text-anchor': 'middle' }, s));
	svg.append(shape('text', { x: PIC.left - 8, y: base + 16, 'text-anchor': 'end' }, 'step'));
	let points = `${x(0)},${base}`;
	alive.forEach((v, s) => points += ` ${x(s)},${high(v)} ${x(s + 1)},${high(v)}`);
	svg.append(shape('polygon', { class: 'alive', points: `${points} ${x(n)},${base}` }),
		shape('text', { x: PIC.left - 8, y: high(most) + 4, 'text-anchor': 'end' }, bytes(most)),
		shape('text', { x: PIC.left - 8, y: base, 'text-anchor': 'end' }, 'alive'));
	const order = [...placed].sort((a, b) => a[0].first - b[0].first || a[0].offset - b[0].offset), rects = new Map();
	for (const [b, i] of order) {
		const r = shape('rect', {
			class: 'block',
			x: x(b.first),
			y: y(b.offset),
			width: Math.max(1, x(b.last + 1) - x(b.first)),
			height: Math.max(1, PIC.height * b.bytes / total),
			fill: blockColour(plan, b),
			'data-buffer': i
		},
			shape('title', {}, `${bufferTitle(plan, b)}: ${bytes(b.bytes)}, steps ${b.first} to ${b.last}`));
		rects.set(i, r);
		svg.append(r);
	}
	const full = plan.lowered.memory.step;
	svg.append(shape('line', { class: 'full', x1: x(full + 0.5), x2: x(full + 0.5), y1: PIC.top - 6, y2: base }));
	let chosen = -1;
	function choose(i) {
		if (rects.has(chosen)) rects.get(chosen).classList.remove('chosen');
		chosen = i;
		details.hidden = i < 0;
		history.replaceState(null, '', `${plan.route}/memory${i < 0 ? '' : `/b${i}`}`);
		if (i < 0) return;
		rects.get(i).classList.add('chosen');
		svg.append(rects.get(i)); /* above its neighbours */
		details.replaceChildren(...bufferDetails(plan, i));
	}
	svg.addEventListener(
		'click', (e) => choose(e.target.dataset && e.target.dataset.buffer !== undefined ? Number(e.target.dataset.buffer) : -1));
	svg.addEventListener('keydown', (e) => {
		const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key], at = order.findIndex(([, i]) => i === chosen);
		if (e.key === 'Escape')
			choose(-1);
		else if (!way || !order.length)
			return;
		else
			choose(order[Math.max(0, Math.min(order.length - 1, at + way))][1]);
		e.preventDefault();
	});
	if (rects.has(wanted)) requestAnimationFrame(() => choose(wanted));
	return svg;
}

function blockColour(plan, b) {
	const step = plan.steps[b.first];
	if (b.late) return 'var(--flow)';
	if (isKept(plan, b)) return 'var(--codegen)';
	return b.node === undefined || (step && step.kind === 'flow') ? 'var(--copy)' : 'var(--accent)';
}

function bufferDetails(plan, i) {
	const b = plan.lowered.buffers[i], node = b.node === undefined ? null : plan.lowered.nodes[b.node];
	const step = (k) => el('a', { href: plan.steps[k].route }, `${plan.steps[k].short} (step ${k})`);
	return [
		el('h2', {}, bufferTitle(plan, b)),
		list([
			['line', node && node.site && site(node.site)], ['bytes', `${whole(b.bytes)} (${bytes(b.bytes)})`],
			['place', `from byte ${whole(b.offset)} of the arena`], ['written by', step(b.first)], ['last read by', step(b.last)],
			['', isKept(plan, b) ? 'kept over the fullest step, which does not use it' : null],
			['', b.late ? 'stored a second time, for readers far behind' : null],
			['', b.over === undefined ? null : 'written over another temporary, which nothing reads afterwards']
		]),
		node && el('p', {}, el('a', { href: `${plan.route}/graph/n${b.node}` }, 'Show it in the graph')),
	].filter(Boolean);
}

function memoryView(plan, wanted) {
	const { memory } = plan.lowered, data = plan.segment.plan,
		details = el('aside', { class: 'details', 'aria-label': 'The chosen value', 'aria-live': 'polite', hidden: true });
	const facts = el('div', { class: 'cards' }, card(bytes(memory.bytes), 'most temporaries at once'),
		card(plan.steps[memory.step] ? plan.steps[memory.step].short : '–', 'in this step'),
		card(`${whole(memory.kept)} values`, `${bytes(memory.kept_bytes)} kept over it`),
		card(plural(memory.recomputed, 'value'), 'computed again, not kept'),
		data.packed_bytes > 0 && card(bytes(data.packed_bytes), 'of constants in panels'),
		data.known_bytes > 0 && card(bytes(data.known_bytes), 'computed beforehand'), card(bytes(data.code_bytes), 'of code'));
	const pictures = memory.arenas.filter((a) => plan.lowered.buffers.some((b) => isPlaced(b, a.device)))
		.map((a) => el('section', { class: 'memory' },
			el('h2', {}, `Arena${memory.arenas.length > 1 ? ` of ${a.device}` : ''}: ${bytes(a.bytes)}`),
			el('div', { class: 'scroll' }, memoryPicture(plan, a.device, a.bytes, details, wanted))));
	return [
		el('div', { class: 'tabpanel pad' }, facts, legend([
			['var(--accent)', 'a temporary'], ['var(--codegen)', 'kept over the fullest step'],
			['var(--flow)', 'stored again, for late readers'], ['var(--copy)', 'workspace'], ['var(--bad)', 'the fullest step']
		]),
			pictures.length
				? pictures
				: el('p', { class: 'soft' }, 'The plan has no temporaries: its kernels read arguments and write results.')),
		details
	];
}
