/* SPDX-License-Identifier: MIT */
/* blob: the loader of machine code. Memory is anonymous, never a mapped file: a file may be truncated, or its folder mounted noexec. */
#include "runtime/blob.h"
#include "runtime/tools.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct mapping {
	rt_shared code;
	unsigned char *at;
	int n;
	rt_told **told;       /* by blob; NULL: tools are told of none */
	unsigned char *clean; /* then: a copy of all, without the breakpoints that a debugger may set at once */
	rt_blob blob[];
} mapping;

static void destroy(rt_shared *code)
{
	mapping *m = (mapping *)code;
	for (int i = 0; m->told && i < m->n; i++) rt_forget(m->told[i]);
	rt_free(m->told);
	rt_free(m->clean);
	munmap(m->at, m->code.bytes);
	rt_free(m);
}

static size_t padded(size_t bytes) { return (bytes + RT_BLOB_ALIGN - 1) / RT_BLOB_ALIGN * RT_BLOB_ALIGN; }

static void copy_all(unsigned char *at, int n, rt_blob *blob, rt_entry *fn)
{
	for (int i = 0; i < n; i++) {
		memcpy(at, blob[i].code, blob[i].bytes);
		blob[i].code = at;
		const unsigned char *entry = at + blob[i].entry;
		memcpy(&fn[i], &entry, sizeof fn[i]);
		at += padded(blob[i].bytes);
	}
}

/* ---- tools ---- */
static bool has_debug(const mapping *m)
{
	for (int i = 0; i < m->n; i++)
		if (m->blob[i].debug_bytes) return true;
	return false;
}

static bool open_told(mapping *m)
{
	m->told = rt_calloc((size_t)m->n * sizeof(rt_told *));
	m->clean = rt_alloc(m->code.bytes);
	if (m->clean) memcpy(m->clean, m->at, m->code.bytes);
	return m->told && m->clean;
}

/* Without memory tools are not told. */
static void tell_all(mapping *m)
{
	const bool tells = has_debug(m) && open_told(m);
	for (int i = 0; i < m->n; i++) {
		rt_blob *b = &m->blob[i];
		if (tells) m->told[i] = rt_tell(b->code, b->bytes, b->debug, b->debug_bytes, false);
		b->debug = NULL, b->debug_bytes = 0;
	}
}

/* The bytes of the code, for copies of it. */
static const unsigned char *clean(const mapping *m, const rt_blob *b) { return m->clean ? m->clean + (b->code - m->at) : b->code; }

rt_shared *rt_code_map(int n, rt_blob *blob, rt_entry *fn, rt_err *err)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = 0;
	for (int i = 0; i < n; i++) bytes += padded(blob[i].bytes);
	bytes = (bytes + page - 1) / page * page;
	mapping *m = rt_alloc(sizeof *m + (size_t)n * sizeof *m->blob);
	unsigned char *at = m && bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
	if (at == MAP_FAILED) {
		rt_free(m);
		rt_fail(err, TJ_ERR_NOMEM, "link", "out of memory");
		return NULL;
	}
	*m = (mapping){ .code = { .refs = 1, .bytes = bytes, .destroy = destroy }, .at = at, .n = n };
	copy_all(at, n, blob, fn);
	memcpy(m->blob, blob, (size_t)n * sizeof *blob);
	if (!mprotect(at, bytes, PROT_READ | PROT_EXEC)) {
		tell_all(m);
		for (int i = 0; i < n; i++) blob[i].code = clean(m, &m->blob[i]);
		return &m->code;
	}
	rt_fail(err, TJ_ERR_COMPILE, "link", "the system does not allow new code in memory: %s", strerror(errno));
	destroy(&m->code);
	return NULL;
}

bool rt_code_find(const rt_shared *code, rt_entry fn, rt_blob *blob)
{
	const mapping *m = (const mapping *)code;
	if (!code || code->destroy != destroy) return false;
	for (int i = 0; i < m->n; i++) {
		const unsigned char *entry = m->blob[i].code + m->blob[i].entry;
		if (memcmp(&entry, &fn, sizeof fn) != 0) continue;
		*blob = m->blob[i];
		blob->code = clean(m, blob);
		return true;
	}
	return false;
}
