/* SPDX-License-Identifier: MIT */
/* Greedy decoding: the sequence grows by the token that the model likes best, until C reads the one that stops it. A new
 * length may be a new trace; a prompt whose lengths were met before compiles nothing. */
#include <tj.h>

enum { MOST = 14, VOCAB = 12, DIM = 8, STOP = 0 };
typedef struct model { tj_tensor *embed, *query, *value; } model;

/* Scores for the next token, by attention of the last token to all tokens so far. tokens: i64[n] */
static tj_tensor *logits(const model *m, tj_tensor *tokens)
{
	tj_tensor *x = tj_embedding(m->embed, tokens);                      /* [n, DIM] */
	tj_tensor *last = tj_slice(x, 0, -1, TJ_END_DIM, 1);                /* [1, DIM] */
	tj_tensor *score = tj_matmul(tj_matmul(last, m->query), tj_transpose(x, 0, 1));
	tj_tensor *seen = tj_matmul(tj_softmax(score, -1), tj_matmul(x, m->value));
	return tj_squeeze(tj_matmul(seen, tj_transpose(m->embed, 0, 1)), TJ_ALL); /* [VOCAB] */
}

static void decode(tj_tensor **out, tj_tensor *const *in, void *self)
{
	tj_tensor *tokens = in[0], *next;
	do {
		next = tj_argmax(logits(self, tokens), 0, true);
		tokens = tj_cat(TJ_LIST(tokens, next), 0);
	} while (tj_item_i(next) != STOP && tj_dim(tokens, 0) < MOST); /* the pending ops run, and C reads the token */
	out[0] = tokens;
}

int main(void)
{
	tj_ctx *c = tj_open(TJ_OPTS(tj_open_opts, .seed = 5));
	model m = { tj_normal(TJ_F32, TJ_SHAPE(VOCAB, DIM)), tj_normal(TJ_F32, TJ_SHAPE(DIM, DIM)), tj_normal(TJ_F32, TJ_SHAPE(DIM, DIM)) };
	tj_fn *f = tj_compile(c, decode, &m, TJ_OPTS(tj_compile_opts, .name = "decode", .nin = 1, .nout = 1));
	tj_stats s = { .size = sizeof s };
	const int64_t prompts[][2] = { { 3, 5 }, { 7, 1 }, { 4, 2 }, { 9, 2 }, { 6, 8 } };
	for (int i = 0; i < 5; i++) {
		uint64_t plans = s.plans;
		tj_tensor *y = tj_call1(f, TJ_LIST(tj_from_data(c, TJ_I64, TJ_SHAPE(2), prompts[i])));
		const int64_t *t = tj_data(y);
		for (int k = 0; k < tj_numel(y); k++) printf("%s%d", k == 2 ? " | " : k ? " " : "", (int)t[k]);
		tj_fn_stats(f, &s);
		printf("%s\n", i && s.plans == plans ? "   (nothing compiled)" : "");
	}
	if (tj_check(c) != TJ_OK) tj_perror(c, stderr);
	tj_close(c);
	return 0;
}
