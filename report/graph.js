/* SPDX-License-Identifier: MIT */
/* graph: the graph of a plan. A box is a step: the ops in it became one kernel, or are one call of a library. Views and arguments, which
 * no step computes, are drawn where they are read. */
const NODE_H = 34, PAD = 12, HEAD = 28;

/* ---- boxes ---- */
/* Which box each node is in: its step; of a view of what a step computes, that step, too; of a view of an argument with one reader, that
 * of the reader; else a box of its own. So no way leads from a box to others and back. Numbers, constants and what is computed of them
 * alone are drawn only if `all` is set, dead nodes never. */
function boxesOf(plan, all) {
	const { nodes, out } = plan.lowered, users = nodes.map(() => []), boxes = [], boxOf = nodes.map(() => -1);
	nodes.forEach((node, r) => node.src.forEach((s) => users[s].push(r)));
	const isOut = new Set(out), stepBox = plan.steps.map(() => -1), home = homesOf(nodes), plain = [];
	nodes.forEach((n, r) => plain[r] = n.op === 'const' || n.op === 'num' ||
		(n.how === 'everywhere' && n.src.length > 0 && n.src.every((s) => plain[s])));
	const open = (step) => boxes.push({ step, nodes: [] }) - 1;
	for (let r = nodes.length; r-- > 0;) {
		const node = nodes[r], drawn = isOut.has(r) || users[r].some((u) => boxOf[u] >= 0);
		if (node.step === undefined && (!drawn || (!all && !isOut.has(r) && plain[r]))) continue;
		if (home[r] !== undefined) {
			if (stepBox[home[r]] < 0) stepBox[home[r]] = open(plan.steps[home[r]]);
			boxOf[r] = stepBox[home[r]];
		} else {
			const readers = new Set(users[r].map((u) => boxOf[u]).filter((b) => b >= 0)), one = [...readers][0];
			boxOf[r] = readers.size === 1 && boxes[one].step && (node.how === 'view' || node.how === 'everywhere') && !isOut.has(r)
				? one
				: open(null);
		}
		boxes[boxOf[r]].nodes.push(r);
	}
	boxes.forEach((b) => b.nodes.reverse());
	return { boxes, boxOf, users, isOut };
}

/* The step that computes the node, or what it is a view of; undefined: none does. */
function homesOf(nodes) {
	const home = [];
	nodes.forEach((node, r) => home[r] = node.step !== undefined ? node.step
		: node.how === 'view' && node.src.length ? home[node.src[0]]
			: undefined);
	return home;
}

function nodeTitle(node) {
	if (node.op === 'input') return node.attrs ? node.attrs.split(' ')[0].replace('slot=', 'arg ') : 'arg';
	if (node.op === 'const') return node.value === undefined || node.value === null ? 'const' : String(node.value);
	if (node.op === 'num') return node.attrs ? node.attrs.replace('slot=', 'number ') : 'number';
	return node.op;
}
const textWidth = (text, each) => text.length * each;
const nodeWidth = (node) => Math.max(46, 16 + Math.max(textWidth(nodeTitle(node), 7.3), textWidth(node.type, 6.1)));

