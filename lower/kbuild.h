/* SPDX-License-Identifier: MIT */
/* kbuild: one kernel under construction. Private to kbuild.c, kvalue.c and fast.c. */
#ifndef TJ_LOWER_KBUILD_H
#define TJ_LOWER_KBUILD_H

#include "lower/low.h"

typedef struct lo_source { /* where a value comes from; never a view, but what the view shows */
	lo_from from;    /* CONST, NUM, LOAD or OP */
	ir_ref ref;
	lo_map *map;     /* OP */
	const lo_use *use; /* OP */
	uint32_t buf;    /* LOAD: low buffer */
	lo_expr at;      /* LOAD */
} lo_source;

typedef struct lo_made { /* an instruction made for a value; valid in one loop (0: everywhere) */
	ir_ref ref;
	const lo_map *map;  /* OP */
	uint32_t buf;       /* LOAD */
	lo_expr at;
	int loop;
	uint32_t ins;
} lo_made;

typedef struct lo_mem_info { /* about a member of the group */
	ir_ref ref;
	int phase;           /* number of loops that must be over before it is known, a reduction's own loop included */
	uint64_t need;       /* bit set of the loops that compute or reload it */
	uint32_t kept;       /* kernel buffer that keeps its row between loops, or LO_NOREF */
	lo_where where;      /* the memory in which that buffer lives */
	size_t room;         /* bytes that it takes there */
	int hoisted;         /* the last loop for which hoist() visited it */
	uint32_t product;    /* a matrix product: its instruction, in lo_product_dtype() */
} lo_mem_info;

typedef struct lo_builder {
	lo_low *L;
	lo_group *G;
	lo_step *step;
	lo_built *b;
	lo_kernel *k;
	lo_schedule *s;
	uint32_t nmem;
	lo_mem_info *mem;        /* sorted by rising ref */
	rt_vec(lo_made) made;
	rt_vec(lo_expr) seen;    /* every index expression used so far: decides which atoms can be one dimension */
	size_t shared;           /* bytes of the kept rows that live in LO_SHARED */
	int loop;                /* the loop that is being filled; 0: a point section */
	ir_ref product;          /* the matrix product that the group computes, if G->product */
	int64_t rows;            /* if they move: the number of its rows for which it is arranged; 0: those that it has */
	int ndim;
	int inner[LO_ATOMS];     /* by dimension: its innermost atom, whose coefficient is the dimension's; -1: none */
	rt_vec(lo_fault) fault;
	rt_vec(uint32_t) kbuf;   /* low buffer of each kernel buffer; LO_NOBUF: KEPT */
} lo_builder;

/* ---- kvalue.c ---- */
lo_source lo_source_of(lo_builder *B, const lo_use *u);
/* the operands of an OP, without a gather's table; returns how many */
int lo_operands(lo_builder *B, const lo_use *u, lo_source *s /* 3 */);
bool lo_source_in_r(const lo_builder *B, const lo_source *s);
uint32_t lo_value(lo_builder *B, const lo_source *s);
void lo_store(lo_builder *B, uint32_t kbuf, const lo_expr *e, uint32_t v, tj_dtype t);
uint32_t lo_kbuf(lo_builder *B, uint32_t buf, tj_dtype t, lo_role role);
lo_mem_info *lo_member(lo_builder *B, ir_ref r);
lo_made *lo_remember(lo_builder *B, const lo_source *s, uint32_t ins, bool everywhere);
uint32_t lo_add(lo_builder *B, lo_ins i);
bool lo_heavy(const lo_low *L, ir_ref r); /* too expensive to compute twice: its row is kept */
/* ---- fast.c ---- */
/* LO_NOREF: compute it as in strict mode */
uint32_t lo_fast_point(const lo_low *L, lo_kernel *k, const ir_node *n, tj_dtype t, const uint32_t *src);


#endif
