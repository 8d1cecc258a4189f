/* SPDX-License-Identifier: MIT */
/* tj info: the machine, the libraries, the settings. Each section makes its data as JSON, and prints its text from that. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct section {
	const char *name, *doc;
	json_t *(*data)(tj_ctx *c);
	void (*print)(const json_t *data);
} section;

static void dim_row(const char *name, const char *mark, const char *text)
{
	printf("  %s%-26s %s%s%s%s\n", cli_style_of(CLI_DIM), name, mark, *mark && *text ? ": " : "", text, cli_style_of(CLI_PLAIN));
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static long long int_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

/* ---- version ---- */
static json_t *version_data(tj_ctx *c)
{
	(void)c;
	return json_pack("{s:o, s:o}", "library", cli_string(tj_version()), "header", cli_string(TJ_VERSION));
}

static void print_version(const json_t *d)
{
	cli_row("library", text_of(d, "library"));
	if (strcmp(text_of(d, "library"), text_of(d, "header"))) cli_row("built for", text_of(d, "header"));
}

/* ---- CPU ---- */
static json_t *cpu_data(tj_ctx *c)
{
	(void)c;
	const tj_machine *m = tj_this_machine();
	return json_pack("{s:o, s:i, s:i, s:i, s:s, s:i, s:i, s:i, s:o, s:i, s:[I,I,I]}", "name", cli_string(m->cpu), "family", m->family,
	                 "model", m->model, "stepping", m->stepping, "capability", m->capability, "vector_bits", m->vector_bits, "cpus",
	                 m->cpus, "allowed", m->allowed, "quota", m->quota > 0 ? json_real(m->quota) : json_null(), "threads", tj_threads(),
	                 "cache", (json_int_t)m->cache[0], (json_int_t)m->cache[1], (json_int_t)m->cache[2]);
}

static void print_cpu(const json_t *d)
{
	char s[200], size[3][32];
	const double quota = json_number_value(json_object_get(d, "quota"));
	snprintf(s, sizeof s, "%s (family %lld, model %lld, stepping %lld)", *text_of(d, "name") ? text_of(d, "name") : "no name",
	         int_of(d, "family"), int_of(d, "model"), int_of(d, "stepping"));
	cli_row("name", s);
	snprintf(s, sizeof s, "%s; kernels have vectors of %lld bits", text_of(d, "capability"), int_of(d, "vector_bits"));
	cli_row("capability", strcmp(text_of(d, "capability"), "DEFAULT") ? s : "DEFAULT: no AVX2, so the slow evaluator computes everything");
	snprintf(s, sizeof s, "%lld online, %lld allowed", int_of(d, "cpus"), int_of(d, "allowed"));
	cli_row("CPUs", s);
	if (quota > 0) snprintf(s, sizeof s, "%g CPUs", quota);
	cli_row("quota of the container", quota > 0 ? s : "none");
	snprintf(s, sizeof s, "%lld", int_of(d, "threads"));
	cli_row("threads of the team", s);
	for (size_t i = 0; i < 3; i++) cli_put_bytes(size[i], json_integer_value(json_array_get(json_object_get(d, "cache"), i)));
	snprintf(s, sizeof s, "L1 %s, L2 %s, L3 %s", size[0], size[1], size[2]); /* 0: not known */
	cli_row("caches of data", s);
}

/* ---- libraries, back ends, devices ---- */
static json_t *libraries_data(tj_ctx *c)
{
	(void)c;
	json_t *all = json_array();
	cli_progress("opening libraries");
	for (const tj_library *l = tj_libraries(); l->name; l++)
		json_array_append_new(all, json_pack("{s:s, s:o, s:o}", "name", l->name, "version", cli_string(l->version), "why",
		                                     cli_string(l->why)));
	cli_progress(NULL);
	return all;
}

static void print_libraries(const json_t *d)
{
	size_t i;
	json_t *l;
	json_array_foreach(d, i, l) {
		if (json_is_string(json_object_get(l, "version"))) cli_row(text_of(l, "name"), text_of(l, "version"));
		else dim_row(text_of(l, "name"), "missing", text_of(l, "why"));
	}
}

