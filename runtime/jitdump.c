/* SPDX-License-Identifier: MIT */
/* jitdump: code with its lines and frame tables for `perf inject --jit`, in the format of Linux's tools/perf/Documentation/
 * jitdump-specification.txt. The file is mapped once, executable: by that entry of its record perf finds it.
 *
 *   for each function:  DEBUG_INFO  UNWINDING_INFO  LOAD */
#include "runtime/file.h"
#include "runtime/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC = 0x4a695444, VERSION = 1, X86_64 = 62 /* EM_X86_64 */ };
enum { LOAD = 0, DEBUG_INFO = 2, UNWINDING_INFO = 4 };
typedef struct file_head { uint32_t magic, version, bytes, machine, zero, pid; uint64_t time, flags; } file_head;
typedef struct head { uint32_t id, bytes; uint64_t time; } head;
typedef struct load { uint32_t pid, tid; uint64_t vma, address, bytes, index; } load; /* then the name, the code */
typedef struct lines { uint64_t address, n; } lines;
typedef struct line { uint64_t address; uint32_t number, discriminator; } line; /* then the file */
typedef struct unwinding { uint64_t bytes, head_bytes, mapped; } unwinding; /* then .eh_frame, .eh_frame_hdr */

static int fd = -1;
static void *marker;
static size_t page;
static uint64_t functions; /* in the file; perf names its files by this number */
static bool failed;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void close_dump(void)
{
	if (marker) munmap(marker, page);
	if (fd >= 0) close(fd);
	fd = -1, marker = NULL;
}

static bool fail(const char *path, const char *why)
{
	rt_warn(NULL, "%s: %s; perf does not learn of compiled code", path, why);
	close_dump();
	return failed = true;
}

/* In $JITDUMPDIR, else in /tmp: perf writes files beside it. */
static void open_dump(void)
{
	char path[PATH_MAX];
	const char *folder = secure_getenv("JITDUMPDIR");
	const file_head h = { .magic = MAGIC, .version = VERSION, .bytes = sizeof h, .machine = X86_64, .pid = (uint32_t)getpid(), .time = now() };
	page = (size_t)sysconf(_SC_PAGESIZE);
	const int n = snprintf(path, sizeof path, "%s/jit-%d.dump", folder && *folder ? folder : "/tmp", (int)getpid());
	if (n < 0 || (size_t)n >= sizeof path) {
		fail("JITDUMPDIR", "the path is too long");
		return;
	}
	fd = rt_tool_file(path, O_RDWR | O_TRUNC);
	if (fd < 0) failed = true;
	else if (!rt_write_all(fd, &h, sizeof h)) fail(path, strerror(errno));
	else if ((marker = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0)) == MAP_FAILED) {
		marker = NULL;
		fail(path, "it cannot be mapped as code; JITDUMPDIR=folder names a folder that is not mounted noexec");
	}
}

/* ---- records ---- */
static void put(rt_text *t, const void *p, size_t n) { rt_putn(t, p, n); }
static void put_name(rt_text *t, const char *s) { rt_putn(t, s, strlen(s) + 1); }

/* Puts a record into all: a head, then the body, whose memory it frees. */
static void put_record(rt_text *all, uint32_t id, uint64_t time, rt_text *body)
{
	const size_t pad = -body->n & 7;
	const head h = { id, (uint32_t)(sizeof h + body->n + pad), time };
	put(body, &(uint64_t){ 0 }, pad);
	put(all, &h, sizeof h);
	put(all, rt_str(body), body->n);
	all->oom |= body->oom;
	rt_text_free(body);
}

static void put_lines(rt_text *all, const rt_told *t, const rt_piece *p, uint64_t time)
{
	const rt_debug *d = t->debug;
	uint32_t first, end;
	rt_text body = { 0 };
	rt_debug_rows(d, p, &first, &end);
	lines l = { (uintptr_t)t->code + p->at, 0 };
	for (uint32_t i = first; i < end; i++) l.n += d->row[i].line != 0;
	if (!l.n) return;
	put(&body, &l, sizeof l);
	for (uint32_t i = first; i < end; i++) {
		if (!d->row[i].line) continue;
		put(&body, &(line){ (uintptr_t)t->code + d->row[i].at, d->row[i].line, 0 }, sizeof(line));
		put_name(&body, d->file[d->row[i].file]);
	}
	put_record(all, DEBUG_INFO, time, &body);
}

/* perf puts .eh_frame behind the code, at a multiple of 8, and .eh_frame_hdr behind that. */
static void put_frames(rt_text *all, const rt_piece *p, uint64_t time)
{
	rt_text body = { 0 }, frames = { 0 };
	if (!p->ncfa) return;
	const size_t code = ((size_t)p->bytes + 7) / 8 * 8, first = 24; /* the size of the CIE: where the one description begins */
	rt_put_piece_frames(&frames, p, code);
	put(&frames, &(uint64_t){ 0 }, -frames.n & 7);
	const int32_t header = (int32_t)frames.n;
	/* version 1; the address of .eh_frame: relative, 4 bytes; count: 4 bytes; table: relative to the header, 4 bytes */
	const struct { uint8_t version, frame, count, table; int32_t at, n, start, description; } h = {
		1, 0x1b, 0x03, 0x3b, -header - 4, 1, -header - (int32_t)code, (int32_t)first - header
	};
	put(&frames, &h, sizeof h);
	put(&body, &(unwinding){ frames.n, sizeof h, frames.n }, sizeof(unwinding));
	put(&body, rt_str(&frames), frames.n);
	body.oom |= frames.oom;
	rt_text_free(&frames);
	put_record(all, UNWINDING_INFO, time, &body);
}

static void put_load(rt_text *all, const rt_told *t, const rt_piece *p, uint64_t time)
{
	const uint64_t at = (uintptr_t)t->code + p->at;
	const load l = { .pid = (uint32_t)getpid(), .tid = (uint32_t)syscall(SYS_gettid), .vma = at, .address = at, .bytes = p->bytes,
		         .index = functions++ };
	rt_text body = { 0 };
	put(&body, &l, sizeof l);
	rt_put_tool_name(&body, p);
	put(&body, "", 1);
	put(&body, t->code + p->at, p->bytes);
	put_record(all, LOAD, time, &body);
}

void rt_jitdump_add(const rt_told *t)
{
	rt_text all = { 0 };
	if (fd < 0 && !failed) open_dump();
	if (fd < 0) return;
	const uint64_t time = now();
	for (uint32_t i = 0; i < t->debug->npiece; i++) {
		const rt_piece *p = &t->debug->piece[i];
		put_lines(&all, t, p, time);
		put_frames(&all, p, time);
		put_load(&all, t, p, time);
	}
	if (!all.oom && !rt_write_all(fd, all.s, all.n)) fail("the file of TJ_PERF=jitdump", strerror(errno));
	rt_text_free(&all);
}

void rt_jitdump_forked(void)
{
	close_dump();
	failed = false, functions = 0;
}
