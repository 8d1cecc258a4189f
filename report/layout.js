/* SPDX-License-Identifier: MIT */
/* layout: a layered drawing of a graph without circles, from top to bottom. Takes time in proportion to what is drawn, for any graph.
 *
 *   layers     each item lies below all that it depends on: the longest way from the top; items without operands go down to their readers
 *   order      within layers, by the mean place of the neighbours, some rounds down and up; edges over several layers have a place in each
 *   places     each item as near to the mean of its neighbours as the others of its layer allow
 *
 *   columns    a drawing that is much taller than wide is cut between layers into columns, as a newspaper is, up to the wanted shape
 *
 * items: {w, h, hang: true to lie just above its first reader}; edges: [from, to], from before to in every way. Sets item.x, item.y: the
 * left upper corner. Edges over more than `span` layers, or from column to column, get no places; they are returned in `far`. route: by
 * edge, the places between. cuts: x between columns. aspect: width by height; 0: one column. */
const ROUNDS = 6;

function layered(items, edges, { gapX = 18, gapY = 34, span = 3, aspect = 0 } = {}) {
	const n = items.length, out = items.map(() => []), into = items.map(() => []);
	for (const [a, b] of edges) {
		out[a].push(b);
		into[b].push(a);
	}
	const layer = layersOf(items, out, into);
	const cells = items.map((item, i) => ({ w: item.w, h: item.h, layer: layer[i], up: [], down: [], x: 0, item }));
	const far = [], route = edges.map(() => []);
	edges.forEach(([a, b], e) => {
		if (layer[b] - layer[a] > span) {
			far.push(e);
			return;
		}
		let last = a;
		for (let l = layer[a] + 1; l < layer[b]; l++) {
			cells.push({ w: 4, h: 0, layer: l, up: [], down: [], x: 0 });
			join(cells, last, cells.length - 1);
			last = cells.length - 1;
			route[e].push(cells[last]);
		}
		join(cells, last, b);
	});
	const rows = rowsOf(cells);
	order(rows, cells);
	place(rows, cells, gapX);
	const { column, cuts, width, height } = columnsOf(rows, cells, gapX, gapY, aspect);
	edges.forEach(([a, b], e) => column[layer[a]] !== column[layer[b]] && far.push(e));
	for (let i = 0; i < n; i++) items[i].x = cells[i].x, items[i].y = cells[i].y;
	return { far: new Set(far), route, width, height, cuts };
}

/* ---- columns ---- */
function columnsOf(rows, cells, gapX, gapY, aspect) {
	const high = rows.map((row) => row.reduce((most, i) => Math.max(most, cells[i].h), 0) + gapY),
		all = high.reduce((a, b) => a + b, 0);
	const wide = cells.reduce((most, c) => Math.max(most, c.x + c.w), 1),
		wanted = aspect ? Math.max(1, Math.round(Math.sqrt(aspect * all / (wide * 0.7)))) : 1;
	const column = [], cuts = [];
	let x = 0, height = 0;
	for (let first = 0, last; first < rows.length; first = last) {
		let y = 0;
		for (last = first; last < rows.length && (last === first || y + high[last] / 2 <= all / wanted); last++) {
			for (const i of rows[last])
				cells[i].y = y + (high[last] - gapY - cells[i].h) / 2, cells[i].top = y, cells[i].bottom = y + high[last] - gapY;
			column.push(cuts.length);
			y += high[last];
		}
		const inside = rows.slice(first, last).flat(), least = inside.reduce((m, i) => Math.min(m, cells[i].x), Infinity);
		for (const i of inside) cells[i].x += x - least;
		x = inside.reduce((m, i) => Math.max(m, cells[i].x + cells[i].w), x) + 4 * gapX;
		cuts.push(x - 2 * gapX);
		height = Math.max(height, y - gapY);
	}
	cuts.pop();
	return { column, cuts, width: Math.max(0, x - 4 * gapX), height };
}

function join(cells, a, b) {
	cells[a].down.push(b);
	cells[b].up.push(a);
}

/* The longest way from above. An edge that closes a circle, which no dump has, is left out of account. */
function layersOf(items, out, into) {
	const layer = items.map(() => 0), left = into.map((list) => list.length), ready = [];
	left.forEach((k, i) => k || ready.push(i));
	for (let at = 0; at < ready.length; at++)
		for (const b of out[ready[at]]) {
			layer[b] = Math.max(layer[b], layer[ready[at]] + 1);
			if (!--left[b]) ready.push(b);
		}
	for (let at = ready.length; at-- > 0;) {
		const i = ready[at];
		if (items[i].hang && !into[i].length && out[i].length)
			layer[i] = Math.max(0, out[i].reduce((least, b) => Math.min(least, layer[b]), Infinity) - 1);
	}
	return layer;
}

function rowsOf(cells) {
	const rows = [];
	cells.forEach((c, i) => {
		while (rows.length <= c.layer) rows.push([]);
		rows[c.layer].push(i);
	});
	rows.forEach((row) => row.forEach((i, k) => cells[i].rank = k));
	return rows;
}

/* ---- order ---- */
function order(rows, cells) {
	for (let round = 0; round < ROUNDS; round++) {
		const down = round % 2 === 0;
		for (let k = 0; k < rows.length; k++) {
			const row = rows[down ? k : rows.length - 1 - k];
			for (const i of row) cells[i].key = mean(down ? cells[i].up : cells[i].down, cells, cells[i].rank);
			row.sort((a, b) => cells[a].key - cells[b].key || cells[a].rank - cells[b].rank);
			row.forEach((i, at) => cells[i].rank = at);
		}
	}
}

function mean(list, cells, otherwise) {
	if (!list.length) return otherwise;
	let sum = 0;
	for (const i of list) sum += cells[i].rank;
	return sum / list.length;
}

/* ---- places ---- */
function place(rows, cells, gap) {
	for (const row of rows) {
		let x = 0;
		for (const i of row) cells[i].x = x, x += cells[i].w + gap;
	}
	for (let round = 0; round < ROUNDS + 2; round++) {
		const down = round % 2 === 0;
		for (let k = 0; k < rows.length; k++) settle(rows[down ? k : rows.length - 1 - k], cells, gap, down);
	}
	let least = Infinity;
	for (const c of cells) least = Math.min(least, c.x);
	for (const c of cells) c.x -= least;
}

/* Wanted places, then the mean of what pushing to the right and what pushing to the left make of them: both keep order and gaps. */
function settle(row, cells, gap, down) {
	const want = row.map((i) => {
		const c = cells[i], by = down ? c.up : c.down, list = by.length ? by : down ? c.down : c.up;
		if (!list.length) return c.x;
		let sum = 0;
		for (const j of list) sum += cells[j].x + cells[j].w / 2;
		return sum / list.length - c.w / 2;
	});
	const right = [], left = [];
	for (let k = 0, edge = -Infinity; k < row.length; k++) edge = (right[k] = Math.max(want[k], edge)) + cells[row[k]].w + gap;
	for (let k = row.length - 1, edge = Infinity; k >= 0; k--) edge = (left[k] = Math.min(want[k], edge - cells[row[k]].w)) - gap;
	row.forEach((i, k) => cells[i].x = (right[k] + left[k]) / 2);
}
