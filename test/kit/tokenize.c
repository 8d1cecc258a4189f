/* SPDX-License-Identifier: MIT */
/* Prints the ids of each line of stdin, and what they decode to:  tokenize tokenizer.json | encoder.json vocab.bpe. record_tokenizers.py
 * compares. A line has \n, \r
 * and \\ for these bytes. */
#include <tjdata.h>

#include <stdlib.h>
#include <string.h>

static size_t unescape(char *s, size_t n)
{
	char *to = s;
	const char *const begin = s, *const end = s + n;
	for (; s < end; s++)
		if (*s == '\\' && s + 1 < end) s++, *to++ = (char)(*s == 'n' ? '\n' : *s == 'r' ? '\r' : *s);
		else *to++ = *s;
	return (size_t)(to - begin);
}

static void print_text(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] == '\n' || s[i] == '\r' || s[i] == '\\') printf("\\%c", s[i] == '\n' ? 'n' : s[i] == '\r' ? 'r' : '\\');
		else putchar(s[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	tj_ctx *c = tj_open(NULL);
	tj_tokenizer *t = argc == 2 ? tj_tokenizer_open(c, argv[1]) : NULL;
	tj_bpe *b = argc == 3 ? tj_bpe_open(c, argv[1], argv[2]) : NULL;
	char *line = NULL;
	size_t room = 0, bytes;
	for (ssize_t n; (t || b) && (n = getline(&line, &room, stdin)) > 0;) {
		if (line[n - 1] == '\n') line[--n] = 0;
		tj_scope *s = tj_push(c);
		const size_t size = unescape(line, (size_t)n);
		tj_tensor *ids = t ? tj_tokenizer_encode(t, line, size, true) : tj_bpe_encode(b, line, size);
		const int32_t *id = tj_data(ids);
		for (int64_t i = 0; i < tj_numel(ids); i++) printf(i ? " %d" : "%d", id[i]);
		putchar('\n');
		char *text = t ? tj_tokenizer_decode(t, ids, false, &bytes) : tj_bpe_decode(b, ids, &bytes);
		if (text) print_text(text, bytes);
		free(text);
		tj_pop(s);
		if (tj_check(c) != TJ_OK) return tj_perror(c, stderr), 1;
	}
	const tj_status st = tj_check(c);
	if (st != TJ_OK) tj_perror(c, stderr);
	tj_tokenizer_close(t);
	tj_bpe_close(b);
	free(line);
	tj_close(c);
	return st != TJ_OK;
}