function layoutPlan(plan, all) {
	const { nodes } = plan.lowered, made = boxesOf(plan, all), { boxes, boxOf } = made, at = nodes.map(() => null);
	for (const box of boxes) {
		const index = new Map(box.nodes.map((r, i) => [r, i])), edges = [];
		for (const r of box.nodes)
			for (const s of new Set(nodes[r].src))
				if (index.has(s)) edges.push([index.get(s), index.get(r)]);
		const items = box.nodes.map((r) => ({ w: nodeWidth(nodes[r]), h: NODE_H }));
		const inner = layered(items, edges, { gapX: 12, gapY: 26, span: 1e9 });
		box.inner = items;
		box.routes = new Map(edges.map((e, i) => [`${box.nodes[e[0]]} ${box.nodes[e[1]]}`, inner.route[i]]));
		const framed = box.step !== null;
		box.title = framed ? `${box.step.short}${box.step.time ? `  ${nanos(box.step.time)}` : ''}` : '';
		box.w = Math.max(inner.width, framed ? textWidth(box.title, 6.4) : 0) + (framed ? 2 * PAD : 0);
		box.h = inner.height + (framed ? 2 * PAD + HEAD : 0);
		box.hang = !framed;
		box.innerWidth = inner.width;
	}
	const seen = new Map();
	nodes.forEach((node, r) => boxOf[r] >= 0 && node.src.forEach((s) => {
		if (boxOf[s] >= 0 && boxOf[s] !== boxOf[r]) seen.set(`${boxOf[s]} ${boxOf[r]}`, [boxOf[s], boxOf[r]]);
	}));
	const edges = [...seen.values()];
	/* boxes are numbered from the last step to the first: layout wants those of the program first, so that ties keep its order */
	const last = boxes.length - 1,
		size = layered(
			[...boxes].reverse(), edges.map(([a, b]) => [last - a, last - b]), { gapX: 26, gapY: 46, span: 3, aspect: 1.7 });
	boxes.forEach((box) => box.nodes.forEach((r, i) => {
		const item = box.inner[i], framed = box.step !== null;
		at[r] = {
			x: box.x + (framed ? PAD + (box.w - 2 * PAD - box.innerWidth) / 2 : 0) + item.x,
			y: box.y + (framed ? PAD + HEAD : 0) + item.y,
			w: item.w,
			h: item.h
		};
	}));
	const routes = new Map(), far = new Set();
	edges.forEach(([a, b], e) => size.far.has(e) ? far.add(`${a} ${b}`) : routes.set(`${a} ${b}`, size.route[e]));
	return {...made, at, routes, far, width: size.width, height: size.height, cuts: size.cuts };
}

/* ---- drawing ---- */
function curve(points) {
	let d = `M${points[0][0].toFixed(1)} ${points[0][1].toFixed(1)}`;
	for (let i = 1; i < points.length; i++) {
		const [x0, y0] = points[i - 1], [x, y] = points[i], half = Math.max(8, (y - y0) / 2);
		d += `C${x0.toFixed(1)} ${(y0 + half).toFixed(1)} ${x.toFixed(1)} ${(y - half).toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)}`;
	}
	return d;
}

function edgePoints(map, plan, s, r) {
	const a = map.at[s], b = map.at[r], from = [a.x + a.w / 2, a.y + a.h], to = [b.x + b.w / 2, b.y];
	if (map.boxOf[s] !== map.boxOf[r]) {
		const between = map.routes.get(`${map.boxOf[s]} ${map.boxOf[r]}`) || [];
		return [from, ...between.flatMap((c) => [[c.x + 2, c.top], [c.x + 2, c.bottom]]), to];
	}
	const box = map.boxes[map.boxOf[s]], dx = b.x - box.inner[box.nodes.indexOf(r)].x, dy = b.y - box.inner[box.nodes.indexOf(r)].y;
	return [
		from, ...(box.routes.get(`${s} ${r}`) || []).flatMap((c) => [[c.x + 2 + dx, c.top + dy], [c.x + 2 + dx, c.bottom + dy]]), to
	];
}

