/* SPDX-License-Identifier: MIT */
/* An LSTM (Hochreiter and Schmidhuber, 1997) that learns to repeat a long row of bits, four steps later. tj_scan() walks over a window of
 * the row, and tj_grad() back through it; the state goes on to the next window in cells, and no gradient does: truncated backpropagation
 * through time.
 *
 * Then a window that is 20 times as long, in pieces. The gradient of a scan keeps the state before each turn and what products computed in
 * it, for all pieces, and so are the scores of a piece. With tj_checkpoint() around each piece they are kept for one at a time. */
#include <tj.h>

#include <string.h>
#include <time.h>

enum { WINDOW = 12, BATCH = 32, HIDDEN = 24, CLASSES = 2, LATER = 4, PARAMS = 4, STEPS = 400, LONG = 240, PIECE = 12 };
/* [1,4H] [H,4H] [4H] [H,2]; the state [B,H] */
typedef struct model { tj_tensor *p[PARAMS + 1], *first[PARAMS], *second[PARAMS], *h, *cell; } model;

/* in: h, cell, x [B,1]; out: h, cell, logits [B,2] */
static void turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *gate = tj_add(tj_add(tj_mul(in[2], m->p[0]), tj_matmul(in[0], m->p[1])), m->p[2]), *part[4];
	for (int i = 0; i < 4; i++) part[i] = tj_slice(gate, 1, i * HIDDEN, (i + 1) * HIDDEN, 1);
	out[1] = tj_add(tj_mul(tj_sigmoid(part[0]), in[1]), tj_mul(tj_sigmoid(part[1]), tj_tanh(part[2])));
	out[0] = tj_mul(tj_sigmoid(part[3]), tj_tanh(out[1]));
	out[2] = tj_matmul(out[0], m->p[3]);
}

/* in: x [T,B,1], target [T,B], rate, step number; out: the loss, the share of right answers */
static void step(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *state[2], *logits, *grad[PARAMS];
	tj_scan(state, &logits, 1, turn, TJ_LIST(m->h, m->cell), TJ_LIST(in[0]), self, NULL);
	tj_tensor *all = tj_reshape(logits, TJ_SHAPE(WINDOW * BATCH, CLASSES)), *target = tj_reshape(in[1], TJ_SHAPE(WINDOW * BATCH));
	out[0] = tj_cross_entropy(all, target);
	out[1] = tj_mean(tj_cast(tj_eq(tj_argmax(all, 1, false), target), TJ_F32), TJ_ALL, false);
	tj_grad(grad, out[0], m->p, NULL);
	tj_assign(m->h, state[0]);
	tj_assign(m->cell, state[1]);
	for (int i = 0; i < PARAMS; i++) {
		tj_tensor *first = tj_add(tj_mul(m->first[i], tj_f(0.9)), tj_mul(grad[i], tj_f(0.1)));
		tj_tensor *second = tj_add(tj_mul(m->second[i], tj_f(0.99)), tj_mul(tj_square(grad[i]), tj_f(0.01)));
		tj_tensor *mean = tj_div(first, tj_sub(tj_f(1), tj_pow(tj_f(0.9), in[3]))),
			  *square = tj_div(second, tj_sub(tj_f(1), tj_pow(tj_f(0.99), in[3])));
		tj_assign(m->p[i], tj_sub(m->p[i], tj_mul(in[2], tj_div(mean, tj_add(tj_sqrt(square), tj_f(1e-8))))));
		tj_assign(m->first[i], first);
		tj_assign(m->second[i], second);
	}
}

/* As turn(), but the third result is h. */
static void hidden_turn(tj_tensor **out, tj_tensor *const *in, void *self)
{
	turn(out, in, self);
	out[2] = out[0];
}

/* in: h, cell, x and target of the piece; out: h, cell, the loss */
static void piece(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *hidden;
	tj_scan(out, &hidden, 1, hidden_turn, TJ_LIST(in[0], in[1]), TJ_LIST(in[2]), self, NULL);
	out[2] = tj_cross_entropy(tj_matmul(tj_reshape(hidden, TJ_SHAPE(PIECE * BATCH, HIDDEN)), m->p[3]),
	                          tj_reshape(in[3], TJ_SHAPE(PIECE * BATCH)));
}

static bool again; /* pieces are computed again for the gradient */

/* in: x [LONG,B,1], target [LONG,B]; out: the gradients */
static void long_window(tj_tensor **out, tj_tensor *const *in, void *self)
{
	const model *m = self;
	tj_tensor *state[3] = { m->h, m->cell }, *loss = tj_f(0);
	for (int t = 0; t < LONG; t += PIECE) {
		tj_tensor *part[] = { state[0], state[1], tj_slice(in[0], 0, t, t + PIECE, 1), tj_slice(in[1], 0, t, t + PIECE, 1), TJ_END }, *last[3];
		if (again) tj_checkpoint(last, 3, piece, part, self);
		else piece(last, part, self);
		memcpy(state, last, sizeof state);
		loss = tj_add(loss, last[2]);
	}
	tj_grad(out, loss, m->p, NULL);
}

