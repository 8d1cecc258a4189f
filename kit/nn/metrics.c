/* SPDX-License-Identifier: MIT */
/* Metrics of a run: metrics.csv ("step,seconds,name,value"), and TensorBoard's event files: records of a length, its checksum, a protobuf
 * message `Event` and its checksum (tensorflow/core/lib/io/record_writer.h, core/util/event.proto). */
#include "kit/files/files.h"
#include "kit/nn/nn.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

static const char header[] = "step,seconds,name,value\n";

/* ---- CSV ---- */
typedef struct earlier {
	const char *path;
	int64_t first;
} earlier;

/* The header, and the lines of steps below `first`. */
static bool write_earlier(void *env, kit_out *to, kit_why *w)
{
	const earlier *e = env;
	char line[512];
	FILE *from = fopen(e->path, "r");
	bool ok = kit_put(to, header, sizeof header - 1, w);
	bool more = from && fgets(line, sizeof line, from); /* its header */
	while (ok && more && (more = fgets(line, sizeof line, from)))
		if (strchr(line, '\n') && strtoll(line, NULL, 10) < e->first) ok = kit_put(to, line, strlen(line), w);
	if (from) fclose(from);
	return ok;
}

static tj_status refused(const char *site, const char *path)
{
	tj_fail(TJ_ERR_IO, "tjnn_run_open", "", "%s: %s", path, strerror(errno));
	return TJ_ERR_IO;
}

static tj_status open_csv(const char *site, nn_metrics *m, const char *folder, int64_t first)
{
	char path[4096];
	kit_why w = { 0 };
	if (snprintf(path, sizeof path, "%s/metrics.csv", folder) >= (int)sizeof path) return errno = ENAMETOOLONG, refused(site, folder);
	if (!kit_replace(path, write_earlier, &(earlier){ path, first }, &w)) return kit_report(site, "tjnn_run_open", path, &w), w.code;
	m->csv = fopen(path, "a");
	return m->csv ? TJ_OK : refused(site, path);
}

/* ---- event files ---- */
static uint32_t crc32c(const unsigned char *p, size_t n)
{
	uint32_t c = ~UINT32_C(0);
	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++) c = c >> 1 ^ (UINT32_C(0x82F63B78) & (0 - (c & 1)));
	}
	return ~c;
}
static uint32_t masked(const unsigned char *p, size_t n)
{
	const uint32_t c = crc32c(p, n);
	return (c >> 15 | c << 17) + UINT32_C(0xA282EAD8);
}

typedef struct message {
	unsigned char v[512];
	size_t n;
} message;
static void put(message *m, const void *p, size_t n)
{
	if (m->n + n > sizeof m->v) n = sizeof m->v - m->n;
	memcpy(m->v + m->n, p, n);
	m->n += n;
}
static void put_varint(message *m, uint64_t v)
{
	for (; v >= 128; v >>= 7) put(m, &(unsigned char){ (unsigned char)(v | 128) }, 1);
	put(m, &(unsigned char){ (unsigned char)v }, 1);
}
static void put_bytes(message *m, int field, const void *p, size_t n)
{
	put_varint(m, (uint64_t)field << 3 | 2);
	put_varint(m, n);
	put(m, p, n);
}
static message event(int64_t step)
{
	struct timespec t;
	message m = { .n = 0 };
	timespec_get(&t, TIME_UTC);
	const double now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	put_varint(&m, 1 << 3 | 1); /* wall_time */
	put(&m, &now, sizeof now);
	put_varint(&m, 2 << 3); /* step */
	put_varint(&m, (uint64_t)step);
	return m;
}
static void write_record(FILE *to, const message *m)
{
	const uint64_t n = m->n;
	const uint32_t of_length = masked((const unsigned char *)&n, sizeof n), of_data = masked(m->v, m->n);
	fwrite(&n, sizeof n, 1, to);
	fwrite(&of_length, sizeof of_length, 1, to);
	fwrite(m->v, 1, m->n, to);
	fwrite(&of_data, sizeof of_data, 1, to);
}

static tj_status open_events(const char *site, nn_metrics *m, const char *folder, int64_t first)
{
	char path[4096];
	for (int i = 0; i < 1000 && !m->events; i++) { /* another one of the same second */
		snprintf(path, sizeof path, "%s/events.out.tfevents.%lld.%lld.tjit.%d", folder, (long long)time(NULL), (long long)getpid(),
		         i);
		if (!(m->events = fopen(path, "wbx")) && errno != EEXIST) break;
	}
	if (!m->events) return refused(site, path);
	message version = event(0), start = event(first);
	put_bytes(&version, 3, "brain.Event:2", 13); /* file_version */
	write_record(m->events, &version);
	put_bytes(&start, 7, "\x08\x01", 2); /* session_log START: what was there from this step on is to be forgotten */
	if (first) write_record(m->events, &start);
	return TJ_OK;
}

/* ---- both ---- */
tj_status nn_metrics_open(const char *site, nn_metrics *m, const char *folder, int64_t first, bool tensorboard)
{
	*m = (nn_metrics){ .began = nn_seconds() };
	tj_status st = open_csv(site, m, folder, first);
	if (st == TJ_OK && tensorboard) st = open_events(site, m, folder, first);
	if (st != TJ_OK) nn_metrics_close(m);
	return st;
}

void nn_metrics_value(nn_metrics *m, int64_t step, const char *name, double value)
{
	if (m->csv) fprintf(m->csv, "%" PRId64 ",%.3f,%s,%.9g\n", step, nn_seconds() - m->began, name, value);
	if (!m->events) return;
	const float v = (float)value;
	message e = event(step), one = { .n = 0 }, summary = { .n = 0 };
	put_bytes(&one, 1, name, strlen(name)); /* tag */
	put_varint(&one, 2 << 3 | 5);           /* simple_value */
	put(&one, &v, sizeof v);
	put_bytes(&summary, 1, one.v, one.n);
	put_bytes(&e, 5, summary.v, summary.n);
	write_record(m->events, &e);
}

void nn_metrics_flush(nn_metrics *m)
{
	FILE *const all[] = { m->csv, m->events };
	for (int i = 0; i < 2; i++)
		if (all[i] && !fflush(all[i])) fsync(fileno(all[i]));
}

void nn_metrics_close(nn_metrics *m)
{
	if (m->csv) fclose(m->csv);
	if (m->events) fclose(m->events);
	m->csv = m->events = NULL;
}