function drawGraph(view) {
	const { plan, map } = view, { nodes } = plan.lowered;
	const groups = shape('g'), edges = shape('g'), stubs = shape('g'), drawn = shape('g'), names = shape('g');
	const most = plan.steps.reduce((m, s) => Math.max(m, s.time), 0);
	view.groupOf = new Map();
	view.nodeOf = new Map();
	view.edgesOf = new Map();
	for (const box of map.boxes) {
		if (!box.step) continue;
		const big = Math.max(12, Math.min(box.w / (0.62 * box.step.short.length + 1), box.h * 0.5, 160));
		const g = shape('g',
			{ class: `group ${box.step.kind}`, style: `--heat:${most ? Math.round(48 * Math.sqrt(box.step.time / most)) : 0}%` },
			shape('rect', { x: box.x, y: box.y, width: box.w, height: box.h, rx: 9 }),
			shape('text', { x: box.x + PAD, y: box.y + 18, class: 'name' }, box.step.short),
			shape(
				'text', { x: box.x + box.w - PAD, y: box.y + 18, 'text-anchor': 'end' }, box.step.time ? nanos(box.step.time) : ''));
		names.append(shape('text', {
			x: box.x + box.w / 2,
			y: box.y + box.h / 2,
			class: 'big',
			style: `font-size:${big.toFixed(0)}px;stroke-width:${(big / 5).toFixed(0)}px`
		},
			box.step.short));
		view.groupOf.set(box.step.index, g);
		groups.append(g);
	}
	const note = (r, path) => view.edgesOf.has(r) ? view.edgesOf.get(r).push(path) : view.edgesOf.set(r, [path]);
	nodes.forEach((node, r) => map.at[r] && new Set(node.src).forEach((s) => {
		if (!map.at[s] || map.far.has(`${map.boxOf[s]} ${map.boxOf[r]}`)) return;
		const path = shape('path', { class: 'edge', d: curve(edgePoints(map, plan, s, r)) });
		note(s, path);
		note(r, path);
		edges.append(path);
	}));
	drawStubs(view, stubs);
	nodes.forEach((node, r) => {
		const p = map.at[r];
		if (!p) return;
		const g = shape('g', { class: `node ${node.how}${map.isOut.has(r) ? ' out' : ''}`, 'data-node': r },
			shape('rect', { x: p.x, y: p.y, width: p.w, height: p.h, rx: node.how === 'leaf' ? 17 : 5 }),
			shape('text', { x: p.x + p.w / 2, y: p.y + 14 }, nodeTitle(node)),
			shape('text', { x: p.x + p.w / 2, y: p.y + 27, class: 'type' }, node.type));
		view.nodeOf.set(r, g);
		drawn.append(g);
	});
	const cuts = map.cuts.map((x) => shape('line', { class: 'cut', x1: x, x2: x, y1: -20, y2: map.height + 20 }));
	return shape('g', { class: 'world' }, cuts, groups, edges, stubs, drawn, names);
}

/* An edge over many layers would cross all that is between: its ends say where it goes. */
function drawStubs(view, into) {
	const { plan, map } = view, down = new Map(), up = new Map();
	plan.lowered.nodes.forEach((node, r) => map.at[r] && new Set(node.src).forEach((s) => {
		if (!map.at[s] || !map.far.has(`${map.boxOf[s]} ${map.boxOf[r]}`)) return;
		down.set(s, [...(down.get(s) || []), r]);
		up.set(r, [...(up.get(r) || []), s]);
	}));
	const name = (r) => {
		const box = map.boxes[map.boxOf[r]];
		return box.step ? box.step.short : nodeTitle(plan.lowered.nodes[r]);
	};
	const put = (r, list, below) => {
		const p = map.at[r], names = [...new Set(list.map(name))];
		into.append(shape('text', {
			class: 'stub',
			x: below ? p.x + p.w : p.x,
			y: below ? p.y + p.h + 11 : p.y - 4,
			'text-anchor': below ? 'end' : 'start',
			'data-go': list[0]
		},
			`${below ? '↓' : '↑'} ${names[0]}${names.length > 1 ? ` +${names.length - 1}` : ''}`,
			shape('title', {},
				`${below ? 'read by' : 'comes from'} ${names.slice(0, 12).join(', ')}${names.length > 12 ? ' …' : ''}`)));
	};
	down.forEach((list, r) => put(r, list, true));
	up.forEach((list, r) => put(r, list, false));
}

