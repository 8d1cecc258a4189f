/* SPDX-License-Identifier: MIT */
/* panels: constants of matrix products, stored in the order in which tiles read them.
 *
 *   buf b1 f32 in                               buf b1 f32 panels
 *   load f32 b1 [0 + 768*d1 + 1*r]        =>    load f32 b1 [0 + 1*d1 + 3072*r]
 *
 * Where an instruction multiplies several steps of r at a time, these lie side by side: `buf b1 i8 words` (lo_word).
 * A scale for each column, and for groups of r, is copied as a matrix in which columns are adjacent.
 *
 * A product packs the columns that it reads, or reads them in place. Those of a constant are copied once, into panels, from whatever view
 * of the constant the kernel reads; the plans of a function share the copy. Constants are data of the graph, and externals whose content a
 * guard checks (lo_opts.content). */
#include "lower/low.h"
#include "lower/shelf.h"

enum { MOST_COMPUTED = 48 }; /* rows of a product whose tiles compute columns */

/* The copy of b in panels. */
static lo_label label_of(const lo_buffer *b)
{
	return (lo_label){ .form = b->panels, .bytes = sizeof *b->panels, .place = b->index, .content = &b->content, .ncontent = 1 };
}

/* ---- kernels ---- */
static int64_t stored_elements(const lo_panels *x)
{
	const int64_t columns = lo_panel_columns(x->columns, x->panel), chunk = lo_word_chunk((lo_word)x->word),
		      steps = lo_word_steps((lo_word)x->word);
	if (!x->panel) return x->rows * x->columns;
	return columns * ((x->rows + steps - 1) / steps + (x->rows + chunk - 1) / chunk) * steps;
}

/* The buffer of that view of constant b; the same one for equal views. */
static uint32_t panels_of(lo_low *L, const lo_buffer *b)
{
	const lo_panels *x = b->panels;
	for (uint32_t i = 0; i < L->buf.n; i++)
		if (L->buf.v[i].panels && L->buf.v[i].data == b->data && L->buf.v[i].content == b->content &&
		    !memcmp(L->buf.v[i].panels, x, sizeof *x))
			return i;
	lo_panels *own = lo_mem(L, sizeof *own);
	if (!own) return LO_NOBUF;
	*own = *x;
	return lo_new_buf(L, (lo_buffer){ .place = RT_AT_CONST,
	                                  .device = b->device,
	                                  .index = b->index,
	                                  .data = b->data,
	                                  .content = b->content,
	                                  .panels = own,
	                                  .bytes = stored_elements(x) * (int64_t)x->size });
}

/* How wide panels are: a cache line, or the two vectors that most tiles are wide and then read from end to end. */
static int64_t panel_of(tj_dtype sums)
{
	const int64_t two = 2 * rt_vector_bits() / 8;
	return (two > RT_LINE ? two : RT_LINE) / (int64_t)tj_dtype_size(sums);
}

/* Of a narrow matrix the last panel would be most of what is read; but columns that are not adjacent would be packed at each call. */
static bool pays(int64_t columns, int64_t panel, bool adjacent)
{
	return lo_panel_columns(columns, panel) - columns <= (adjacent ? columns / 4 : columns);
}

static int readers(const lo_kernel *k, uint32_t buf)
{
	int n = 0;
	for (uint32_t i = 0; i < k->ins.n; i++) n += (k->ins.v[i].op == LO_LOAD || k->ins.v[i].op == LO_STORE) && k->ins.v[i].buf == buf;
	return n;
}