/* "llvm", or "llvm: why it is missing" */
static json_t *reasoned(const char *const *list)
{
	json_t *all = json_array();
	for (; *list; list++) {
		const char *colon = strstr(*list, ": ");
		json_array_append_new(all, json_pack("{s:o, s:b, s:o}", "name",
		                                     colon ? json_stringn(*list, (size_t)(colon - *list)) : cli_string(*list),
		                                     "there", !colon, "why", cli_string(colon ? colon + 2 : NULL)));
	}
	return all;
}

static void print_reasoned(const json_t *d)
{
	size_t i;
	json_t *x;
	json_array_foreach(d, i, x) {
		char free[32], total[32], memory[100] = "there";
		cli_put_bytes(free, int_of(x, "free"));
		cli_put_bytes(total, int_of(x, "total"));
		if (int_of(x, "total")) snprintf(memory, sizeof memory, "there; %s of %s are free", free, total);
		if (json_is_true(json_object_get(x, "there"))) cli_row(text_of(x, "name"), memory);
		else dim_row(text_of(x, "name"), "missing", text_of(x, "why"));
	}
}

static json_t *backends_data(tj_ctx *c) { return (void)c, reasoned(tj_backends()); }

static json_t *devices_data(tj_ctx *c)
{
	size_t i;
	json_t *x;
	cli_progress("looking for GPUs");
	json_t *d = reasoned(tj_devices());
	json_array_foreach(d, i, x) {
		tj_memory m = { .size = sizeof m };
		const tj_device device = tj_find_device(text_of(x, "name"));
		if (device <= TJ_CPU || tj_memory_stats(c, device, &m) != TJ_OK) continue;
		json_object_set_new(x, "free", json_integer((json_int_t)m.free));
		json_object_set_new(x, "total", json_integer((json_int_t)m.total));
	}
	cli_progress(NULL);
	return d;
}

/* ---- settings: those of a new context ---- */
static const char *const products[] = { [TJ_PRODUCTS_AUTO] = "auto", [TJ_PRODUCTS_OWN] = "own", [TJ_PRODUCTS_LIBRARY] = "library" };
static const char *const attention[] = { [TJ_ATTENTION_AUTO] = "auto",
	                                 [TJ_ATTENTION_MATH] = "math",
	                                 [TJ_ATTENTION_FUSED] = "fused",
	                                 [TJ_ATTENTION_LIBRARY] = "library" };

static json_t *settings_data(tj_ctx *c)
{
	tj_settings s = { .size = sizeof s };
	if (tj_get_settings(c, &s) != TJ_OK) return json_object();
	return json_pack("{s:b, s:b, s:b, s:b, s:b, s:s, s:b, s:b, s:s, s:I, s:b, s:o}", "allow_tf32", s.allow_tf32, "allow_reduced_precision",
	                 s.allow_reduced_precision, "allow_nondeterministic", s.allow_nondeterministic, "no_split_sums", s.no_split_sums,
	                 "autotune", s.autotune, "products", products[s.products], "no_graphs", s.no_graphs, "no_epilogues", s.no_epilogues,
	                 "attention", attention[s.attention], "threads", (json_int_t)s.threads, "flush_denormal", s.flush_denormal, "linalg",
	                 cli_string(tj_linalg_library().name));
}

static void print_settings(const json_t *d)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)(uintptr_t)d, key, v) {
		char n[32];
		snprintf(n, sizeof n, "%lld", (long long)json_integer_value(v));
		cli_row(key, json_is_string(v) ? json_string_value(v) : json_is_integer(v) ? n : json_is_true(v) ? "true" : "false");
	}
}