/* Peak bytes of a call; fills grad. */
static uint64_t peak_of(tj_ctx *c, model *m, bool with, tj_list in, float *grad)
{
	tj_stats s = { .size = sizeof s };
	tj_tensor *out[PARAMS];
	again = with;
	tj_fn *f = tj_compile(c, long_window, m, TJ_OPTS(tj_compile_opts, .name = "long_window", .nin = 2, .nout = PARAMS));
	if (tj_call(f, out, in) != TJ_OK) return 0;
	tj_read(out[1], grad, HIDDEN * 4 * HIDDEN * sizeof *grad);
	tj_fn_stats(f, &s);
	return s.peak_bytes;
}

static uint64_t draw(uint64_t *s) { return (*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407)) >> 40; }

int main(void)
{
	tj_ctx *c = tj_open(NULL);
	const int64_t *shape[] = { TJ_SHAPE(1, 4 * HIDDEN), TJ_SHAPE(HIDDEN, 4 * HIDDEN), TJ_SHAPE(4 * HIDDEN), TJ_SHAPE(HIDDEN, CLASSES) };
	model m = { .p[PARAMS] = TJ_END, .h = tj_param(c, TJ_F32, TJ_SHAPE(BATCH, HIDDEN)), .cell = tj_param(c, TJ_F32, TJ_SHAPE(BATCH, HIDDEN)) };
	uint64_t s = 11;
	for (int i = 0; i < PARAMS; i++) {
		static float v[HIDDEN * 4 * HIDDEN];
		m.p[i] = tj_param(c, TJ_F32, shape[i]);
		m.first[i] = tj_param(c, TJ_F32, shape[i]);
		m.second[i] = tj_param(c, TJ_F32, shape[i]);
		for (int k = 0; k < tj_numel(m.p[i]); k++)
			v[k] = i == 2 ? (k < HIDDEN ? 1 : 0)
			              : ((float)draw(&s) * 0x1p-23f - 1) * (i == 0 ? 1 : 0.2f); /* it forgets little at first */
		tj_write(m.p[i], v, (size_t)tj_numel(m.p[i]) * sizeof *v);
	}
	tj_fn *f = tj_compile(c, step, &m, TJ_OPTS(tj_compile_opts, .name = "lstm", .nin = 4, .nout = 2));
	float x[WINDOW * BATCH];
	int64_t target[WINDOW * BATCH], bit[BATCH][LATER + 1] = { 0 };
	double first = 0, last = 0;
	const clock_t begin = clock();
	for (int i = 1; i <= STEPS; i++) {
		tj_scope *scope = tj_push(c);
		tj_tensor *out[2];
		for (int t = 0; t < WINDOW; t++)
			for (int b = 0; b < BATCH; b++) {
				memmove(bit[b] + 1, bit[b], LATER * sizeof **bit);
				bit[b][0] = draw(&s) & 1;
				x[t * BATCH + b] = bit[b][0] ? 1 : -1;
				target[t * BATCH + b] = bit[b][LATER];
			}
		if (tj_call(f, out,
		            TJ_LIST(tj_from_data(c, TJ_F32, TJ_SHAPE(WINDOW, BATCH, 1), x),
		                    tj_from_data(c, TJ_I64, TJ_SHAPE(WINDOW, BATCH), target), tj_f(1e-2), tj_f(i))) != TJ_OK)
			return tj_perror(c, stderr), 1;
		if (i <= 20) first += tj_item(out[1]) / 20;
		if (i > STEPS - 20) last += tj_item(out[1]) / 20;
		tj_pop(scope);
	}
	fprintf(stderr, "time: %.3f ms a step\n", (double)(clock() - begin) * 1e3 / CLOCKS_PER_SEC / STEPS);
	printf("right answers: %.0f %% in the first 20 windows, %s in the last 20\n", 100 * first, last > 0.99 ? "more than 99 %" : "too few");
	static float all[LONG][BATCH], grad[2][HIDDEN * 4 * HIDDEN];
	static int64_t want[LONG][BATCH];
	for (int t = 0; t < LONG; t++)
		for (int b = 0; b < BATCH; b++) {
			all[t][b] = draw(&s) & 1 ? 1 : -1;
			want[t][b] = t >= LATER && all[t - LATER][b] > 0;
		}
	tj_tensor *row[] = { tj_from_data(c, TJ_F32, TJ_SHAPE(LONG, BATCH, 1), all), tj_from_data(c, TJ_I64, TJ_SHAPE(LONG, BATCH), want),
		             TJ_END };
	const uint64_t kept = peak_of(c, &m, false, row, grad[0]), part = peak_of(c, &m, true, row, grad[1]);
	if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	printf("memory for the gradients of a window of %d turns: %.1f MiB, with checkpoints %.1f MiB; %s\n", LONG, (double)kept * 0x1p-20,
	       (double)part * 0x1p-20, memcmp(grad[0], grad[1], sizeof grad[0]) ? "other gradients" : "the same gradients");
	tj_close(c);
	return 0;
}
