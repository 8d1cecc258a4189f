/* SPDX-License-Identifier: MIT */
/* A dump is whole: JSON with the fields that the page reads, of the types that it expects, with numbers of nodes, steps and buffers that
 * exist. Operands are nodes before their users, so no graph has a circle. Fields that are not listed here are left alone. */
#include "cli/report.h"

#include <stdarg.h>
#include <string.h>

enum { VERSION = 1, DEEPEST = 32 };

/* What a value may be. A COUNT is an integer of 0 or more; a NUMBER may be null. */
typedef enum type { STRING, COUNT, INTEGER, NUMBER, BOOLEAN, OBJECT, LIST } type;
typedef struct shape shape;
typedef struct field {
	const char *name;        /* NULL: the last one */
	type type;
	bool optional;
	const shape *of;         /* OBJECT: its fields; LIST: those of its elements, which are objects. NULL: STRINGs or COUNTs, see `item` */
	type item;               /* LIST with of NULL */
} field;
struct shape {
	const field *field;
	bool (*more)(const json_t *o); /* whether the numbers in it are those of something; NULL: it has none */
};

/* ---- the path to what is wrong ---- */
typedef struct place { const struct place *in; const char *field; size_t index; } place; /* field NULL: an element */

static void put_place(const place *p, char *to, size_t room)
{
	if (!p->in) return;
	put_place(p->in, to, room);
	const size_t n = strlen(to);
	if (p->field) snprintf(to + n, room - n, "%s%s", n ? "." : "", p->field);
	else snprintf(to + n, room - n, "[%zu]", p->index);
}

