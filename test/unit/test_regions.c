/* SPDX-License-Identifier: MIT */
/* Graphs inside of a graph, as ir/region.c builds them: captures across levels, unused operands, a region made from another one. */
#include "ir/region.h"
#include "runtime/alloc.h"

#include <setjmp.h>
#include <cmocka.h>

static const ir_meta scalar = { .dtype = TJ_F32 }, row = { .dtype = TJ_F32, .rank = 1, .dim = { 4 } };

static ir_ref op2(ir_builder *b, ir_op op, ir_ref x, ir_ref y) { return ir_op2(b->at->g, op, x, y, NULL); }
static ir_ref input(ir_builder *b, int k) { return ir_build_input(b, k, NULL); }
static ir_ref use(ir_builder *b, ir_ref r) { return ir_build_use(b, &b->top, r); }

static bool cond(ir_builder *b, ir_ref pred, int n, const ir_ref *in)
{
	ir_ref src[4] = { pred };
	for (int k = 0; k < n; k++) src[1 + k] = in[k];
	return ir_build_open(b, IR_cond, 1 + n, src, NULL, "cond.c:1");
}

static bool while_(ir_builder *b, int n, const ir_ref *init)
{
	return ir_build_open(b, IR_while, n, init, (int64_t[]){ 0, 0 }, "while.c:1");
}
static bool scan(ir_builder *b, int ncarry, int nxs, const ir_ref *src)
{
	return ir_build_open(b, IR_scan, ncarry + nxs, src, (int64_t[]){ ncarry, nxs, 4, 0, 0 }, "scan.c:1");
}

/* The graph is what it should be, in text; and that text parses back. */
static void is_text(const ir_graph *g, const char *want)
{
	rt_text t = { 0 };
	rt_err err = { 0 };
	ir_graph back;
	if (ir_verify(g, &err) != TJ_OK) fail_msg("%s", err.message);
	ir_print(g, &t);
	assert_string_equal(rt_str(&t), want);
	ir_graph_init(&back);
	if (ir_parse(&back, want, &err) != TJ_OK) fail_msg("%s", err.message);
	assert_true(ir_same_graph(g, &back));
	ir_graph_free(&back);
	rt_text_free(&t);
}

/* ---- a while in a scan in a cond: each reads from around, the innermost from all levels ---- */
static ir_ref halves(ir_builder *b, const ir_frame *outer, ir_ref x, ir_ref limit)
{
	while_(b, 1, &x);
	ir_build_enter(b);
	ir_ref big = input(b, 0);
	big = op2(b, IR_gt, big, use(b, limit));
	ir_build_yield(b, 1, &big);
	ir_build_enter(b);
	ir_ref half = ir_num_(b->at->g, TJ_F64, 3, NULL); /* number 3 of the plan, on every level */
	ir_ref next = op2(b, IR_mul, input(b, 0), half);
	ir_build_use(b, outer, x); /* captured and not read: no operand of the node */
	ir_build_yield(b, 1, &next);
	return ir_get(b->at->g, ir_build_close(b), 0, NULL);
}

static ir_ref sums(ir_builder *b, ir_ref xs, ir_ref limit)
{
	ir_ref src[2] = { ir_const_f(b->at->g, TJ_F32, 0, NULL, 0), xs };
	scan(b, 1, 1, src);
	ir_build_enter(b);
	ir_ref sum = input(b, 0);
	sum = op2(b, IR_add, sum, input(b, 1));
	ir_ref small = halves(b, b->at, sum, limit);
	ir_build_yield(b, 2, (ir_ref[]){ small, sum });
	return ir_build_close(b);
}

static ir_ref nested(ir_builder *b, ir_graph *g)
{
	ir_build_begin(b, g);
	ir_ref go = ir_input(g, 0, &(ir_meta){ .dtype = TJ_BOOL }, NULL, NULL), xs = ir_input(g, 1, &row, NULL, NULL),
	       limit = ir_input(g, 2, &scalar, NULL, NULL);
	cond(b, go, 1, &xs);
	ir_build_enter(b);
	ir_ref both = sums(b, input(b, 0), limit);
	ir_ref last = ir_get(b->at->g, both, 0, NULL);
	ir_build_yield(b, 2, (ir_ref[]){ last, ir_get(b->at->g, both, 1, NULL) });
	ir_build_enter(b);
	last = use(b, limit);
	ir_build_yield(b, 2, (ir_ref[]){ last, input(b, 0) });
	ir_ref node = ir_build_close(b);
	ir_ret(g, ir_get(g, node, 0, NULL));
	ir_ret(g, ir_get(g, node, 1, NULL));
	return node;
}

