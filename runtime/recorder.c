/* SPDX-License-Identifier: MIT */
/* recorder: what a profile counts.
 *
 *   a plan that runs -> its tally in the recorder of the context: a row for each step, and counts -> sums by row -> a report
 *
 * Only the thread of the context writes counts, by plain stores. Another thread that makes a report reads them meanwhile. Lists grow
 * under the lock of the profile. When a recorder has many tallies, as of a program whose sizes change, it adds them up by row and begins
 * anew; rows have the text of a step, so their number depends on the program, not on how long it runs. */
#include "runtime/profile.h"

#include "runtime/alloc.h"

enum { ROW_BUCKETS = 4096, MOST_ROWS = 1 << 16, TALLY_BUCKETS = 256, MOST_TALLIES = 1024, MOST_AREAS = 4096 };

struct rt_tally {
	struct rt_tally *next;   /* of its bucket */
	uint64_t serial;         /* of the plan */
	const char *site;
	uint32_t nstep;
	rt_row **row;            /* by step; NULL: there was no memory for it */
	rt_count *count;
	struct cost { double read, written, flops, least_ns; } *cost; /* of one run */
};

struct rt_recorder {
	rt_profile *profile;
	rt_recorder *next;
	uint32_t context;
	bool ended;              /* its context is gone: it is in the list for what it counted */
	rt_tally *bucket[TALLY_BUCKETS];
	uint32_t ntally;
	rt_vec(rt_sum) sum;      /* by row: of tallies that are gone */
	rt_count phase[RT_PHASES];
	rt_function *of;         /* the function that is called, or NULL */
	rt_frame *top;
	uint64_t call;           /* its number */
	const char *segment_site; /* the line that ends the segment that runs; NULL: none does */
	const rt_row *now;       /* the step that runs */
	size_t used;             /* bytes of memory told last */
};

struct rt_profile {
	atomic_int refs;
	atomic_bool on;
	rt_limits limits;
	int64_t start;
	atomic_llong stop;       /* 0: it goes on */
	rt_timeline *timeline;
	atomic_ullong calls, lost;
	pthread_mutex_t lock;    /* of all below, and of the lists of recorders */
	rt_arena mem;
	rt_row *bucket[ROW_BUCKETS];
	rt_vec(rt_row *) row;
	rt_function *function;
	rt_area *area;
	uint32_t narea;
	rt_recorder *recorder;
	rt_label phase[RT_PHASES]; /* of no function */
};

_Thread_local rt_recorder *rt_recording __attribute__((tls_model("initial-exec"), visibility("hidden")));

static const char *const phase_names[RT_PHASES] = { [RT_CALL] = "call", [RT_TRACE] = "tracing", [RT_LOWER] = "lowering",
	                                            [RT_CODEGEN] = "code generation", [RT_CACHE] = "disk cache",
	                                            [RT_TEAM] = "waiting for the team", [RT_QUEUE] = "waiting for a queue" };

/* ---- counts: written by one thread, read by any ---- */
static uint64_t get(const uint64_t *x) { return __atomic_load_n(x, __ATOMIC_RELAXED); }
static void set(uint64_t *x, uint64_t v) { __atomic_store_n(x, v, __ATOMIC_RELAXED); }

static void count(rt_count *c, int64_t self, int64_t total)
{
	const uint64_t t = total > 0 ? (uint64_t)total : 0, runs = get(&c->runs);
	set(&c->self, get(&c->self) + (self > 0 ? (uint64_t)self : 0));
	set(&c->total, get(&c->total) + t);
	if (!runs || t < get(&c->least)) set(&c->least, t);
	if (t > get(&c->most)) set(&c->most, t);
	set(&c->runs, runs + 1);
}

