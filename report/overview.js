/* SPDX-License-Identifier: MIT */
/* overview: the run as a whole: what to look at first, its functions, settings and versions. */

function machineLine(d) {
	const m = d.machine, cpu = m.cpu || `CPU family ${m.family}, model ${m.model}`;
	return [
		`tjit ${d.tjit}`, cpu, `${m.vector_bits} bits`, plural(d.options.threads || m.allowed, 'thread'),
		...d.libraries.filter((l) => l.version).map((l) => `${l.name} ${l.version}`)
	].join(' · ');
}

function overview(run) {
	const d = run.dump, fns = run.functions, sum = (of) => fns.reduce((n, f) => n + of(f), 0), again = sum((f) => f.again),
		calls = sum((f) => f.stats.calls);
	return [
		el('h1', {}, d.program, ' ', el('span', { class: 'soft' }, day(d.written))),
		el('p', { class: 'soft' }, machineLine(d)),
		el('div', { class: 'cards' }, card(whole(fns.length), fns.length === 1 ? 'function' : 'functions'),
			card(whole(calls), 'calls'), card(whole(again), 'traced again', again ? 'warn' : ''),
			card(whole(sum((f) => f.stats.kernels)), 'kernels'), card(millis(sum((f) => f.compileMs)), 'to trace and compile'),
			card(bytes(sum((f) => f.stats.code_bytes)), 'of code'),
			fns.some((f) => f.measured) && card(nanos(sum((f) => f.ns)), 'in measured steps')),
		el('section', {}, el('h2', {}, 'What to look at first'), findingsPanel(run)),
		el('section', {}, el('h2', {}, 'Functions'), el('div', { class: 'panel' }, functionTable(run)),
			d.functions_left_out > 0 &&
				el('p', { class: 'soft' }, `${whole(d.functions_left_out)} functions that were freed early had no room.`),
			fns.length > 0 && !fns.some((f) => f.measured) &&
				el('p', { class: 'soft' }, 'Times of steps are estimates: with TJ_PROFILE=1 they are measured.')),
		el('section', {}, el('h2', {}, 'Settings and versions'), settings(run)),
	].flat()
		.filter(Boolean);
}

function findingsPanel(run) {
	const shown = run.findings.slice(0, 8),
		list = (all) => el('ul', { class: 'findings' },
			all.map((f) => el('li', {}, tag(f.kind, f.level),
				el('div', {}, el('a', { href: f.route }, f.text), f.cure && el('div', { class: 'cure' }, f.cure)))));
	if (!run.findings.length)
		return el('p', { class: 'soft panel' }, 'Nothing: every call found its trace, and every op has a kernel.');
	const panel = el('div', { class: 'panel' }, list(shown));
	if (run.findings.length > shown.length) {
		const more = el('button', { type: 'button', onclick: () => more.replaceWith(list(run.findings.slice(8))) },
			`${run.findings.length - 8} more`);
		panel.append(more);
	}
	return panel;
}

function functionTable(run) {
	const most = run.functions.reduce((m, f) => Math.max(m, f.compileMs), 0), measured = run.functions.some((f) => f.measured);
	return table(
		[
			{
				name: 'Function',
				of: (f) => f.name,
				show: (f) => [el('a', { href: f.route }, el('b', {}, f.name)), el('br'), site(f.site)]
			},
			{ name: 'Calls', n: true, of: (f) => f.stats.calls, show: (f) => whole(f.stats.calls) },
			{
				name: 'Found their trace',
				n: true,
				of: (f) => f.stats.calls ? f.stats.hits / f.stats.calls : 0,
				show: (f) => f.stats.calls ? percent(f.stats.hits / f.stats.calls) : '–'
			},
			{
				name: 'Traced again',
				n: true,
				of: (f) => f.again,
				show: (f) => f.again ? el('a', { href: `${f.route}/why` }, whole(f.again)) : '0'
			},
			{ name: 'Kernels', n: true, of: (f) => f.stats.kernels, show: (f) => whole(f.stats.kernels) },
			measured && { name: 'Time in steps', n: true, of: (f) => f.ns, show: (f) => f.measured ? nanos(f.ns) : '–' },
			{ name: 'Compile', n: true, of: (f) => f.compileMs, show: (f) => millis(f.compileMs) },
			{
				name: 'tracing, lowering, code generation',
				show:
					(f) =>
						el('div', { style: `width:${most ? Math.max(4, 100 * f.compileMs / most).toFixed(0) : 4}%` },
							f.compileMs > 0 &&
								bar(
									[
										[f.stats.trace_ms / f.compileMs, 'var(--trace)'],
										[f.stats.lower_ms / f.compileMs, 'var(--lower)'],
										[f.stats.codegen_ms / f.compileMs, 'var(--codegen)']
									],
									`Tracing ${millis(f.stats.trace_ms)}, lowering ${millis(f.stats.lower_ms)}, code generation ${
										millis(f.stats.codegen_ms)}`))
			},
		].filter(Boolean),
		run.functions, measured ? 5 : 1, 'Functions');
}

const show = (v) => v === true ? 'yes' : v === false ? 'no' : v === null ? 'none' : typeof v === 'number' ? whole(v) : String(v);

function settings(run) {
	const d = run.dump, m = d.machine;
	return el('div', { class: 'two' },
		el('div', { class: 'panel' }, el('h3', {}, 'Machine'), list([
			['CPU', m.cpu], ['family, model, stepping', `${m.family}, ${m.model}, ${m.stepping}`],
			['vectors', `${m.capability}, ${m.vector_bits} bits`], ['CPUs', `${m.cpus}, of which the process may use ${m.allowed}`],
			['caches', m.caches.map((c, i) => c ? `L${i + 1} ${bytes(c)}` : '').filter(Boolean).join(', ')]
		]),
			el('h3', {}, 'Versions'), list([
				['tjit', d.tjit], ['build', el('span', { class: 'mono' }, d.build)],
				...d.libraries.map((l) => [l.name, l.version || `missing: ${l.why || ''}`])
			]),
			el('h3', {}, 'This run'),
			list([['program', d.program], ['process', String(d.process)], ['written', day(d.written)], ['dump', run.file]])),
		el('div', { class: 'panel' }, el('h3', {}, 'Settings'), list(Object.entries(d.settings).map(([k, v]) => [k, show(v)])),
			el('h3', {}, 'Options of tj_open()'), list(Object.entries(d.options).map(([k, v]) => [k, show(v)])),
			el('h3', {}, 'Environment'),
			d.environment.length
				? el('ul', { class: 'findings' }, d.environment.map((v) => el('li', {}, el('span', { class: 'mono' }, v))))
				: el('p', { class: 'soft' }, 'No variable TJ_… is set.')));
}