static const char nested_text[] =
	"%0 = input bool[] slot=0\n"
	"%1 = input f32[4] slot=1\n"
	"%2 = input f32[] slot=2\n"
	"%3 = cond %0 %1 %2  # cond.c:1\n"
	"  then:\n"
	"    %0 = input f32[4] slot=0\n"
	"    %1 = const f32[] 0x0p+0\n"
	"    %2 = input f32[] slot=1\n"
	"    %3 = scan %1 %0 %2 carries=1 xs=1 length=4 reverse=0  # scan.c:1\n"
	"      body:\n"
	"        %0 = input f32[] slot=0\n"
	"        %1 = input f32[] slot=1\n"
	"        %2 = add f32[] %0 %1\n"
	"        %3 = input f32[] slot=2\n"
	"        %4 = while %2 %3 max_turns=0  # while.c:1\n"
	"          cond:\n"
	"            %0 = input f32[] slot=0\n"
	"            %1 = input f32[] slot=1\n"
	"            %2 = gt bool[] %0 %1\n"
	"            ret %2\n"
	"          body:\n"
	"            %0 = num f64 slot=3\n"
	"            %1 = input f32[] slot=0\n"
	"            %2 = cast f32[] %0 dtype=f32\n"
	"            %3 = mul f32[] %1 %2\n"
	"            ret %3\n"
	"        %5 = get f32[] %4 i=0\n"
	"        ret %5 %2\n"
	"    %4 = get f32[] %3 i=0\n"
	"    %5 = get f32[4] %3 i=1\n"
	"    ret %4 %5\n"
	"  else:\n"
	"    %0 = input f32[] slot=1\n"
	"    %1 = input f32[4] slot=0\n"
	"    ret %0 %1\n"
	"%4 = get f32[] %3 i=0\n"
	"%5 = get f32[4] %3 i=1\n"
	"ret %4 %5\n";

static void levels(void **state)
{
	ir_graph g;
	ir_builder b;
	(void)state;
	ir_graph_init(&g);
	assert_int_not_equal(nested(&b, &g), IR_NONE);
	ir_build_end(&b);
	is_text(&g, nested_text);
	bool go = true;
	float xs[4] = { 1, 2, 30, 4 }, limit = 5, last, all[4];
	double half = 0.5;
	uint64_t num[4] = { 0 };
	memcpy(&num[3], &half, sizeof half);
	rt_err err = { 0 };
	for (int i = 0; i < 2; i++, go = false) {
		assert_int_equal(ir_eval(&g, (const void *[]){ &go, xs, &limit }, num, NULL, (void *[]){ &last, all }, NULL, &err), TJ_OK);
		const float want[2][5] = { { 5, 1, 2, 30, 4 }, { 4.0625f, 1, 3, 33, 8.125f } }; /* 33, 16.5, 8.25, 4.125; 8.125, 4.0625 */
		assert_true(last == want[go][0]);
		assert_memory_equal(all, want[go] + 1, sizeof all);
	}
	ir_graph_free(&g);
}