static void add_count(rt_count *to, const rt_count *c)
{
	const uint64_t runs = get(&c->runs), least = get(&c->least), most = get(&c->most);
	if (!runs) return;
	if (!to->runs || least < to->least) to->least = least;
	if (most > to->most) to->most = most;
	to->runs += runs;
	to->self += get(&c->self);
	to->total += get(&c->total);
}

static void add_tally(rt_sum *to, const rt_tally *t, uint32_t i)
{
	const double runs = (double)get(&t->count[i].runs);
	add_count(&to->count, &t->count[i]);
	to->read += runs * t->cost[i].read;
	to->written += runs * t->cost[i].written;
	to->flops += runs * t->cost[i].flops;
	to->least_ns += runs * t->cost[i].least_ns;
}

static void add_sum(rt_sum *to, const rt_sum *x)
{
	add_count(&to->count, &x->count);
	to->read += x->read;
	to->written += x->written;
	to->flops += x->flops;
	to->least_ns += x->least_ns;
}

/* ---- a profile ---- */
static rt_label keep_label(rt_profile *p, rt_text *t)
{
	const char *s = t->oom ? NULL : rt_arena_strdup(&p->mem, rt_str(t));
	rt_text_free(t);
	return s;
}

static bool label_phases(rt_profile *p, rt_label *label, const char *function)
{
	bool ok = true;
	for (int i = 0; i < RT_PHASES; i++) {
		rt_text t = { 0 };
		rt_putf(&t, "\"name\":\"%s\",\"cat\":\"host\",\"args\":{", phase_names[i]);
		if (function) rt_puts(&t, "\"function\":"), rt_put_json(&t, function);
		ok &= (label[i] = keep_label(p, &t)) != NULL;
	}
	return ok;
}

rt_profile *rt_profile_new(const rt_limits *limits, const char *timeline, int64_t budget, rt_err *err)
{
	rt_profile *p = rt_calloc(sizeof *p);
	if (!p) return rt_fail(err, TJ_ERR_NOMEM, "profile", "out of memory"), NULL;
	atomic_init(&p->refs, 1);
	pthread_mutex_init(&p->lock, NULL);
	if (limits) p->limits = *limits;
	p->start = rt_now_ns();
	bool ok = label_phases(p, p->phase, NULL);
	if (!ok) rt_fail(err, TJ_ERR_NOMEM, "profile", "out of memory");
	else if (timeline) ok = (p->timeline = rt_timeline_open(timeline, budget, p->start, err)) != NULL;
	if (!ok) return rt_profile_unref(p), NULL;
	atomic_store(&p->on, true);
	return p;
}

rt_profile *rt_profile_ref(rt_profile *p)
{
	if (p) atomic_fetch_add(&p->refs, 1);
	return p;
}

static void free_tallies(rt_recorder *r)
{
	for (int b = 0; b < TALLY_BUCKETS; b++)
		for (rt_tally *t = r->bucket[b], *next; t; t = next) {
			next = t->next;
			rt_free(t);
		}
	memset(r->bucket, 0, sizeof r->bucket);
	r->ntally = 0;
}

void rt_profile_unref(rt_profile *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
	rt_timeline_close(p->timeline);
	for (rt_recorder *r = p->recorder, *next; r; r = next) {
		next = r->next;
		free_tallies(r);
		rt_vec_free(&r->sum);
		rt_free(r);
	}
	rt_vec_free(&p->row);
	rt_arena_free(&p->mem);
	pthread_mutex_destroy(&p->lock);
	rt_free(p);
}

bool rt_profile_on(const rt_profile *p) { return atomic_load_explicit(&p->on, memory_order_relaxed); }
const rt_limits *rt_profile_limits(const rt_profile *p) { return &p->limits; }
uint64_t rt_profile_lost(const rt_profile *p) { return atomic_load(&p->lost); }

/* The timeline's memory stays until the last reference goes: a thread may still tell it something, which is then left out. */
void rt_profile_stop(rt_profile *p)
{
	if (!atomic_exchange(&p->on, false)) return;
	atomic_store(&p->stop, rt_now_ns());
	if (p->timeline) rt_timeline_end(p->timeline);
}