/* How load `in` of a product reads a matrix, [r or groups of r][columns], that no other access of the kernel reads. */
static bool view_of(const lo_kernel *k, const lo_ins *in, lo_panels *p)
{
	const int last = k->ndim - 1;
	const lo_index *x = &k->index.v[in->index];
	const int64_t group = x->group ? x->group : 1;
	if (readers(k, in->buf) > 1 || !x->coef[last] || !x->rcoef || lo_jumps(x)) return false;
	for (int d = 0; d < last; d++)
		if (x->coef[d]) return false;
	*p = (lo_panels){ tj_dtype_size((tj_dtype)in->dtype),
		          (k->red + group - 1) / group,
		          k->dim[last],
		          0,
		          x->offset,
		          x->rcoef,
		          x->coef[last],
		          LO_SINGLE };
	return true;
}

/* The columns of the product are worth a copy in panels. Ops on them are computed again for each tile. */
static bool is_worth(const lo_kernel *k, const lo_tiles *t, int64_t panel)
{
	const int last = k->ndim - 1;
	if (t->bytes && (t->across || t->strips || lo_word_of(k, t) == LO_SINGLE)) return false; /* few rows read bytes as they lie */
	if (k->index.v[k->ins.v[t->load[1]].index].group || !pays(k->dim[last], panel, t->adjacent)) return false;
	if (t->plain[1]) return true;
	return k->dim[last] % panel == 0 && (t->row < 0 || k->dim[t->row] <= MOST_COMPUTED); /* tiles read whole panels of the other loads, too */
}

/* The content of b is known, and a copy of its view there or worth to be made. */
static bool is_constant(const lo_low *L, const lo_buffer *b)
{
	const lo_label k = label_of(b);
	if (b->device != RT_CPU || (!b->data && !b->content)) return false;
	if (b->cell && !lo_shelf_takes(L->o->shelf, &k)) return false;
	return b->data || lo_shelf_has(L->o->shelf, &k);
}

/* The load reads that view from a copy of its own. false: out of memory. */
static bool read_copy(lo_low *L, lo_kernel *k, uint32_t *buf, lo_ins *in, const lo_buffer *b)
{
	lo_index plain = { .rcoef = b->panels->columns, .group = k->index.v[in->index].group };
	plain.coef[k->ndim - 1] = 1;
	if ((buf[in->buf] = panels_of(L, b)) == LO_NOBUF || !rt_push(&k->index, plain)) return false;
	in->index = k->index.n - 1;
	k->buf.v[in->buf].role = !b->panels->panel ? LO_IN : b->panels->word == LO_SINGLE ? LO_PANELS : LO_WORDS;
	k->buf.v[in->buf].elems = b->panels->panel;
	k->buf.v[in->buf].aligned = true;
	return true;
}

/* The load reads a constant as a matrix: *b is its copy. */
static bool can_copy(const lo_low *L, const lo_kernel *k, const uint32_t *buf, const lo_ins *in, lo_panels *view, int64_t panel,
                     lo_word word, lo_buffer *b)
{
	if (buf[in->buf] == LO_NOBUF || !view_of(k, in, view)) return false;
	view->panel = panel;
	view->word = word;
	*b = L->buf.v[buf[in->buf]];
	b->panels = view;
	return is_constant(L, b);
}

bool lo_read_panels(lo_low *L, lo_kernel *k, uint32_t *buf)
{
	lo_tiles t;
	lo_panels view[2 * LO_AHEAD_LOADS];
	lo_buffer b[2 * LO_AHEAD_LOADS];
	uint32_t load[2 * LO_AHEAD_LOADS];
	int n = 1;
	if (L->o->off & LO_OFF(PANELS) || !lo_tiles_of(k, &t)) return true;
	const int64_t panel = panel_of((tj_dtype)k->ins.v[t.dot].dtype);
	if (!is_worth(k, &t, panel) || !can_copy(L, k, buf, &k->ins.v[load[0] = t.load[1]], &view[0], panel, lo_word_of(k, &t), &b[0]))
		return true;
	for (uint32_t i = 0; i < t.dot; i++) { /* scales, whose columns must be adjacent, too */
		if (i == t.load[1] || lo_is_flat(k, i) || !lo_needed(&t.needs[1], i)) continue;
		if (!can_copy(L, k, buf, &k->ins.v[i], &view[n], 0, LO_SINGLE, &b[n])) return true;
		load[n++] = i;
	}
	for (int i = 0; i < n; i++)
		if (!read_copy(L, k, buf, &k->ins.v[load[i]], &b[i])) return false;
	return true;
}