/* ---- one operand for a value, however often it is captured; none for what nobody reads ---- */
static void operands(void **state)
{
	ir_graph g;
	ir_builder b;
	(void)state;
	ir_graph_init(&g);
	ir_build_begin(&b, &g);
	ir_ref go = ir_input(&g, 0, &(ir_meta){ .dtype = TJ_BOOL }, NULL, NULL), x = ir_input(&g, 1, &scalar, NULL, NULL);
	ir_ref dead = ir_input(&g, 2, &scalar, NULL, NULL), y = ir_input(&g, 3, &scalar, NULL, NULL), two = ir_const_f(&g, TJ_F32, 0, NULL, 2);
	cond(&b, go, 0, NULL);
	ir_build_enter(&b);
	ir_ref out = use(&b, dead);
	op2(&b, IR_add, out, use(&b, x));
	out = use(&b, y);
	out = op2(&b, IR_mul, out, use(&b, two));
	out = op2(&b, IR_sub, out, use(&b, y));
	ir_build_yield(&b, 1, &out);
	assert_false(ir_build_complete(&b));
	ir_build_enter(&b);
	out = use(&b, y);
	out = op2(&b, IR_add, out, use(&b, x));
	ir_build_yield(&b, 1, &out);
	assert_true(ir_build_complete(&b));
	ir_ret(&g, ir_get(&g, ir_build_close(&b), 0, NULL));
	ir_build_end(&b);
	is_text(&g, "%0 = input bool[] slot=0\n"
	            "%1 = input f32[] slot=1\n"
	            "%2 = input f32[] slot=2\n"
	            "%3 = input f32[] slot=3\n"
	            "%4 = const f32[] 0x1p+1\n"
	            "%5 = cond %0 %1 %3  # cond.c:1\n"
	            "  then:\n"
	            "    %0 = input f32[] slot=1\n"
	            "    %1 = const f32[] 0x1p+1\n"
	            "    %2 = mul f32[] %0 %1\n"
	            "    %3 = sub f32[] %2 %0\n"
	            "    ret %3\n"
	            "  else:\n"
	            "    %0 = input f32[] slot=1\n"
	            "    %1 = input f32[] slot=0\n"
	            "    %2 = add f32[] %0 %1\n"
	            "    ret %2\n"
	            "%6 = get f32[] %5 i=0\n"
	            "ret %6\n");
	ir_graph_free(&g);
}

/* An initial value that is captured, too, is an operand of its own: the carry moves on, the capture stays. */
static void carry_and_capture(void **state)
{
	ir_graph g;
	ir_builder b;
	(void)state;
	ir_graph_init(&g);
	ir_build_begin(&b, &g);
	ir_ref x = ir_input(&g, 0, &scalar, NULL, NULL), xs = ir_input(&g, 1, &row, NULL, NULL);
	scan(&b, 1, 1, (ir_ref[]){ x, xs });
	ir_build_enter(&b);
	ir_ref out = op2(&b, IR_add, input(&b, 0), use(&b, x));
	ir_build_yield(&b, 1, &out);
	ir_ref node = ir_build_close(&b);
	assert_int_equal(ir_at(&g, node)->nsrc, 3);
	ir_ret(&g, ir_get(&g, node, 0, NULL));
	ir_build_end(&b);
	float one = 1, row_of[4] = { 0 }, sum;
	rt_err err = { 0 };
	assert_int_equal(ir_eval(&g, (const void *[]){ &one, row_of }, NULL, NULL, (void *[]){ &sum }, NULL, &err), TJ_OK);
	assert_true(sum == 5);
	ir_graph_free(&g);
}

/* ---- a region made from another one: a further capture, and an inner value as a further result ---- */
static const char source[] =
	"%0 = input f32[] slot=0\n"
	"%1 = input f32[4] slot=1\n"
	"%2 = input f32[] slot=2\n"
	"%3 = scan %0 %1 %2 carries=1 xs=1 length=4 reverse=0\n"
	"  body:\n"
	"    %0 = input f32[] slot=0\n"
	"    %1 = input f32[] slot=1\n"
	"    %2 = input f32[] slot=2\n"
	"    %3 = mul f32[] %1 %2\n"
	"    %4 = add f32[] %0 %3\n"
	"    ret %4\n"
	"%4 = get f32[] %3 i=0\n"
	"ret %4\n";