double rt_profile_ms(const rt_profile *p)
{
	const int64_t stop = atomic_load(&p->stop);
	return (double)((stop ? stop : rt_now_ns()) - p->start) / 1e6;
}

static void clear(rt_recorder *r)
{
	for (int b = 0; b < TALLY_BUCKETS; b++)
		for (rt_tally *t = r->bucket[b]; t; t = t->next) memset(t->count, 0, sizeof *t->count * t->nstep);
	if (r->sum.n) memset(r->sum.v, 0, sizeof *r->sum.v * r->sum.n);
	memset(r->phase, 0, sizeof r->phase);
}

void rt_profile_forked(rt_profile *p)
{
	p->start = rt_now_ns();
	if (p->timeline) rt_timeline_forget(p->timeline);
	for (rt_recorder *r = p->recorder; r; r = r->next) clear(r);
	for (rt_function *f = p->function; f; f = f->next) memset(&f->count, 0, sizeof f->count);
}

/* ---- rows ---- */
/* "matmul add at net.c:6, exp at net.c:7" */
static void put_where(rt_text *t, const rt_facts *f, const char *site)
{
	const char *last = site;
	for (uint32_t i = 0; f && i < f->nop; i++) {
		const char *at = site ? site : f->op[i].site;
		const bool other = i && at != last && strcmp(at ? at : "?", last ? last : "?") != 0;
		if (other) rt_putf(t, " at %s,", last ? last : "?");
		rt_putf(t, "%s%s", i ? " " : "", f->op[i].name);
		last = at;
	}
	if (f && f->nop) rt_putf(t, " at %s", last ? last : "?");
}

static const char *category(const rt_step *s)
{
	static const char *const by_kind[] = { [RT_STEP_KERNEL] = "kernel", [RT_STEP_ROUTINE] = "library", [RT_STEP_FLOW] = "control flow",
		                               [RT_STEP_COPY] = "copy" };
	return s->kind == RT_STEP_ROUTINE && !strncmp(s->name, "eval ", 5) ? "evaluator" : by_kind[s->kind];
}

static rt_label label_of(rt_profile *p, const rt_row *x, const rt_step *s)
{
	rt_text t = { 0 };
	rt_puts(&t, "\"name\":");
	rt_put_json(&t, x->name);
	rt_putf(&t, ",\"cat\":\"%s\",\"args\":{\"function\":", category(s));
	rt_put_json(&t, x->function);
	rt_puts(&t, ",\"computes\":");
	rt_put_json(&t, x->where);
	if (s->facts) rt_putf(&t, ",\"read bytes\":%lld,\"written bytes\":%lld", (long long)s->facts->read, (long long)s->facts->written);
	if (s->facts && s->facts->flops > 0 && s->facts->flops < 1e18) rt_putf(&t, ",\"operations\":%lld", (long long)s->facts->flops);
	return keep_label(p, &t);
}

static const char *keep(rt_profile *p, const char *s) { return s ? rt_arena_strdup(&p->mem, s) : NULL; }

/* Copies of what the program or the plan may free. */
static bool fill_row(rt_profile *p, rt_row *x, const rt_step *s, const char *function, const char *where, const char *site)
{
	const rt_facts *f = s->facts;
	rt_fact *op = rt_arena_alloc(&p->mem, sizeof *op * ((f ? f->nop : 0) + 1u));
	x->kind = s->kind;
	x->device = s->device;
	x->function = keep(p, function);
	x->name = keep(p, s->name);
	x->where = keep(p, where);
	if (!op || !x->function || !x->name || !x->where) return false;
	for (uint32_t i = 0; f && i < f->nop; i++) {
		const char *at = site ? site : f->op[i].site;
		const bool same = i && at == (site ? site : f->op[i - 1].site);
		op[i] = (rt_fact){ f->op[i].name, same ? op[i - 1].site : keep(p, at), f->op[i].share };
	}
	x->op = op;
	x->nop = f ? f->nop : 0;
	return (x->label = label_of(p, x, s)) != NULL;
}