static bool wrong(const char *path, const place *p, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool wrong(const char *path, const place *p, const char *fmt, ...)
{
	char where[512] = "", what[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	put_place(p, where, sizeof where);
	cli_error("%s: %s%s%s; the dump is damaged, or is none", path, where, *where ? " " : "", what);
	return false;
}

/* ---- types ---- */
static bool has_type(const json_t *v, type t)
{
	switch (t) {
	case STRING: return json_is_string(v);
	case COUNT: return json_is_integer(v) && json_integer_value(v) >= 0;
	case INTEGER: return json_is_integer(v);
	case NUMBER: return json_is_number(v) || json_is_null(v);
	case BOOLEAN: return json_is_boolean(v);
	case OBJECT: return json_is_object(v);
	case LIST: return json_is_array(v);
	}
	return false;
}

static const char *const names[] = { "a string",  "an integer of 0 or more", "an integer", "a number", "true or false",
	                             "an object", "a list" };

static bool check_object(const char *path, const place *p, const json_t *o, const shape *s, int deep);

static bool check_list(const char *path, const place *p, const json_t *list, const field *f, int deep)
{
	size_t i;
	const json_t *v;
	json_array_foreach(list, i, v) {
		const place at = { p, NULL, i };
		const type t = f->of ? OBJECT : f->item;
		if (!has_type(v, t)) return wrong(path, &at, "is not %s", names[t]);
		if (f->of && !check_object(path, &at, v, f->of, deep + 1)) return false;
	}
	return true;
}

static bool check_object(const char *path, const place *p, const json_t *o, const shape *s, int deep)
{
	if (deep > DEEPEST) return wrong(path, p, "is too deep");
	for (const field *f = s->field; f->name; f++) {
		const place at = { p, f->name, 0 };
		const json_t *v = json_object_get(o, f->name);
		if (!v && f->optional) continue;
		if (!v) return wrong(path, &at, "is missing");
		if (!has_type(v, f->type)) return wrong(path, &at, "is not %s", names[f->type]);
		if (f->type == OBJECT && f->of && !check_object(path, &at, v, f->of, deep + 1)) return false;
		if (f->type == LIST && !check_list(path, &at, v, f, deep)) return false;
	}
	return !s->more || s->more(o) || wrong(path, p, "names a node, a step or a buffer that is not there");
}

/* ---- numbers of nodes, steps, buffers ---- */
static bool below(const json_t *o, const char *key, size_t n)
{
	const json_t *v = json_object_get(o, key);
	return !v || json_is_null(v) || (json_integer_value(v) >= 0 && (size_t)json_integer_value(v) < n);
}

static bool all_below(const json_t *o, const char *key, size_t n)
{
	size_t i;
	const json_t *v;
	json_array_foreach(json_object_get(o, key), i, v)
		if ((size_t)json_integer_value(v) >= n) return false;
	return true;
}

static bool check_lowered(const json_t *o)
{
	const json_t *nodes = json_object_get(o, "nodes"), *steps = json_object_get(o, "steps"), *buffers = json_object_get(o, "buffers");
	const size_t nnode = json_array_size(nodes), nstep = json_array_size(steps), nbuffer = json_array_size(buffers);
	bool ok = all_below(o, "out", nnode);
	size_t i;
	const json_t *v;
	json_array_foreach(nodes, i, v) ok = ok && all_below(v, "src", i) && below(v, "step", nstep);
	json_array_foreach(steps, i, v)
		ok = ok && all_below(v, "reads", nbuffer) && all_below(v, "writes", nbuffer) && all_below(v, "again", nnode) && below(v, "shares", i);
	json_array_foreach(buffers, i, v) {
		const json_int_t first = json_integer_value(json_object_get(v, "first")), last = json_integer_value(json_object_get(v, "last"));
		ok = ok && below(v, "over", nbuffer) && below(v, "node", nnode) && below(v, "first", nstep) && below(v, "last", nstep) && first <= last;
	}
	return ok;
}

/* ---- the fields ---- */
#define FIELDS(...) ((const field[]){ __VA_ARGS__, { NULL, STRING, false, NULL, STRING } })
#define IS(name, type) { name, type, false, NULL, STRING }
#define MAY(name, type) { name, type, true, NULL, STRING }
#define HAS(name, of) { name, OBJECT, false, &(of), STRING }
#define LIST_OF(name, of) { name, LIST, false, &(of), STRING }
#define MAY_LIST_OF(name, of) { name, LIST, true, &(of), STRING }
#define LIST_IN(name, item) { name, LIST, false, NULL, item }
#define MAY_LIST_IN(name, item) { name, LIST, true, NULL, item }

static const shape node = { FIELDS(IS("op", STRING), IS("type", STRING), IS("how", STRING), MAY("site", STRING), MAY("attrs", STRING),
	                           MAY("value", NUMBER), MAY("step", COUNT), MAY("stored", BOOLEAN), LIST_IN("src", COUNT)),
	                    NULL };
static const shape buffer = { FIELDS(IS("place", STRING), IS("bytes", COUNT), MAY("device", STRING), MAY("index", COUNT),
	                             MAY("offset", COUNT), MAY("over", COUNT), MAY("first", COUNT), MAY("last", COUNT), MAY("node", COUNT),
	                             MAY("late", BOOLEAN)),
	                      NULL };
static const shape arena = { FIELDS(IS("device", STRING), IS("bytes", COUNT)), NULL };
static const shape memory = { FIELDS(IS("step", COUNT), IS("bytes", COUNT), IS("kept", COUNT), IS("kept_bytes", COUNT),
	                             IS("recomputed", COUNT), LIST_OF("arenas", arena)),
	                      NULL };
static const shape lowered;
static const shape lowered_step = { FIELDS(IS("name", STRING), IS("kind", STRING), MAY("beside", COUNT), MAY("follows", BOOLEAN),
	                                   MAY("epilogue", BOOLEAN), MAY("apart", STRING), LIST_IN("reads", COUNT),
	                                   LIST_IN("writes", COUNT), MAY_LIST_IN("again", COUNT), MAY("kernel", STRING),
	                                   MAY("code", STRING), MAY("assembly", STRING), MAY("kernel_cut", COUNT), MAY("code_cut", COUNT),
	                                   MAY("assembly_cut", COUNT), MAY("shares", COUNT), MAY_LIST_OF("regions", lowered)),
	                            NULL };
static const shape lowered = { FIELDS(LIST_OF("nodes", node), LIST_IN("out", COUNT), LIST_OF("steps", lowered_step),
	                              LIST_OF("buffers", buffer), HAS("memory", memory)),
	                       check_lowered };

static const shape op = { FIELDS(IS("op", STRING), IS("site", STRING), IS("share", NUMBER)), NULL };
static const shape region;
static const shape step = { FIELDS(IS("name", STRING), MAY("units", COUNT), MAY("estimated_ns", NUMBER), MAY("device", STRING),
	                           MAY("moved", COUNT), MAY("rest", STRING), MAY("read", COUNT), MAY("wrote", COUNT),
	                           MAY("flops", NUMBER), MAY_LIST_OF("ops", op), MAY("runs", COUNT), MAY("ns", COUNT),
	                           MAY_LIST_OF("regions", region)),
	                    NULL };
static const shape region = { FIELDS(LIST_OF("steps", step)), NULL };
static const shape decision = { FIELDS(IS("kind", STRING), IS("op", STRING), IS("site", STRING), IS("other", STRING),
	                               MAY("other_site", STRING), IS("why", STRING), IS("hint", STRING), IS("text", STRING),
	                               IS("bytes", INTEGER)),
	                        NULL };
static const shape plan = { FIELDS(IS("values", COUNT), IS("kernels", COUNT), IS("compiled", COUNT), IS("loaded", COUNT),
	                           IS("library_calls", COUNT), IS("eval_steps", COUNT), IS("lower_ms", NUMBER),
	                           IS("codegen_ms", NUMBER), IS("code_bytes", COUNT), IS("packed_bytes", COUNT),
	                           IS("known_bytes", COUNT), IS("arena_bytes", COUNT), MAY("fullest", STRING),
	                           MAY_LIST_OF("steps", step), { "lowered", OBJECT, true, &lowered, STRING },
	                           MAY_LIST_OF("decisions", decision)),
	                    NULL };
static const shape guard = { FIELDS(IS("kind", STRING), IS("text", STRING), MAY("argument", COUNT), MAY("dropped", BOOLEAN)), NULL };
static const shape event = { FIELDS(IS("op", STRING), IS("type", STRING), IS("operands", STRING), MAY("attrs", STRING), IS("site", STRING),
	                            LIST_OF("guards", guard)),
	                     NULL };
static const shape branch = { FIELDS(IS("value", BOOLEAN), IS("times", COUNT), MAY("then", COUNT)), NULL };
static const shape segment = { FIELDS(IS("number", COUNT), IS("ends_in", STRING), IS("site", STRING), IS("runs", COUNT),
	                              IS("recomputed", COUNT), MAY("boundary", STRING), MAY("boundary_cure", STRING),
	                              MAY_LIST_OF("branches", branch),
	                              LIST_OF("events", event), { "plan", OBJECT, true, &plan, STRING }),
	                       NULL };
static const shape trace = { FIELDS(IS("number", COUNT), IS("nth", COUNT), IS("hits", COUNT), LIST_OF("guards", guard),
	                            LIST_OF("segments", segment), MAY("segments_left_out", COUNT)),
	                     NULL };
static const shape signature = { FIELDS(IS("number", COUNT), IS("text", STRING), IS("sizes", COUNT), LIST_OF("traces", trace),
	                                MAY("more", COUNT), MAY("more_hits", COUNT)),
	                         NULL };
static const shape reason = { FIELDS(IS("kind", STRING), IS("text", STRING), IS("site", STRING), IS("cure", STRING),
	                             MAY("expected", STRING), MAY("found", STRING), MAY("argument", COUNT), MAY("dim", COUNT), MAY("event", COUNT),
	                             MAY("state", COUNT), MAY("trace", COUNT), MAY("segment", COUNT), IS("times", COUNT)),
	                      NULL };
static const shape reasons = { FIELDS(IS("told", COUNT), LIST_OF("last", reason)), NULL };
static const shape stats = { FIELDS(IS("calls", COUNT), IS("hits", COUNT), IS("recordings", COUNT), IS("side_exits", COUNT),
	                            IS("failures", COUNT), IS("evictions", COUNT), IS("direct", COUNT), IS("nested", COUNT),
	                            IS("kernels", COUNT), IS("compiled", COUNT), IS("loaded", COUNT), IS("shared", COUNT),
	                            IS("library_calls", COUNT), IS("eval_steps", COUNT), IS("code_bytes", COUNT), IS("peak_bytes", COUNT),
	                            IS("bytes", COUNT), IS("trace_ms", NUMBER), IS("lower_ms", NUMBER), IS("codegen_ms", NUMBER)),
	                     NULL };
static const shape function = { FIELDS(IS("name", STRING), IS("site", STRING), IS("options", OBJECT), HAS("stats", stats),
	                               LIST_OF("signatures", signature), HAS("traced_again", reasons), HAS("noted", reasons)),
	                        NULL };
static const shape machine = { FIELDS(IS("cpu", STRING), IS("family", INTEGER), IS("model", INTEGER), IS("stepping", INTEGER),
	                              IS("capability", STRING), IS("vector_bits", COUNT), IS("cpus", COUNT), IS("allowed", COUNT),
	                              LIST_IN("caches", COUNT)),
	                       NULL };
static const shape library = { FIELDS(IS("name", STRING)), NULL };
static const shape report = { FIELDS(IS("tjit", STRING), IS("build", STRING), IS("program", STRING), IS("process", COUNT),
	                             IS("written", COUNT), HAS("machine", machine), LIST_OF("libraries", library), IS("settings", OBJECT),
	                             IS("options", OBJECT), LIST_IN("environment", STRING), LIST_OF("functions", function),
	                             MAY("functions_left_out", COUNT)),
	                      NULL };

/* ---- the whole ---- */
bool report_is_whole(const char *path, const char *dump)
{
	json_error_t e;
	const place top = { NULL, NULL, 0 };
	json_t *j = json_loads(dump, JSON_REJECT_DUPLICATES, &e);
	if (!j) return cli_error("%s: it is no whole JSON: line %d, column %d: %s", path, e.line, e.column, e.text), false;
	const char *schema = json_string_value(json_object_get(j, "schema"));
	const json_t *version = json_object_get(j, "version");
	bool ok = false;
	if (!schema || strcmp(schema, "tjit report")) cli_error("%s: it is no dump of TJ_REPORT: \"schema\" is not \"tjit report\"", path);
	else if (!json_is_integer(version)) wrong(path, &(place){ &top, "version", 0 }, "is not an integer");
	else if (json_integer_value(version) != VERSION)
		cli_error("%s: it has version %lld of the schema, and this command reads version %d", path,
		          (long long)json_integer_value(version), VERSION);
	else ok = check_object(path, &top, j, &report, 0);
	json_decref(j);
	return ok;
}
