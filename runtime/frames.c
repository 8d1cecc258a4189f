/* SPDX-License-Identifier: MIT */
/* frames: tables that say how to unwind (.eh_frame): one head for all functions, then a description for each. */
#include "runtime/tools.h"

/* A CIE: version 1, "zR", code in units of 1 and data of -8, the return address in register 16, how addresses are written. At the entry
 * the frame address is rsp + 8, and the return address lies below it. */
enum { ABSOLUTE = 0x00, RELATIVE = 0x1b /* to where they stand, 32 bits */, ENCODING = 16 /* its place */ };
static const unsigned char cie[] = { 20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, ABSOLUTE, 0x0c, 7, 8, 0x90, 1, 0, 0 };
_Static_assert(sizeof cie == 24, "its length, 20, counts what follows");

static void put(rt_text *t, uint64_t x, size_t bytes) { rt_putn(t, (const char *)&x, bytes); }

static void put_cie(rt_text *t, int encoding)
{
	unsigned char as[sizeof cie];
	memcpy(as, cie, sizeof cie);
	as[ENCODING] = (unsigned char)encoding;
	rt_putn(t, (const char *)as, sizeof as);
}

/* of: where the CIE begins. size: bytes of an address. */
static void put_fde(rt_text *t, const rt_piece *p, uint64_t start, size_t size, size_t of)
{
	const size_t head = sizeof(uint32_t) + 2 * size + 1 /* length of augmentation */, pad = -(sizeof(uint32_t) + head + p->ncfa) & 7;
	if (!p->ncfa) return;
	put(t, head + p->ncfa + pad, sizeof(uint32_t));
	put(t, t->n - of, sizeof(uint32_t));
	put(t, start, size);
	put(t, p->bytes, size);
	put(t, 0, 1);
	rt_putn(t, (const char *)p->cfa, p->ncfa);
	put(t, 0, pad); /* DW_CFA_nop */
}

void rt_put_piece_frames(rt_text *out, const rt_piece *p, size_t before)
{
	const size_t of = out->n;
	put_cie(out, RELATIVE);
	put_fde(out, p, (uint64_t)of - before - (out->n + 2 * sizeof(uint32_t)), sizeof(uint32_t), of);
	put(out, 0, sizeof(uint32_t));
}

void rt_put_frames(rt_text *out, const rt_debug *d, uintptr_t code)
{
	const size_t of = out->n;
	put_cie(out, ABSOLUTE);
	for (uint32_t i = 0; i < d->npiece; i++) put_fde(out, &d->piece[i], code + d->piece[i].at, sizeof(uint64_t), of);
	put(out, 0, sizeof(uint32_t));
}