/* Under the lock. */
static rt_row *row_of(rt_profile *p, const rt_step *s, const char *function, const char *site)
{
	rt_text where = { 0 };
	put_where(&where, s->facts, site);
	uint64_t h = rt_hash(function, strlen(function), s->kind + 256u * s->device);
	h = rt_hash(s->name, strlen(s->name), h);
	h = rt_hash(rt_str(&where), where.n, h);
	rt_row **b = &p->bucket[h % ROW_BUCKETS], *x = *b;
	while (x && (x->hash != h || strcmp(x->name, s->name) != 0 || strcmp(x->function, function) != 0)) x = x->next;
	if (!x && !where.oom && p->row.n < MOST_ROWS && (x = rt_arena_alloc(&p->mem, sizeof *x)) != NULL) {
		x->hash = h;
		x->number = p->row.n;
		if (fill_row(p, x, s, function, rt_str(&where), site) && rt_push(&p->row, x)) x->next = *b, *b = x;
		else x = NULL;
	}
	rt_text_free(&where);
	return x;
}

/* ---- recorders ---- */
rt_recorder *rt_recorder_new(rt_profile *p, uint32_t context)
{
	rt_recorder *r = rt_calloc(sizeof *r);
	if (!r) return NULL;
	r->profile = rt_profile_ref(p);
	r->context = context;
	rt_lock(&p->lock);
	r->next = p->recorder;
	p->recorder = r;
	rt_unlock(&p->lock);
	return r;
}

/* Adds up the tallies by row. */
static void fold(rt_recorder *r)
{
	rt_profile *p = r->profile;
	if (r->sum.n < p->row.n && !rt_reserve(&r->sum, p->row.n - r->sum.n)) return;
	for (; r->sum.n < p->row.n; r->sum.n++) r->sum.v[r->sum.n] = (rt_sum){ 0 };
	for (int b = 0; b < TALLY_BUCKETS; b++)
		for (const rt_tally *t = r->bucket[b]; t; t = t->next)
			for (uint32_t i = 0; i < t->nstep; i++)
				if (t->row[i]) add_tally(&r->sum.v[t->row[i]->number], t, i);
	free_tallies(r);
}

void rt_recorder_free(rt_recorder *r)
{
	if (!r) return;
	rt_profile *p = r->profile;
	if (rt_recording == r) rt_recording = NULL;
	rt_lock(&p->lock);
	fold(r);
	r->ended = true;
	rt_unlock(&p->lock);
	rt_profile_unref(p);
}

bool rt_recorder_on(const rt_recorder *r) { return rt_profile_on(r->profile); }

/* ---- frames ---- */
static void open_frame(rt_recorder *r, rt_frame *f, int64_t start)
{
	*f = (rt_frame){ .outer = r->top, .start = start };
	r->top = f;
}

/* Returns the time without the parts. */
static int64_t close_frame(rt_recorder *r, const rt_frame *f, int64_t end)
{
	if (f->outer) f->outer->inside += end - f->start;
	r->top = f->outer;
	return end - f->start - f->inside;
}

void rt_frame_begin(rt_recorder *r, rt_frame *f) { open_frame(r, f, rt_now_ns()); }
void rt_frame_from(rt_recorder *r, rt_frame *f, int64_t start) { open_frame(r, f, start); }

static void tell(const rt_recorder *r, rt_label label, uint32_t lane, int64_t start, int64_t end, bool begins, bool always)
{
	if (!r->profile->timeline || !label) return;
	rt_timeline_tell(r->profile->timeline, &(rt_event){ .start = start, .end = end, .label = label, .flow = r->call, .lane = lane,
	                                                    .begins = begins, .always = always });
}