/* ---- the view ---- */
function graphView(plan, wanted) {
	const view = { plan, all: false, heat: plan.oneRun > 0 && plan.steps.length > 2, chosen: -1, scale: 1, x: 0, y: 0 };
	const svg = shape('svg', {
		tabindex: 0,
		role: 'application',
		'aria-label': 'Graph of the plan. Arrow keys move from node to node, plus and minus zoom, ' +
			'0 shows all, Enter opens the kernel.',
		'aria-describedby': 'graph-foot'
	});
	const foot = el('div', { class: 'foot', id: 'graph-foot' });
	const aside = el('aside', { class: 'details', 'aria-label': 'The chosen node', 'aria-live': 'polite', hidden: true });
	const stage = el('div', { class: 'stage' }, svg, tools(view, plan, redraw), foot);
	Object.assign(view, { svg, aside, stage });
	function redraw() {
		const began = performance.now();
		view.map = layoutPlan(plan, view.all);
		view.layoutMs = performance.now() - began;
		svg.replaceChildren(view.world = drawGraph(view));
		svg.classList.toggle('heat', view.heat);
		svg.dataset.layoutMs = view.layoutMs.toFixed(1);
		const shown = view.nodeOf.size;
		foot.textContent = `${plural(shown, 'node')}, ${plural(view.groupOf.size, 'step')}${
			view.map.far.size ? '; long arrows are left out: ↓ k7 says where a value goes, ↑ k2 where it comes from' : ''}`;
		look(view);
		if (view.chosen >= 0) choose(view, view.nodeOf.has(view.chosen) ? view.chosen : -1, false);
	}
	redraw();
	moveByPointer(view);
	svg.addEventListener('keydown', (e) => onGraphKey(view, e));
	requestAnimationFrame(() => {
		fit(view, false);
		if (wanted >= 0 && wanted < plan.lowered.nodes.length) showNode(view, wanted);
	});
	view.panel = [stage, aside];
	return view;
}

function tools(view, plan, redraw) {
	const press = (name, title, action, pressed) => {
		const b = el('button',
			{ type: 'button', title, 'aria-label': title, 'aria-pressed': pressed === undefined ? null : String(pressed) }, name);
		b.addEventListener('click', () => {
			if (pressed !== undefined) b.setAttribute('aria-pressed', String(pressed = !pressed));
			action();
		});
		return b;
	};
	return el('div', { class: 'tools', role: 'toolbar', 'aria-label': 'Graph' }, press('+', 'Larger (+)', () => zoom(view, 1.3)),
		press('−', 'Smaller (−)', () => zoom(view, 1 / 1.3)), press('Fit', 'All of it (0)', () => fit(view, true)),
		view.heat &&
			press('Heat', `Steps that take longer are redder; ${plan.measured ? 'times are measured' : 'times are estimates'}`,
				() => {
					view.heat = !view.heat;
					view.svg.classList.toggle('heat', view.heat);
				},
				true),
		press('Constants', 'Numbers and constants, too',
			() => {
				view.all = !view.all;
				redraw();
			},
			false),
		legend([
			['var(--kernel)', 'kernel'], ['var(--library)', 'library'], ['var(--evaluator)', 'evaluator'],
			['var(--flow)', 'control flow'], ['var(--view)', 'view, no work'], ['var(--leaf)', 'argument']
		].filter(([, name]) => plan.lowered.nodes.some((n) => ({
			kernel: 'kernel',
			library: 'library',
			evaluator: 'evaluator',
			'control flow': 'flow',
			'view, no work': 'view',
			argument: 'leaf'
		})[name] === n.how))));
}