static void extended(void **state)
{
	ir_graph from, to;
	ir_builder b;
	rt_err err = { 0 };
	(void)state;
	ir_graph_init(&from);
	ir_graph_init(&to);
	assert_int_equal(ir_parse(&from, source, &err), TJ_OK);
	const ir_node *n = ir_at(&from, 3);
	const ir_graph *body = ir_flow_region(&from, n, 0);
	ir_ref src[3], map[8], slot[3];
	ir_build_begin(&b, &to);
	for (int k = 0; k < 3; k++) src[k] = ir_copy(&to, &from, ir_src(&from, n, k), NULL);
	ir_ref scale = ir_input(&to, 3, &scalar, NULL, NULL);
	assert_true(ir_build_open(&b, IR_scan, 3, src, ir_attr(&from, n) + 1, NULL)); /* the old captures are operands as they were */
	assert_true(ir_build_enter(&b));
	for (int k = 0; k < 3; k++) slot[k] = input(&b, k);
	slot[1] = op2(&b, IR_mul, slot[1], use(&b, scale));
	assert_true(ir_build_copy(&b, body, 3, slot, map));
	assert_true(ir_build_yield(&b, 2, (ir_ref[]){ map[body->out.v[0]], map[3] })); /* every product, beside the sum */
	ir_ref node = ir_build_close(&b);
	ir_ret(&to, ir_get(&to, node, 0, NULL));
	ir_ret(&to, ir_get(&to, node, 1, NULL));
	ir_build_end(&b);
	assert_int_equal(ir_verify(&to, &err), TJ_OK);
	assert_int_equal(ir_at(&to, node)->nsrc, 4);
	float x = 1, xs[4] = { 1, 2, 3, 4 }, by = 10, two = 2, sum, all[4];
	assert_int_equal(ir_eval(&to, (const void *[]){ &x, xs, &by, &two }, NULL, NULL, (void *[]){ &sum, all }, NULL, &err), TJ_OK);
	assert_true(sum == 201);
	assert_memory_equal(all, ((const float[]){ 20, 40, 60, 80 }), sizeof all);
	ir_graph_free(&from);
	ir_graph_free(&to);
}

/* ---- mistakes ---- */
enum { LEAVES, NO_OPERAND, EARLY, TWICE, NO_REGION, NO_VALUE, MISTAKES };
static void blunder(ir_builder *b, ir_graph *g, int which)
{
	ir_ref x = ir_input(g, 0, &(ir_meta){ .dtype = TJ_BOOL }, NULL, NULL), map[1];
	ir_graph *one = ir_region_new();
	ir_ret(one, ir_input(one, 0, &scalar, NULL, NULL));
	cond(b, x, 1, &x);
	if (which == EARLY) assert_int_equal(ir_build_close(b), IR_NONE);
	if (which == NO_REGION) assert_false(ir_build_yield(b, 1, &x));
	assert_true(which == NO_REGION || which == EARLY || ir_build_enter(b));
	const ir_frame *in = b->at;
	if (which == NO_OPERAND) assert_int_equal(input(b, 1), IR_NONE); /* slot 0 of a cond is the operand after the predicate */
	if (which == TWICE) assert_false(ir_build_enter(b));
	if (which == NO_VALUE) assert_false(ir_build_copy(b, one, 0, NULL, map));
	ir_ref own = which == LEAVES ? input(b, 0) : x;
	if (which == LEAVES) assert_true(ir_build_yield(b, 1, &own));
	if (which == LEAVES) assert_int_equal(ir_build_use(b, in, own), IR_NONE);
	ir_region_unref(one);
}

static void mistakes(void **state)
{
	static const char *const says[MISTAKES] = { "outside of its region", "no such operand",   "a region is missing",
		                                    "no region to begin",    "no region is open", "has no value" };
	(void)state;
	for (int i = 0; i < MISTAKES; i++) {
		ir_graph g;
		ir_builder b;
		ir_graph_init(&g);
		ir_build_begin(&b, &g);
		blunder(&b, &g, i);
		assert_non_null(strstr(ir_build_error(&b)->message, says[i]));
		ir_build_end(&b);
		ir_graph_free(&g);
	}
}

static void no_memory(void **state)
{
	(void)state;
	bool built = false;
	int refused = 0;
	for (long long k = 0; k < 2000 && !built; k++) {
		ir_graph g;
		ir_builder b;
		ir_graph_init(&g);
		rt_alloc_fail_at(k);
		nested(&b, &g);
		bool reached = rt_alloc_count() > k;
		rt_alloc_fail_at(-1);
		if (reached && g.out.n < 2) assert_int_equal(ir_build_error(&b)->code, TJ_ERR_NOMEM), refused++;
		ir_build_end(&b);
		built = !reached;
		if (built) is_text(&g, nested_text);
		ir_graph_free(&g);
	}
	assert_true(built && refused > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels), cmocka_unit_test(operands), cmocka_unit_test(carry_and_capture), cmocka_unit_test(extended),
		cmocka_unit_test(mistakes), cmocka_unit_test(no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