static rt_label label_of_phase(const rt_recorder *r, rt_phase phase) { return (r->of ? r->of->phase : r->profile->phase)[phase]; }
static bool is_rare(rt_phase phase) { return phase >= RT_TRACE && phase <= RT_CACHE; }

void rt_phase_end(rt_recorder *r, rt_frame *f, rt_phase phase)
{
	const int64_t end = rt_now_ns(), self = close_frame(r, f, end);
	count(&r->phase[phase], self, end - f->start);
	tell(r, label_of_phase(r, phase), 0, f->start, end, false, is_rare(phase));
}

void rt_phase_note(rt_recorder *r, rt_phase phase, int64_t start, int64_t end, bool apart)
{
	count(&r->phase[phase], end - start, end - start);
	if (apart && r->top) r->top->inside += end - start;
	tell(r, label_of_phase(r, phase), 0, start, end, false, is_rare(phase));
}

/* ---- calls ---- */
static rt_function *function_of(rt_profile *p, const char *name)
{
	rt_function *f;
	rt_lock(&p->lock);
	for (f = p->function; f && strcmp(f->name, name) != 0;) f = f->next;
	if (!f && (f = rt_arena_alloc(&p->mem, sizeof *f)) != NULL) {
		rt_text t = { 0 };
		f->name = keep(p, name);
		rt_puts(&t, "\"name\":");
		rt_put_json(&t, name);
		rt_puts(&t, ",\"cat\":\"call\",\"args\":{");
		f->label = keep_label(p, &t);
		if (f->name && f->label && label_phases(p, f->phase, f->name)) f->next = p->function, p->function = f;
		else f = NULL;
	}
	rt_unlock(&p->lock);
	return f;
}

void rt_call_begin(rt_recorder *r, rt_frame *f, const char *function)
{
	r->top = NULL; /* a call before this one may have been left by longjmp() */
	r->now = NULL;
	if (RT_UNLIKELY(r->ntally >= MOST_TALLIES)) {
		rt_lock(&r->profile->lock);
		fold(r); /* no plan runs, so nobody uses a tally */
		rt_unlock(&r->profile->lock);
	}
	r->call = atomic_fetch_add_explicit(&r->profile->calls, 1, memory_order_relaxed) + 1;
	if (!r->of || strcmp(r->of->name, function) != 0) r->of = function_of(r->profile, function);
	r->segment_site = NULL;
	open_frame(r, f, rt_now_ns());
}

static void tell_memory(rt_recorder *r, int64_t now)
{
	const size_t used = rt_usage_of(RT_CPU).used;
	if (!r->profile->timeline || used == r->used) return;
	r->used = used;
	rt_timeline_tell(r->profile->timeline, &(rt_event){ .start = now, .end = (int64_t)used, .kind = RT_MEMORY, .lane = RT_CPU });
}

/* Other contexts may call the same function. */
static void count_shared(rt_count *c, int64_t self, int64_t total)
{
	__atomic_add_fetch(&c->runs, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&c->self, (uint64_t)(self > 0 ? self : 0), __ATOMIC_RELAXED);
	__atomic_add_fetch(&c->total, (uint64_t)total, __ATOMIC_RELAXED);
	if ((uint64_t)total > get(&c->most)) set(&c->most, (uint64_t)total);
}

void rt_call_end(rt_recorder *r, rt_frame *f)
{
	const int64_t end = rt_now_ns(), self = close_frame(r, f, end);
	count(&r->phase[RT_CALL], self, end - f->start);
	if (r->of) {
		count_shared(&r->of->count, self, end - f->start);
		tell(r, r->of->label, RT_LANE_CONTEXT + r->context % RT_LANE_CONTEXTS, f->start, end, true, false);
		tell_memory(r, end);
	}
	r->call = 0;
}