/* ---- looking at it ---- */
function look(view) {
	view.world.setAttribute('transform', `translate(${view.x.toFixed(2)} ${view.y.toFixed(2)}) scale(${view.scale.toFixed(5)})`);
	view.svg.classList.toggle('far', view.scale < 0.42);
}
function zoom(view, by, at) {
	const box = view.svg.getBoundingClientRect(), px = at ? at[0] - box.left : box.width / 2,
		py = at ? at[1] - box.top : box.height / 2;
	const scale = Math.min(4, Math.max(0.01, view.scale * by)), k = scale / view.scale;
	view.x = px - (px - view.x) * k;
	view.y = py - (py - view.y) * k;
	view.scale = scale;
	look(view);
}
/* all: the whole graph; else, of one that would then be too small to read, its top. */
function fit(view, whole) {
	const box = view.svg.getBoundingClientRect(), w = view.map.width + 60, h = view.map.height + 60,
		all = Math.min(box.width / w, (box.height - 90) / h, 1.2);
	const first = view.map.boxes.filter((b) => b.step).reduce((best, b) => !best || b.step.index < best.step.index ? b : best, null);
	view.scale = whole || all >= 0.3 ? all : 0.62;
	view.x = view.scale > all && first ? box.width / 2 - (first.x + first.w / 2) * view.scale
		: (box.width - view.map.width * view.scale) / 2;
	view.y =
		view.scale > all && first ? 90 - first.y * view.scale : Math.max(54, (box.height - 20 - view.map.height * view.scale) / 2);
	look(view);
}
function center(view, r) {
	const box = view.svg.getBoundingClientRect(), p = view.map.at[r];
	if (view.scale < 0.6) view.scale = 0.9;
	view.x = box.width / 2 - (p.x + p.w / 2) * view.scale;
	view.y = box.height / 2 - (p.y + p.h / 2) * view.scale;
	look(view);
}
function isSeen(view, r) {
	const box = view.svg.getBoundingClientRect(), p = view.map.at[r], x = p.x * view.scale + view.x, y = p.y * view.scale + view.y;
	return view.scale >= 0.42 && x > 10 && y > 50 && x + p.w * view.scale < box.width - 10 && y + p.h * view.scale < box.height - 10;
}

function moveByPointer(view) {
	const { svg } = view;
	let from = null, moved = false;
	svg.addEventListener('wheel', (e) => {
		e.preventDefault();
		zoom(view, Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0015)), [e.clientX, e.clientY]);
	}, { passive: false });
	svg.addEventListener('pointerdown', (e) => {
		if (e.button) return;
		from = [e.clientX - view.x, e.clientY - view.y, e.clientX, e.clientY];
		moved = false;
	});
	svg.addEventListener('pointermove', (e) => {
		if (!from) return;
		if (!moved && Math.hypot(e.clientX - from[2], e.clientY - from[3]) < 4) return;
		if (!moved) svg.setPointerCapture(e.pointerId);
		moved = true;
		svg.classList.add('drag');
		view.x = e.clientX - from[0];
		view.y = e.clientY - from[1];
		look(view);
	});
	const stop = () => {
		from = null;
		svg.classList.remove('drag');
	};
	svg.addEventListener('pointerup', stop);
	svg.addEventListener('pointercancel', stop);
	svg.addEventListener('click', (e) => {
		if (moved) return;
		const go = e.target.closest('[data-go]'), node = e.target.closest('[data-node]');
		if (go)
			showNode(view, Number(go.dataset.go));
		else
			choose(view, node ? Number(node.dataset.node) : -1, true);
	});
	svg.addEventListener('dblclick', (e) => {
		const node = e.target.closest('[data-node]'), step = node && view.plan.lowered.nodes[Number(node.dataset.node)].step;
		if (node && step !== undefined) location.hash = view.plan.steps[step].route;
	});
}

function onGraphKey(view, e) {
	const { nodes } = view.plan.lowered, shown = (r) => view.nodeOf.has(r), r = view.chosen;
	const first = [...view.nodeOf.keys()].find((k) => nodes[k].step !== undefined) ?? [...view.nodeOf.keys()][0];
	const next = (way) => {
		for (let k = r + way; k >= 0 && k < nodes.length; k += way)
			if (shown(k)) return k;
		return r;
	};
	const act = {
		ArrowDown: () => r < 0 ? first : view.map.users[r].find(shown),
		ArrowUp: () => r < 0 ? first : nodes[r].src.find(shown),
		ArrowRight: () => r < 0 ? first : next(1),
		ArrowLeft: () => r < 0 ? first : next(-1),
	}[e.key];
	if (e.ctrlKey || e.metaKey || e.altKey) return;
	if (act) {
		const to = act();
		if (to !== undefined) showNode(view, to);
	} else if (e.key === '+' || e.key === '=')
		zoom(view, 1.3);
	else if (e.key === '-')
		zoom(view, 1 / 1.3);
	else if (e.key === '0')
		fit(view, true);
	else if (e.key === 'Enter' && r >= 0 && nodes[r].step !== undefined)
		location.hash = view.plan.steps[nodes[r].step].route;
	else if (e.key === 'Escape' && r >= 0)
		choose(view, -1, true);
	else
		return;
	e.preventDefault();
	e.stopPropagation();
}

