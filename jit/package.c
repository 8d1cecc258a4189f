/* SPDX-License-Identifier: MIT */
/* package: the file of an exported function, written and read. All of it is covered by one checksum; offsets are checked as well, since a
 * checksum is no proof of who wrote it. */
#include "jit/program.h"
#include "runtime/file.h"

#include <errno.h>
#include <unistd.h>

static const char MAGIC[8] = { 't', 'j', 'e', 'x', 'p', 'o', 'r', 't' };
enum { MAJOR = 1, MINOR = 0, BUILD = 32, VERSION = 16 };

typedef struct head { /* little-endian */
	char magic[8];
	uint32_t major, minor;
	char build[BUILD], version[VERSION];
	uint64_t text, data, code; /* bytes */
	uint32_t ncpu, zero;
	uint64_t sum[2];           /* of all that follows, and of this head with a sum of 0 */
} head;
_Static_assert(sizeof(head) == 112, "no padding is written");
typedef struct cpu_head { int32_t bits; uint32_t features, n, zero; uint64_t bytes; } cpu_head;
_Static_assert(sizeof(cpu_head) == 24, "no padding is written");

static size_t rounded(size_t n, size_t to) { return (n + to - 1) / to * to; }
static size_t data_at(size_t text) { return rounded(sizeof(head) + text + 1, JIT_PACK_ALIGN); }

/* ---- writing ---- */
static size_t entries_bytes(const rt_store *s)
{
	size_t n = 0;
	for (uint32_t i = 0; i < s->entry.n; i++) n += sizeof(uint64_t) + rounded(s->entry.v[i].n, 8);
	return n;
}

static unsigned char *put_entries(const rt_store *s, unsigned char *at)
{
	for (uint32_t i = 0; i < s->entry.n; i++) {
		const uint64_t n = s->entry.v[i].n;
		memcpy(at, &n, sizeof n);
		memcpy(at + sizeof n, s->entry.v[i].bytes, n);
		at += sizeof n + rounded(n, 8);
	}
	return at;
}

unsigned char *jit_pack_write(rt_span text, rt_span data, int ncpu, const rt_cpu *cpu, rt_store *const *code, size_t *n)
{
	head h = { .major = MAJOR, .minor = MINOR, .version = TJ_VERSION, .text = text.bytes, .data = data.bytes, .ncpu = (uint32_t)ncpu };
	const size_t from = rounded(data_at(text.bytes) + data.bytes, 8);
	for (int i = 0; i < ncpu; i++) h.code += sizeof(cpu_head) + entries_bytes(code[i]);
	*n = from + h.code;
	unsigned char *bytes = rt_calloc(*n), *at = bytes + from;
	if (!bytes) return NULL;
	memcpy(h.magic, MAGIC, sizeof MAGIC);
	memcpy(h.build, rt_build(), BUILD);
	memcpy(bytes, &h, sizeof h);
	memcpy(bytes + sizeof h, text.at, text.bytes);
	if (data.bytes) memcpy(bytes + data_at(text.bytes), data.at, data.bytes);
	for (int i = 0; i < ncpu; i++) {
		const cpu_head c = { cpu[i].bits, cpu[i].features, code[i]->entry.n, 0, entries_bytes(code[i]) };
		memcpy(at, &c, sizeof c);
		at = put_entries(code[i], at + sizeof c);
	}
	rt_checksum(bytes, *n, sizeof h, h.sum);
	memcpy(bytes, &h, sizeof h);
	return bytes;
}

/* ---- reading ---- */
static bool refuse(rt_err *err, const char *what)
{
	rt_fail(err, TJ_ERR_PARSE, "import", "%s", what);
	rt_hint(err, "tj_export() writes such files");
	return false;
}

static bool read_head(const unsigned char *bytes, size_t n, head *h, rt_err *err)
{
	uint64_t sum[2];
	if (n < sizeof *h) return refuse(err, "the file is too short");
	memcpy(h, bytes, sizeof *h);
	if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0) return refuse(err, "it is no exported function");
	if (h->major != MAJOR || h->minor > MINOR) {
		rt_fail(err, TJ_ERR_PARSE, "import",
		        "the file has version %u.%u, written by tjit %.*s; this library, " TJ_VERSION ", reads %d.0 to %d.%d", h->major,
		        h->minor, VERSION - 1, h->version, MAJOR, MAJOR, MINOR);
		return false;
	}
	rt_checksum(bytes, n, sizeof *h, sum);
	if (memcmp(sum, h->sum, sizeof sum) != 0) return refuse(err, "the file is damaged: its checksum differs");
	if (h->text > n || h->data > n || h->code > n || h->ncpu > JIT_PACK_CPUS || rounded(data_at(h->text) + h->data, 8) + h->code != n)
		return refuse(err, "the parts of the file are longer or shorter than it says");
	return true;
}

static bool read_cpus(const unsigned char *at, size_t left, uint32_t n, jit_pack *p)
{
	for (uint32_t i = 0; i < n; i++) {
		cpu_head c;
		if (left < sizeof c) return false;
		memcpy(&c, at, sizeof c);
		at += sizeof c, left -= sizeof c;
		if (c.bytes > left) return false;
		p->cpu[i].cpu = (rt_cpu){ c.bits, c.features };
		p->cpu[i].n = c.n;
		p->cpu[i].entries = (rt_span){ at, c.bytes };
		at += c.bytes, left -= c.bytes;
	}
	p->ncpu = (int)n;
	return !left;
}

bool jit_pack_read(const void *bytes, size_t n, jit_pack *p, rt_err *err)
{
	const unsigned char *at = bytes;
	head h;
	*p = (jit_pack){ 0 };
	if (!read_head(at, n, &h, err)) return false;
	p->text = (rt_span){ at + sizeof h, h.text };
	p->data = (rt_span){ at + data_at(h.text), h.data };
	memcpy(p->build, h.build, BUILD);
	memcpy(p->version, h.version, VERSION - 1);
	if (at[sizeof h + h.text]) return refuse(err, "the text has no end");
	return read_cpus(at + n - h.code, h.code, h.ncpu, p) || refuse(err, "the code is longer or shorter than it says");
}

bool jit_pack_entry(rt_span *entries, rt_span *entry)
{
	uint64_t n;
	if (entries->bytes < sizeof n) return false;
	memcpy(&n, entries->at, sizeof n);
	if (n > entries->bytes - sizeof n || rounded(n, 8) > entries->bytes - sizeof n) return false;
	*entry = (rt_span){ (const unsigned char *)entries->at + sizeof n, n };
	entries->at = (const unsigned char *)entries->at + sizeof n + rounded(n, 8);
	entries->bytes -= sizeof n + rounded(n, 8);
	return true;
}

/* ---- files ---- */
bool jit_write_file(const char *path, const void *bytes, size_t n, rt_err *err)
{
	rt_text t = { 0 };
	rt_putf(&t, "%s.%ld.tmp", path, (long)getpid());
	errno = ENOMEM;
	const bool ok = !t.oom && rt_replace_file(path, t.s, 0666, true, bytes, n);
	const int why = errno;
	rt_text_free(&t);
	if (!ok) rt_fail(err, TJ_ERR_IO, "export", "%s: %s", path, strerror(why));
	return ok;
}