void rt_recorder_at(rt_recorder *r, const char *site) { r->segment_site = site; }

/* ---- steps ---- */
static const char *function_name(const rt_recorder *r) { return r->of ? r->of->name : "?"; }

/* Under the lock. */
static void note_area(rt_recorder *r, const rt_exec *x)
{
	rt_profile *p = r->profile;
	for (int d = 0; d < RT_DEVICES; d++) {
		if (!x->arena_bytes[d]) continue;
		rt_area *a = p->area;
		while (a && (a->device != d || strcmp(a->site, r->segment_site) != 0 || strcmp(a->function, function_name(r)) != 0)) a = a->next;
		if (!a && p->narea < MOST_AREAS && (a = rt_arena_alloc(&p->mem, sizeof *a)) != NULL) {
			*a = (rt_area){ p->area, keep(p, function_name(r)), keep(p, r->segment_site), "", d, 0 };
			if (!a->function || !a->site) return;
			p->area = a;
			p->narea++;
		}
		if (!a || x->arena_bytes[d] <= a->bytes) continue;
		const char *full = x->full.step ? keep(p, x->full.step) : "";
		a->bytes = x->arena_bytes[d];
		a->full = full ? full : "";
	}
}

static rt_tally *new_tally(rt_recorder *r, const rt_plan *p, const char *site)
{
	const size_t n = p->nstep, bytes = sizeof(rt_tally) + n * (sizeof(rt_row *) + sizeof(rt_count) + sizeof(struct cost));
	rt_tally *t = rt_calloc(bytes);
	if (!t) return NULL;
	t->serial = p->serial;
	t->site = site;
	t->nstep = p->nstep;
	t->count = (rt_count *)(t + 1);
	t->cost = (struct cost *)(t->count + n);
	t->row = (rt_row **)(t->cost + n);
	for (uint32_t i = 0; i < p->nstep; i++) {
		const rt_facts *f = p->step[i].facts;
		t->row[i] = row_of(r->profile, &p->step[i], function_name(r), site);
		if (!f) continue;
		const double bytes_moved = (double)f->read + (double)f->written;
		const double least = rt_least_ns(&r->profile->limits, bytes_moved, f->flops + f->wide);
		t->cost[i] = (struct cost){ (double)f->read, (double)f->written, f->flops, least };
		if (p->step[i].device != RT_CPU) t->cost[i].least_ns = 0; /* the limits are those of the CPU */
	}
	return t;
}

rt_tally *rt_tally_of(rt_recorder *r, const rt_plan *p, const char *site)
{
	rt_tally **b = &r->bucket[p->serial % TALLY_BUCKETS], *t = *b;
	while (t && (t->serial != p->serial || t->site != site)) t = t->next;
	if (RT_LIKELY(t != NULL)) return t;
	rt_lock(&r->profile->lock);
	if ((t = new_tally(r, p, site)) != NULL) {
		t->next = *b;
		__atomic_store_n(b, t, __ATOMIC_RELEASE);
		r->ntally++;
		if (r->segment_site && !site) note_area(r, &p->exec);
	} else atomic_fetch_add(&r->profile->lost, 1);
	rt_unlock(&r->profile->lock);
	return t;
}

static uint32_t lane_of(const rt_recorder *r, const rt_row *x, bool queued)
{
	return queued ? RT_LANE_QUEUE + (uint32_t)x->device * RT_LANE_CONTEXTS + r->context % RT_LANE_CONTEXTS : 0;
}

const rt_row *rt_tally_begin(rt_recorder *r, const rt_tally *t, uint32_t step)
{
	const rt_row *was = r->now;
	r->now = t->row[step];
	return was;
}

