/* SPDX-License-Identifier: MIT */
/* base: elements, numbers as text, the theme. Strings of a dump get into the page by el() and shape() alone, as text nodes or values of
 * attributes that run nothing. */

function put(node, attrs, children) {
	for (const key in attrs) {
		const value = attrs[key];
		if (key.startsWith('on'))
			node.addEventListener(key.slice(2), value);
		else if (value === true)
			node.setAttribute(key, '');
		else if (value !== false && value !== null && value !== undefined)
			node.setAttribute(key, value);
	}
	for (const child of children.flat(Infinity))
		if (child !== null && child !== undefined && child !== false) node.append(child instanceof Node ? child : String(child));
	return node;
}
const el = (name, attrs = {}, ...children) => put(document.createElement(name), attrs, children);
const shape = (name, attrs = {}, ...children) => put(document.createElementNS('http://www.w3.org/2000/svg', name), attrs, children);
const byId = (id) => document.getElementById(id);

/* ---- numbers ---- */
const whole = (n) => Math.round(n).toLocaleString('en-US');
const digits = (n) => n.toLocaleString('en-US', { maximumSignificantDigits: 3 });
function bytes(n) {
	if (n < 1024) return `${whole(n)} bytes`;
	for (const unit of ['KiB', 'MiB', 'GiB', 'TiB']) {
		n /= 1024;
		if (n < 1024) return `${digits(n)} ${unit}`;
	}
	return `${whole(n)} TiB`;
}
function nanos(ns) {
	if (ns < 1e3) return `${digits(ns)} ns`;
	if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
	if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
	return `${digits(ns / 1e9)} s`;
}
const millis = (ms) => nanos(ms * 1e6);
/* "2.39 M" */
function large(n) {
	const unit = ['', ' k', ' M', ' G', ' T', ' P'];
	let k = 0;
	for (; n >= 1000 && k < unit.length - 1; k++) n /= 1000;
	return digits(n) + unit[k];
}
const percent = (part) => `${digits(100 * part)} %`;
const plural = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;
const day = (seconds) => new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
/* "src/net.c:12" of a long path: its end */
const near = (site) => site.length > 44 ? `…${site.slice(-43)}` : site;
const fileOf = (site) => site.replace(/^.*\//, '');

/* ---- small parts ---- */
const site = (text) =>
	text && text !== '?' ? el('span', { class: 'site', title: text }, near(text)) : el('span', { class: 'site' }, 'line not known');
const tag = (text, kind = '') => el('span', { class: `tag ${kind}` }, text);
function list(pairs) {
	return el(
		'dl', { class: 'list' }, pairs.filter((p) => p && p[1] !== undefined && p[1] !== null && p[1] !== '').map(([name,
			value]) => [el('dt', {}, name), el('dd', {}, value)]));
}
const card = (value, name, kind = '') => el('div', { class: `card ${kind}` }, el('b', {}, value), el('span', {}, name));
/* parts: [share of the whole, colour, title] */
const bar = (parts, label) => el('div', { class: 'bar', role: 'img', 'aria-label': label, title: label },
	parts.filter(([share]) => share > 0).map(([share,
		colour]) => el('i', { style: `width:${(100 * share).toFixed(2)}%;background:${colour}` })));
const legend = (items) =>
	el('div', { class: 'legend' }, items.map(([colour, name]) => el('span', {}, el('i', { style: `background:${colour}` }), name)));

/* A table that its heads sort. columns: {name, n: right-aligned, of(row): sort key, show(row)}; sorted: by which column at first,
 * descending. */
function table(columns, rows, sorted = -1, label = '') {
	const body = el('tbody');
	const heads = columns.map(
		(c, i) => el('th', { class: c.n ? 'n' : '', scope: 'col' },
			c.of ? el('button',
				{ type: 'button', onclick: () => sort(i, heads[i].getAttribute('aria-sort') === 'descending' ? 1 : -1) },
				c.name)
				: c.name));
	function fill() {
		body.replaceChildren(...rows.map(
			(row) => el('tr', { class: row.rowClass || '' }, columns.map((c) => el('td', { class: c.n ? 'n' : '' }, c.show(row))))));
	}
	function sort(i, way) {
		const key = columns[i].of;
		rows = [...rows].sort((a, b) => {
			const x = key(a), y = key(b);
			return way * (typeof x === 'string' ? x.localeCompare(y) : x - y);
		});
		heads.forEach(
			(h, k) => k === i ? h.setAttribute('aria-sort', way < 0 ? 'descending' : 'ascending') : h.removeAttribute('aria-sort'));
		fill();
	}
	if (sorted >= 0)
		sort(sorted, -1);
	else
		fill();
	return el('div', { class: 'scroll' }, el('table', { 'aria-label': label || null }, el('thead', {}, el('tr', {}, heads)), body));
}

/* ---- the theme: that of the system, or the one that was chosen ---- */
const themes = ['auto', 'light', 'dark'];
function stored(key) {
	try {
		return localStorage.getItem(key);
	} catch {
		return null; /* a page from a file may have no storage */
	}
}
function store(key, value) {
	try {
		localStorage.setItem(key, value);
	} catch { /* the choice lasts as long as the page */
	}
}
function setTheme(name) {
	const button = byId('theme');
	if (name === 'auto')
		document.documentElement.removeAttribute('data-theme');
	else
		document.documentElement.dataset.theme = name;
	button.textContent = { auto: 'Auto', light: 'Light', dark: 'Dark' }[name];
	button.title = 'Colours: as the system, light, dark';
	button.setAttribute('aria-label', `Colours: ${name}. Press for ${themes[(themes.indexOf(name) + 1) % 3]}`);
	button.dataset.now = name;
}
function openTheme() {
	const asked = stored('tjit-theme');
	setTheme(themes.includes(asked) ? asked : 'auto');
	byId('theme').addEventListener('click', () => {
		const next = themes[(themes.indexOf(byId('theme').dataset.now) + 1) % 3];
		setTheme(next);
		store('tjit-theme', next);
	});
}
