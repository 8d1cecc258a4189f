/* SPDX-License-Identifier: MIT */
/* showmodel: what tj show says of an ONNX file. */
#include "cli/show.h"

#include <stdlib.h>
#include <string.h>
#include <tjmodel.h>

bool cli_is_model(const char *path)
{
	const size_t n = strlen(path);
	return n > 5 && !strcmp(path + n - 5, ".onnx");
}

const char *cli_model_type(const struct tj_onnx_value *v, char *to, size_t room)
{
	size_t n = (size_t)snprintf(to, room, "%s%s", tj_dtype_name(v->dtype), v->rank < 0 ? "" : "[");
	for (int i = 0; i < v->rank && n + 1 < room; i++) {
		if (v->dim[i] >= 0)
			n += (size_t)snprintf(to + n, room - n, i ? ",%lld" : "%lld", (long long)v->dim[i]);
		else
			n += (size_t)snprintf(to + n, room - n, i ? ",%.20s" : "%.20s", v->symbol[i] ? v->symbol[i] : "?");
	}
	if (v->rank >= 0 && n + 1 < room) snprintf(to + n, room - n, "]");
	return to;
}

void cli_model_refused(void *unused, const char *line)
{
	(void)unused;
	cli_error("%s", line);
}

/* ---- as JSON ---- */
static json_t *values(const tj_model *m, const tj_onnx_value *(*of)(const tj_model *, int))
{
	json_t *list = json_array();
	char type[500];
	for (int i = 0; of(m, i); i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "name", cli_string(of(m, i)->name), "type",
		                                      cli_string(cli_model_type(of(m, i), type, sizeof type))));
	return list;
}

static json_t *data_of(const tj_model *m)
{
	tj_onnx_about a = { .size = sizeof a };
	json_t *ops = json_array(), *meta = json_array();
	const char *key, *value;
	tj_model_about(m, &a);
	for (int i = 0; tj_model_op(m, i); i++)
		json_array_append_new(ops, json_pack("{s:o, s:I}", "op", cli_string(tj_model_op(m, i)->op), "nodes",
		                                     (json_int_t)tj_model_op(m, i)->nodes));
	for (int i = 0; tj_model_metadata(m, i, &key, &value); i++)
		json_array_append_new(meta, json_pack("{s:o, s:o}", "key", cli_string(key), "value", cli_string(value)));
	return json_pack("{s:s, s:n, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "kind", show_model.name, "title",
	                 "onnx_ir", (json_int_t)a.ir, "opset", (json_int_t)a.opset, "producer", cli_string(a.producer), "producer_version",
	                 cli_string(a.producer_version), "graph", cli_string(a.graph), "nodes", (json_int_t)a.nodes, "initializers",
	                 (json_int_t)a.initializers, "weight_bytes", (json_int_t)a.weight_bytes, "inputs", values(m, tj_model_input),
	                 "outputs", values(m, tj_model_output), "ops", ops, "metadata", meta);
}

json_t *show_read_model(const char *path)
{
	tj_ctx *c = tj_open(NULL);
	json_t *d = NULL;
	if (!c) return cli_error("out of memory"), NULL;
	tj_model *m = tj_onnx_open(c, path, TJ_OPTS(tj_onnx_opts, .on_refused = cli_model_refused));
	if (!m)
		cli_failed(c);
	else if (!(d = data_of(m)))
		cli_error("out of memory");
	tj_model_close(m);
	tj_close(c);
	return d;
}

/* ---- as text ---- */
static long long number(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static void rows(const json_t *d, const char *list, const char *what, const char *name, const char *text)
{
	size_t i;
	json_t *o;
	json_array_foreach(json_object_get(d, list), i, o)
	{
		char left[120];
		snprintf(left, sizeof left, "%s %.90s", what, show_string(o, name));
		cli_row(left, show_string(o, text));
	}
}

static void print(const json_t *d)
{
	size_t i;
	json_t *o;
	char text[200], bytes[32];
	cli_put_bytes(bytes, number(d, "weight_bytes"));
	const char *by = show_string(d, "producer"), *version = show_string(d, "producer_version");
	snprintf(text, sizeof text, "opset %lld, IR version %lld%s%.60s%s%.40s", number(d, "opset"), number(d, "onnx_ir"),
	         *by || *version ? ", by " : "", by, *by && *version ? " " : "", version);
	cli_row("model", text);
	rows(d, "inputs", "input", "name", "type");
	rows(d, "outputs", "output", "name", "type");
	snprintf(text, sizeof text, "%lld, %s", number(d, "initializers"), bytes);
	cli_row("weights", text);
	snprintf(text, sizeof text, "%lld", number(d, "nodes"));
	cli_row("nodes", text);
	json_array_foreach(json_object_get(d, "ops"), i, o)
	{
		snprintf(text, sizeof text, "%lld", number(o, "nodes"));
		char left[120];
		snprintf(left, sizeof left, "  %.90s", show_string(o, "op"));
		cli_row(left, text);
	}
	rows(d, "metadata", "metadata", "key", "value");
}

const show_kind show_model = { .name = "model", .print = print };