/* ---- storing ---- */
static int64_t place_of(const lo_panels *x, int64_t r, int64_t column)
{
	return lo_panels_at(x->rows, x->columns, x->panel, (lo_word)x->word, r, column);
}

/* Row r of a panel, n columns from `first` on. */
static void store_row(const lo_panels *x, const char *row, char *to, int64_t r, int64_t first, int64_t n)
{
	const int64_t size = (int64_t)x->size, steps = lo_word_steps((lo_word)x->word), at = place_of(x, r, first);
	char *o = to + at * size;
	if (x->column == 1 && steps == 1) memcpy(o, row, (size_t)(n * size));
	else if (x->word == LO_BYTES)
		for (int64_t j = 0; j < n; j++) o[j * steps] = (char)(row[j * x->column] ^ 0x80);
	else
		for (int64_t j = 0; j < n; j++) memcpy(o + j * steps * size, row + j * x->column * size, x->size);
}

/* Tells in each panel of the chunk that begins at r how small its numbers are (LO_TURNED). */
static void tell_least(const lo_panels *x, char *to, int64_t r)
{
	const int64_t chunk = lo_word_chunk(LO_TURNED), n = x->rows - r < chunk ? x->rows - r : chunk,
		      columns = lo_panel_columns(x->columns, x->panel), words = (n + 1) / 2;
	uint16_t *const all = (uint16_t *)(void *)to + place_of(x, r, 0) / 2 * 2, least = UINT16_MAX;
	for (int64_t i = 0; i < columns / x->panel; i++)
		for (int64_t j = 0; j < words * x->panel * 2; j++) {
			const uint16_t less = (uint16_t)((all[i * (words + 1) * x->panel * 2 + j] & 0x7fff) - 1);
			if (less < least) least = less;
		}
	for (int64_t i = 0; i < columns / x->panel; i++) all[(i * (words + 1) + words) * x->panel * 2] = least;
}

static void store(const lo_panels *x, int64_t bytes, const char *from, char *to)
{
	const int64_t size = (int64_t)x->size;
	from += x->offset * size;
	for (int64_t i = 0; !x->panel && i < x->rows * x->columns; i++)
		memcpy(to + i * size, from + (i / x->columns * x->row + i % x->columns * x->column) * size, x->size);
	if (!x->panel) return;
	if (x->word != LO_SINGLE || x->columns % x->panel)
		memset(to, x->word == LO_BYTES ? 0x80 : 0, (size_t)bytes); /* what is absent; else only the room, which nothing reads */
	for (int64_t first = 0; first < x->columns; first += x->panel)
		for (int64_t r = 0; r < x->rows; r++)
			store_row(x, from + (r * x->row + first * x->column) * size, to, r, first,
			          x->columns - first < x->panel ? x->columns - first : x->panel);
	for (int64_t r = 0; x->word == LO_TURNED && r < x->rows; r += lo_word_chunk(LO_TURNED)) tell_least(x, to, r);
}

void *lo_store_panels(lo_low *L, rt_plan *p, const lo_buffer *b)
{
	const lo_label k = label_of(b);
	lo_shelf *s = b->content ? L->o->shelf : NULL;
	rt_shared *x = lo_shelf_find(s, &k);
	if (!x) {
		if (!b->data || !(x = lo_copy_new(&k, (size_t)b->bytes))) return NULL;
		store(b->panels, b->bytes, b->data, lo_copy_data(x));
		if (s) lo_shelf_keep(s, x);
	}
	p->exec.packed_bytes += (size_t)b->bytes;
	lo_hold(p, x);
	return lo_copy_data(x);
}