/* ---- environment ---- */
static const struct { const char *name, *doc; } variables[] = {
	{ "TJ_BACKEND", "llvm, or eval: the evaluator computes everything" },
	{ "TJ_DEVICE", "where new tensors are: cpu, cuda:0" },
	{ "TJ_THREADS", "threads of the team" },
	{ "TJ_CPU", "512, 256 or 128: bits of vectors" },
	{ "TJ_CODEGEN", "fast: kernels compile in half of the time, and run longer" },
	{ "TJ_CACHE", "off, or the folder of compiled kernels; ro:folder: nothing is written" },
	{ "TJ_CACHE_MB", "how large the folder may grow" },
	{ "TJ_LOADER", "orc: LLVM links kernels, and none is kept" },
	{ "TJ_ONEDNN", "off: oneDNN is not opened" },
	{ "TJ_LINALG", "auto, own or lapack: who computes eigenvalues and singular values" },
	{ "TJ_CUBLASLT", "off: cuBLASLt is not opened" },
	{ "TJ_CUDA_PATH", "the folder of NVRTC and cuBLASLt" },
	{ "TJ_LOG", "topics to log; TJ_LOG=help lists them" },
	{ "TJ_DUMP", "a folder for the dumps of each compile" },
	{ "TJ_AUDIT", "n: each n-th direct call is compared with its body" },
	{ "TJ_CHECK", "1: uses of popped tensors are found" },
	{ "TJ_PROFILE", "file: tables; file.json: a timeline; 1: dumps have times" },
	{ "TJ_PERF", "map, jitdump: perf is told of kernels" },
	{ "TJ_GDB", "1: gdb is told of kernels" },
	{ "TJ_LIVE", "1: tj top can watch the process" },
	{ "TJ_REPORT", "file: all that is known of the functions, for tj report" },
	{ "TJ_TIME_GUARDS", "1: guards are timed" },
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static json_t *environment_data(tj_ctx *c)
{
	(void)c;
	json_t *all = json_object();
	for (int i = 0; i < VARIABLES; i++) json_object_set_new(all, variables[i].name, cli_string(getenv(variables[i].name)));
	return all;
}

static void print_environment(const json_t *d)
{
	for (int i = 0; i < VARIABLES; i++) {
		const json_t *v = json_object_get(d, variables[i].name);
		if (json_is_string(v)) cli_row(variables[i].name, json_string_value(v));
		else dim_row(variables[i].name, "not set", variables[i].doc);
	}
}

/* ---- the command ---- */
static const section sections[] = {
	{ "version", "Version", version_data, print_version },
	{ "cpu", "CPU", cpu_data, print_cpu },
	{ "libraries", "Libraries", libraries_data, print_libraries },
	{ "backends", "Back ends", backends_data, print_reasoned },
	{ "devices", "Devices", devices_data, print_reasoned },
	{ "settings", "Settings of a new context", settings_data, print_settings },
	{ "cache", "Disk cache of compiled kernels", cli_cache_data, cli_print_cache },
	{ "environment", "Environment", environment_data, print_environment },
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static const char *section_name(const void *unused, int i)
{
	(void)unused;
	return i < SECTIONS ? sections[i].name : NULL;
}

static int print_sections(tj_ctx *c, const bool *wanted)
{
	bool any = false;
	for (int i = 0; i < SECTIONS; i++) {
		json_t *d = wanted[i] ? sections[i].data(c) : NULL;
		if (!wanted[i]) continue;
		printf("%s%s%s%s\n", any ? "\n" : "", cli_style_of(CLI_TITLE), sections[i].doc, cli_style_of(CLI_PLAIN));
		sections[i].print(d);
		json_decref(d);
		any = true;
	}
	return CLI_OK;
}

static int put_json(tj_ctx *c, const bool *wanted)
{
	json_t *all = json_object();
	for (int i = 0; i < SECTIONS; i++)
		if (wanted[i]) json_object_set_new(all, sections[i].name, sections[i].data(c));
	return cli_put_json(all);
}

static int run(cli_words *w)
{
	bool wanted[SECTIONS] = { false }, json = false, some = false;
	for (int k; (k = cli_next(w)) != CLI_END;) {
		int i = 0;
		if (k == CLI_WRONG) return CLI_USAGE;
		if (k != CLI_WORD) {
			json = true;
			continue;
		}
		while (i < SECTIONS && strcmp(sections[i].name, w->value)) i++;
		if (i == SECTIONS) return cli_unknown("section", w->value, section_name, NULL);
		wanted[i] = some = true;
	}
	for (int i = 0; i < SECTIONS; i++) wanted[i] |= !some;
	tj_ctx *c = tj_open(NULL); /* the team is then what TJ_THREADS says */
	if (!c) return cli_error("out of memory"), CLI_FAILED;
	const int status = json ? put_json(c, wanted) : print_sections(c, wanted);
	tj_close(c);
	return status;
}

const cli_command cli_info = {
	.name = "info",
	.words = "[SECTION...]",
	.line = "says what tjit finds on this machine, and its settings",
	.help = "Sections: version, cpu, libraries, backends, devices, settings, cache, environment; all of them without a SECTION. A library\n"
		"that is missing has its reason. The capability of the CPU is named as by torch.backends.cpu.get_cpu_capability().",
	.option = (const cli_option[]){ { 0, "json", NULL, "print JSON" }, { 0 } },
	.run = run,
};
