/* SPDX-License-Identifier: MIT */
/* weights: the initializers of an ONNX file as tensors. */
#include "kit/models/models.h"

tj_tensor *tj_model_initializer_at(const char *site, const tj_model *m, int i, const char **name)
{
	if (!m || i < 0 || i >= m->graph->ninit) return NULL;
	const ox_tensor *t = &m->graph->init[i];
	tj_dtype dtype;
	if (name) *name = t->name;
	if (t->t) return t->t;
	if (!ox_dtype(t->type, &dtype) || (t->bytes && !t->data))
		return tj_fail_at(site, TJ_ERR_DTYPE, "model_initializer", NULL, "%.100s is %s, which tjit does not have", t->name,
		                  ox_type_name(t->type));
	void *data = malloc(t->bytes ? t->bytes : 1);
	if (!data) return tj_fail_at(site, TJ_ERR_NOMEM, "model_initializer", NULL, "out of memory");
	if (t->bytes) memcpy(data, t->data, t->bytes);
	kit_make_bools(dtype, data, t->bytes);
	return kit_give(site, m->c, dtype, t->dim, NULL, data);
}