/* ---- one node ---- */
function showNode(view, r) {
	if (!view.nodeOf.has(r)) return;
	choose(view, r, true);
	if (!isSeen(view, r)) center(view, r);
}

function choose(view, r, tell) {
	for (const g of view.svg.querySelectorAll('.chosen, .near')) g.classList.remove('chosen', 'near');
	view.chosen = r;
	view.aside.hidden = r < 0;
	if (tell) history.replaceState(null, '', `${view.plan.route}/graph${r < 0 ? '' : `/n${r}`}`);
	if (r < 0) return;
	const node = view.plan.lowered.nodes[r];
	view.nodeOf.get(r).classList.add('chosen');
	for (const path of view.edgesOf.get(r) || []) path.classList.add('chosen');
	for (const k of [...node.src, ...view.map.users[r]])
		if (view.nodeOf.has(k)) view.nodeOf.get(k).classList.add('near');
	if (node.step !== undefined) view.groupOf.get(node.step).classList.add('chosen');
	view.aside.replaceChildren(...nodeDetails(view, r));
}

function nodeDetails(view, r) {
	const { plan } = view, { nodes, buffers } = plan.lowered, node = nodes[r],
		step = node.step === undefined ? null : plan.steps[node.step];
	const how = {
		kernel: 'by a kernel',
		library: 'by a library',
		evaluator: 'by the evaluator',
		flow: 'control flow',
		view: 'nowhere: it is a view of its operand',
		leaf: 'nowhere: it is there',
		everywhere: 'wherever it is read',
		joined: 'its operands are stored side by side'
	};
	const link = (k) => el('li', {},
		view.nodeOf.has(k) ? el('button', { class: 'linkish', type: 'button', onclick: () => showNode(view, k) },
			`%${k} ${nodeTitle(nodes[k])} ${nodes[k].type}`)
			: el('span', { class: 'mono' }, `%${k} ${nodeTitle(nodes[k])} ${nodes[k].type}`));
	const own = buffers.map((b, i) => [b, i]).filter(([b]) => b.node === r);
	return [
		el('h2', {}, `%${r} ${nodeTitle(node)}`),
		list([
			['type', el('span', { class: 'mono' }, node.type)], ['line', site(node.site)],
			['attributes', node.attrs && el('span', { class: 'mono' }, node.attrs)],
			['computed', how[node.how] || node.how], ['step', step && el('a', { href: step.route }, step.short)],
			['time', step && step.time > 0 && `${nanos(step.time)}${plan.measured ? '' : ' by estimate'}, with all of ${step.short}`],
			['', view.map.isOut.has(r) ? 'a result of the plan' : null],
		]),
		step && step.regions.length > 0 &&
			[el('h3', {}, 'Regions'), el('ul', {}, step.regions.map((p) => el('li', {}, el('a', { href: `${p.route}/graph` }, p.label))))],
		node.src.length > 0 && [el('h3', {}, 'Reads'), el('ul', {}, node.src.map(link))],
		view.map.users[r].length > 0 && [el('h3', {}, 'Is read by'), el('ul', {}, view.map.users[r].map(link))],
		own.length > 0 && [el('h3', {}, 'Memory'), el('ul', {}, own.map(([b, i]) => el('li', {}, b.place === 'temporary' && b.first !== undefined
			? el('a', { href: `${plan.route}/memory/b${i}` }, `${bytes(b.bytes)} at ${whole(b.offset)}, steps ${b.first} to ${b.last}`)
			: `${bytes(b.bytes)}, ${b.place}${b.index === undefined ? '' : ` ${b.index}`}`)))],
	].flat(2).filter(Boolean);
}