void rt_tally_end(rt_recorder *r, rt_tally *t, uint32_t step, rt_frame *f, int64_t end, int64_t ns, const rt_row *was)
{
	const int64_t self = close_frame(r, f, end), here = end - f->start, total = ns < 0 ? here : ns;
	const rt_row *x = t->row[step];
	count(&t->count[step], ns < 0 ? self : ns, total);
	if (x) tell(r, x->label, lane_of(r, x, ns >= 0), end - (total < here ? total : here), end, false, false);
	else atomic_fetch_add_explicit(&r->profile->lost, 1, memory_order_relaxed);
	r->now = was;
}

/* Each step gets a part of the time that all threads spent in it. They are one after the other in the timeline, though they ran side by
 * side or in turns. */
void rt_tally_share(rt_recorder *r, rt_tally *t, uint32_t step, uint32_t n, rt_frame *f, int64_t end, const int64_t *spent,
                    const rt_row *was)
{
	const int64_t all = end - f->start;
	int64_t sum = 0, at = f->start;
	close_frame(r, f, end);
	for (uint32_t i = 0; i < n; i++) sum += spent[i];
	for (uint32_t i = 0; i < n; i++) {
		const int64_t own = sum ? (int64_t)((double)all * (double)spent[i] / (double)sum) : all / n;
		count(&t->count[step + i], own, own);
		if (t->row[step + i]) tell(r, t->row[step + i]->label, 0, at, at + own, false, false);
		at += own;
	}
	r->now = was;
}

void rt_team_worked(rt_recorder *r, int64_t start, int64_t end)
{
	if (r->now) tell(r, r->now->label, 0, start, end, false, false);
}

/* ---- a report ---- */
static void add_recorder(const rt_recorder *r, rt_report *x)
{
	for (uint32_t i = 0; i < r->sum.n; i++) add_sum(&x->sum[i], &r->sum.v[i]);
	for (int b = 0; b < TALLY_BUCKETS; b++)
		for (const rt_tally *t = __atomic_load_n(&r->bucket[b], __ATOMIC_ACQUIRE); t; t = t->next)
			for (uint32_t i = 0; i < t->nstep; i++)
				if (t->row[i]) add_tally(&x->sum[t->row[i]->number], t, i);
	for (int i = 0; i < RT_PHASES; i++) add_count(&x->phase[i], &r->phase[i]);
}

static void copy_functions(const rt_profile *p, rt_report *x)
{
	const rt_function **to = &x->function;
	for (const rt_function *f = p->function; f; f = f->next) {
		rt_function *copy = rt_arena_alloc(&x->mem, sizeof *copy);
		if (!copy) return;
		*copy = (rt_function){ .name = f->name };
		add_count(&copy->count, &f->count);
		*to = copy;
		to = (const rt_function **)&copy->next;
	}
}

static void copy_areas(const rt_profile *p, rt_report *x)
{
	const rt_area **to = &x->area;
	for (const rt_area *a = p->area; a; a = a->next) {
		rt_area *copy = rt_arena_alloc(&x->mem, sizeof *copy);
		if (!copy) return;
		*copy = *a;
		copy->next = NULL;
		*to = copy;
		to = (const rt_area **)&copy->next;
	}
}

bool rt_report_make(rt_profile *p, rt_report *x)
{
	*x = (rt_report){ .profile = p };
	rt_lock(&p->lock);
	x->nrow = p->row.n;
	x->row = rt_arena_alloc(&x->mem, sizeof *x->row * (x->nrow + 1u));
	x->sum = rt_arena_alloc(&x->mem, sizeof *x->sum * (x->nrow + 1u));
	const bool ok = x->row && x->sum;
	for (uint32_t i = 0; ok && i < x->nrow; i++) x->row[i] = p->row.v[i];
	for (const rt_recorder *r = p->recorder; ok && r; r = r->next) add_recorder(r, x);
	if (ok) copy_functions(p, x), copy_areas(p, x);
	rt_unlock(&p->lock);
	if (!ok) rt_report_free(x);
	return ok;
}

void rt_report_free(rt_report *x) { rt_arena_free(&x->mem); }
