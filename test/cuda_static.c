/* SPDX-License-Identifier: MIT */
/* cuda_static: what the real NVRTC makes of every schedule of codegen_cuda, for several GPUs, checked without a GPU.
 *
 *   cuda_static [-q] [-v] tools [case...]      tools: the folder of `make cuda-tools`. -q: sm_90 only. -v: a line for each kernel
 *
 * Each case is a graph and a list of dtypes. It is lowered for CUDA, printed, compiled, and disassembled. Rules:
 *
 *   memory      no stack frame, no spill, no local load or store
 *   registers   times the threads of a block fit an SM
 *   shared      the memory that the threads of a block share is no more than it may ask for
 *   arguments   the kernel has one parameter, of the words that the host packs, and each member lies at the offset of its word
 *   wide        loads and stores of the width that the case promises
 *   read-only   no load past coherence (LDG.CONSTANT): an output may alias an input
 *   opcodes     each instruction is in a table of those that a kernel may have
 *   faults      the word for faults is set by kernels with fault sites, and by no other
 *   maths       no approximation, no flush of subnormals, no contraction: as many fmas as the text has, and those of IEEE divisions and
 *               roots
 *
 * Times are printed, and no rule looks at them. Each rule must first find a bug that was made for it (the table `bugs`). */
#include "codegen_cuda/cu.h"
#include "codegen_cuda/cuda.h"
#include "lower/low.h"
#include "runtime/settings.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const int archs[] = { 80, 90, 100, 120 };
static const char *tools, *folder;
static bool quick, verbose;
static int passed, failed;

/* ---- cases: $ stands for the dtype ---- */
typedef struct kase {
	const char *name, *dtypes; /* letters: f f32, d f64, h f16, b bf16, i i32, l i64, s i16, c i8, u u8, t bool */
	int load, store;           /* bytes of the widest load and store, at least, of dtypes with four bytes or more. 0: not promised */
	bool sizes;                /* sizes are arguments */
	const char *text;
} kase;

#define CHAIN(n, m) \
	"%0 = input $[" n "," m "] slot=0\n%1 = input $[" m "] slot=1\n%2 = mul $[" n "," m "] %0 %0\n%3 = add $[" n "," m \
	"] %2 %1\n%4 = sub $[" n "," m "] %3 %0\nret %4\n"
#define GELU(n, m) "%0 = input $[" n "," m "] slot=0\n%1 = gelu $[" n "," m "] %0\nret %1\n"
#define ROW(op, n, m) "%0 = input $[" n "," m "] slot=0\n%1 = " op " $[" n "," m "] %0 axis=1\nret %1\n"
#define COLUMN(op, n, m) "%0 = input $[" n "," m "] slot=0\n%1 = " op " $[" n "," m "] %0 axis=0\nret %1\n"
#define NORM(t, n, m) \
	"%0 = input $[" n "," m "] slot=0\n%1 = input $[" m "] slot=1\n%2 = input $[" m "] slot=2\n%3 = const " t \
	"[] 0x1p-10\n%4 = layer_norm $[" n "," m "] %0 %1 %2 %3\nret %4\n"
#define RMS(t, n, m)                                                                                                    \
	"%0 = input $[" n "," m "] slot=0\n%1 = input $[" m "] slot=1\n%2 = const " t "[] 0x1p-10\n%3 = rms_norm $[" n "," m "] %0 %1 %2\nret %3\n"
#define REDUCE(op, to, out, axes, n, m) \
	"%0 = input $[" n "," m "] slot=0\n%1 = cast " to "[" n "," m "] %0 dtype=" to "\n%2 = " op " " to "[" out \
	"] %1 keepdim=0 axes=" axes "\nret %2\n"
#define RANDOM(op) "%0 = num i64 slot=0\n%1 = num i64 slot=1\n%2 = " op " $[512,1024] %0 %1 dtype=$ shape=512,1024\nret %2\n"
#define PRODUCT(b, m, k, n) \
	"%0 = input $[" b m "," k "] slot=0\n%1 = input $[" b k "," n "] slot=1\n%2 = matmul $[" b m "," n "] %0 %1\nret %2\n"
#define CONV(from, to, o, window) \
	"%0 = input $[" from "] slot=0\n%1 = input $[" o "] slot=1\n%2 = conv $[" to "] %0 %1 groups=1 window=" window "\n%3 = relu $[" to \
	"] %2\nret %3\n"
#define SUM(out, axes, n, m) "%0 = input $[" n "," m "] slot=0\n%1 = sum $[" out "] %0 keepdim=0 axes=" axes "\nret %1\n"

static const kase cases[] = {
	{ "point", "fdhbilscu", 16, 16, false, CHAIN("512", "1024") },
	{ "point_odd", "fdb", 0, 0, false, CHAIN("13", "33") },
	{ "point_sizes", "fdbi", 16, 16, true, CHAIN("512", "1024") },
	{ "point_heavy", "fdhb", 16, 16, false, GELU("512", "1024") },
	{ "divide_root", "fd", 16, 16, false,
	  "%0 = input $[512,1024] slot=0\n%1 = abs $[512,1024] %0\n%2 = sqrt $[512,1024] %1\n%3 = div $[512,1024] %0 %2\nret %3\n" },
	{ "transpose", "fdblsu", 0, 0, false,
	  "%0 = input $[1000,2000] slot=0\n%1 = transpose $[2000,1000] %0 a=0 b=1\n%2 = input $[2000,1000] slot=1\n"
	  "%3 = add $[2000,1000] %1 %2\nret %3\n" },
	{ "transpose_sizes", "fb", 0, 0, true,
	  "%0 = input $[1000,2000] slot=0\n%1 = transpose $[2000,1000] %0 a=0 b=1\n%2 = neg $[2000,1000] %1\nret %2\n" },
	{ "cat", "fb", 0, 0, false,
	  "%0 = input $[64,128] slot=0\n%1 = input $[64,256] slot=1\n%2 = neg $[64,128] %0\n%3 = cat $[64,384] %2 %1 axis=1\nret %3\n" },
	{ "embedding", "fb", 0, 0, false,
	  "%0 = input $[5000,128] slot=0\n%1 = input i64[64] slot=1\n%2 = embedding $[64,128] %0 %1\n%3 = neg $[64,128] %2\nret %3\n" },
	{ "gather", "fb", 0, 0, false,
	  "%0 = input $[512,4096] slot=0\n%1 = input i64[512,64] slot=1\n%2 = gather $[512,64] %0 %1 axis=1\nret %2\n" },
	{ "index_sizes", "f", 0, 0, true,
	  "%0 = input $[5000,128] slot=0\n%1 = input i64[64] slot=1\n%2 = index_select $[64,128] %0 %1 axis=0\nret %2\n" },
	{ "cross_entropy", "fb", 0, 0, false,
	  "%0 = input $[512,4096] slot=0\n%1 = input i64[512] slot=1\n%2 = cross_entropy $[] %0 %1\nret %2\n" },
	{ "uniform", "fdhb", 0, 0, false, RANDOM("uniform") },
	{ "normal", "fdhb", 0, 0, false, RANDOM("normal") },
	{ "logic", "tscui", 16, 0, false,
	  "%0 = input $[512,1024] slot=0\n%1 = input $[512,1024] slot=1\n%2 = lt bool[512,1024] %0 %1\n%3 = eq bool[512,1024] %0 %1\n"
	  "%4 = logical_xor bool[512,1024] %2 %3\nret %4\n" },
	{ "divide_integers", "iscu", 0, 0, false,
	  "%0 = input $[512,1024] slot=0\n%1 = input $[512,1024] slot=1\n%2 = floor_divide $[512,1024] %0 %1\nret %2\n" },
	{ "softmax_row_short", "fdhb", 16, 16, false, ROW("softmax", "4096", "128") },
	{ "softmax_row", "fdhb", 16, 16, false, ROW("softmax", "4096", "1024") },
	{ "softmax_row_odd", "fb", 0, 0, false, ROW("softmax", "100", "1001") },
	{ "softmax_row_long", "fdb", 16, 16, false, ROW("softmax", "256", "16384") },
	{ "softmax_row_longest", "fdb", 16, 16, false, ROW("softmax", "256", "131072") },
	{ "softmax_row_sizes", "fdb", 16, 16, true, ROW("softmax", "256", "4096") },
	{ "layer_norm", "fd", 16, 16, false, NORM("$", "4096", "4096") },
	{ "layer_norm_half", "hb", 0, 0, false, NORM("f32", "4096", "4096") },
	{ "rms_norm", "fd", 16, 16, false, RMS("$", "4096", "4096") },
	{ "rms_norm_half", "hb", 0, 0, false, RMS("f32", "4096", "4096") },
	{ "argmax_row", "fdbi", 16, 0, false, "%0 = input $[512,4096] slot=0\n%1 = argmax i64[512] %0 keepdim=0 axis=1\nret %1\n" },
	{ "sum_row", "fdhb", 16, 0, false, SUM("4096", "1", "4096", "4096") },
	{ "sum_integers_row", "scuti", 0, 0, false, REDUCE("sum", "i64", "512", "1", "512", "4096") },
	{ "sum_integers_column", "scut", 0, 0, false, REDUCE("sum", "i64", "4096", "0", "512", "4096") },
	{ "max_row", "scuti", 0, 0, false, REDUCE("amax", "$", "512", "1", "512", "4096") },
	{ "max_row_longest", "fdi", 16, 0, false, "%0 = input $[256,131072] slot=0\n%1 = amax $[256] %0 keepdim=0 axes=1\nret %1\n" },
	{ "max_column", "scut", 0, 0, false, REDUCE("amax", "$", "4096", "0", "512", "4096") },
	{ "any_row", "tuf", 0, 0, false, REDUCE("any", "bool", "512", "1", "512", "4096") },
	{ "sum_column", "fdhb", 0, 0, false, SUM("4096", "0", "4096", "4096") },
	{ "sum_column_few", "fd", 0, 0, false, SUM("64", "0", "65536", "64") },
	{ "max_column_few", "fdi", 0, 0, false,
	  "%0 = input $[65536,64] slot=0\n%1 = max_with_indices %0 keepdim=0 axis=0\n%2 = get $[64] %1 i=0\n%3 = get i64[64] %1 i=1\n"
	  "ret %2 %3\n" },
	{ "sum_column_sizes", "fd", 0, 0, true, SUM("64", "0", "65536", "64") },
	{ "softmax_column", "fdb", 0, 0, false, COLUMN("softmax", "300", "4000") },
	{ "argmin_column", "fi", 0, 0, false, "%0 = input $[1000,512] slot=0\n%1 = argmin i64[512] %0 keepdim=0 axis=0\nret %1\n" },
	{ "product", "fdhbilscu", 0, 0, false, PRODUCT("", "1024", "1000", "2048") },
	{ "product_batches", "fdbil", 0, 0, false, PRODUCT("16,", "200", "64", "200") },
	{ "product_small", "fdb", 0, 0, false, PRODUCT("", "60", "700", "60") },
	{ "product_few_rows", "fdbic", 0, 0, false, PRODUCT("", "16", "1024", "80000") },
	{ "product_few_columns", "fdi", 0, 0, false, PRODUCT("", "80000", "1024", "16") },
	{ "product_turned", "fdb", 0, 0, false,
	  "%0 = input $[1000,1024] slot=0\n%1 = transpose $[1024,1000] %0 a=0 b=1\n%2 = input $[2048,1000] slot=1\n"
	  "%3 = transpose $[1000,2048] %2 a=0 b=1\n%4 = matmul $[1024,2048] %1 %3\nret %4\n" },
	{ "product_sizes", "fdbi", 0, 0, true, PRODUCT("", "1024", "1000", "2048") },
	{ "conv", "fdbic", 0, 0, false, CONV("32,64,56,56", "32,128,28,28", "128,64,3,3", "2,2,1,1,1,1,1,1") },
	{ "conv_sizes", "fb", 0, 0, true, CONV("32,64,56,56", "32,128,28,28", "128,64,3,3", "2,2,1,1,1,1,1,1") },
	{ "sum_all", "fdb", 16, 0, false, SUM("", "0,1", "4096", "4096") },
};

static const char *dtype_of(char letter)
{
	static const char letters[] = "fdhbilscut";
	static const char *const names[] = { "f32", "f64", "f16", "bf16", "i32", "i64", "i16", "i8", "u8", "bool" };
	return names[strchr(letters, letter) - letters];
}

/* ---- what a kernel asks of its code ---- */
typedef struct wanted {
	char name[64];
	unsigned words, threads;
	size_t shared, most;  /* bytes of shared memory of a block, and what it may ask for */
	int fma32, fma64;     /* calls, with the loops that the compiler unrolls written out */
	bool divides;         /* it has a division, a root or a remainder, or divides by sizes: approximate reciprocals are a part of these */
	bool roots, faults;
} wanted;

/* Turns of a loop that is unrolled: "TJ_UNROLL for (int j = 0; j < 4; j += 2) {". Other lines: 1. */
static int turns(const char *line)
{
	int most = 1, step = 1;
	sscanf(line, "TJ_UNROLL for (int %*c = %*[^;]; %*c < %d; %*c %*[+=] %d", &most, &step);
	return (most + step - 1) / step;
}

/* A loop's body is one tab deeper than its head. */
static int calls_of(const char *name, const char *text)
{
	enum { DEEPEST = 40 };
	int copies[DEEPEST + 1] = { 1 }, n = 0;
	for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		const size_t tabs = strspn(line, "\t"), depth = tabs < DEEPEST ? tabs : DEEPEST - 1;
		const char *call = strstr(line, name);
		copies[depth + 1] = copies[depth] * turns(line + tabs);
		if (call && call < end) n += copies[depth];
	}
	return n;
}

static wanted wanted_of(const lo_kernel *k, const lo_schedule *s, const cu_params *p, const char *text)
{
	const cu_shape x = cu_shape_of(k, s);
	wanted w = { .words = p->param.n, .threads = (unsigned)x.threads, .divides = k->size.n > 0, .faults = k->fault_site.n > 0 };
	w.shared = (x.own + (s->shared + 15) / 16 * 16) * (size_t)x.units;
	w.most = (size_t)s->target->shared_bytes + CU_RESERVED;
	snprintf(w.name, sizeof w.name, "%s", k->name);
	w.fma32 = calls_of(" fmaf(", text);
	w.fma64 = calls_of(" fma(", text);
	for (uint32_t i = 0; i < k->ins.n; i++) {
		const lo_ins *in = &k->ins.v[i];
		w.divides |= in->op == LO_DIV || in->op == LO_REM || in->op == LO_SQRT;
		w.roots |= in->op == LO_SQRT;
	}
	return w;
}

/* ---- the members of the argument, at the offsets of the host's words: assertions for the compiler ---- */
static void put_offset(rt_text *t, const char *kernel, const char *member, const char *more, uint32_t word)
{
	rt_putf(t, "static_assert(__builtin_offsetof(%s_args, %s%s) == %u, \"offset\");\n", kernel, member, more, word * 8);
}

static void put_offsets(rt_text *t, const char *kernel, const cu_params *p)
{
	static const char *const member[] = {
		[RT_CUDA_BUFFER] = "b", [RT_CUDA_VALUE] = "i", [RT_CUDA_SIZE] = "s", [RT_CUDA_NUMBER] = "n", /* and a number */
		[RT_CUDA_UNITS] = "units", [RT_CUDA_EACH] = "each", [RT_CUDA_LAUNCH] = "launch", [RT_CUDA_FAULT] = "fault",
	};
	for (uint32_t i = 0; i < p->param.n; i++) {
		char number[12] = "";
		const rt_cuda_param *x = &p->param.v[i];
		if (!member[x->word][1]) snprintf(number, sizeof number, "%u", x->n);
		put_offset(t, kernel, member[x->word], number, i);
	}
}

/* ---- what the tools find in it ---- */
typedef struct found {
	int registers, frame, bytes, parameters, size; /* bytes: of all parameters; size: of the one at offset 0 */
	int local, constant, flush, approximate, fma32, fma64, swaps, load, store; /* load, store: bytes of the widest */
	int reciprocals32, reciprocals64, roots32, roots64; /* approximations, where divisions and roots begin */
	char example[96];            /* of what is wrong */
	char refused[96];            /* the first instruction that no kernel may have */
} found;

static void note(found *f, int *count, const char *op)
{
	if (!(*count)++) snprintf(f->example, sizeof f->example, "%s", op);
}

static int width(const char *op) { return strstr(op, ".128") ? 16 : strstr(op, ".64") ? 8 : 4; }

/* ---- instructions that a kernel may have; others are refused until someone has judged them ---- */
static const char *const allowed[] = { /* names up to the first dot */
	"LDG STG LDS STS LDC LDCU ULDC", /* memory; parameters and constants */
	"IADD IADD3 IMAD IMNMX ISETP LEA LOP3 SHF SEL PRMT VIADD VIMNMX VIMNMX3 VIADDMNMX BREV FLO", /* integers */
	"UIADD3 UIMAD UIMNMX UISETP ULEA ULOP3 USHF USEL UVIMNMX UFMUL UFSEL", /* the same once for a warp, and a product and a choice of f32 */
	"FADD FMUL FFMA FMNMX FSEL FSETP FCHK", /* f32; FCHK: whether a division needs its slow path */
	"DADD DMUL DFMA DSETP",                 /* f64 */
	"F2F F2FP F2I UF2I FRND I2F I2FP UI2F", /* conversions */
	"MOV UMOV CS2R S2R S2UR R2UR P2R R2P PLOP3 UPLOP3", /* moves; predicates */
	"SHFL VOTE VOTEU BAR WARPSYNC ENDCOLLECTIVE", /* between threads of a block */
	"BRA EXIT RET BSSY BSYNC NOP YIELD",    /* control */
};

static const char *const forms[] = { /* these only where a pattern matches the whole instruction */
	"MUFU.RCP*", "MUFU.RSQ*",                     /* the start of a division or a root */
	"HFMA2* R*, -RZ, RZ, *",                      /* a constant: two halves of a register, each -0 * 0 + c */
	"HADD2.F32 R*, -RZ, R*",                      /* a conversion from f16 to f32 */
	"CALL.REL.NOINC `($__internal_*$__cuda_sm*)", /* a function that the compiler added: a division, a root, a vote or a shuffle */
	"CALL.REL.NOINC `(.L_x_*)",                   /* a jump: nothing returns */
	"ATOMG.E.CAS.64.STRONG.GPU *", "ST.E.64.STRONG.SYS *", /* the word for faults */
};

static bool may_have(const char *instruction)
{
	const size_t n = strcspn(instruction, ". ");
	for (size_t i = 0; i < RT_COUNT(allowed); i++)
		for (const char *s = allowed[i]; *s; s += strcspn(s, " "), s += strspn(s, " "))
			if (strcspn(s, " ") == n && !strncmp(s, instruction, n)) return true;
	for (size_t i = 0; i < RT_COUNT(forms); i++)
		if (!fnmatch(forms[i], instruction, 0)) return true;
	return false;
}

/* ---- what one instruction says ---- */
/* One instruction of the kernel, or (inside) of a function that the compiler added for divisions and roots. */
static void look_at(found *f, const char *op, bool inside)
{
	static const char *const approximate[] = { "MUFU.EX2", "MUFU.LG2", "MUFU.SIN", "MUFU.COS", "MUFU.TANH", "MUFU.SQRT" };
	if (!strncmp(op, "LDL", 3) || !strncmp(op, "STL", 3)) note(f, &f->local, op);
	if (!strncmp(op, "LDG", 3) && strstr(op, ".CONSTANT")) note(f, &f->constant, op);
	if (inside) return;
	if (strstr(op, ".FTZ") && strncmp(op, "F2I", 3) && strncmp(op, "UF2I", 4)) note(f, &f->flush, op);
	for (size_t i = 0; i < RT_COUNT(approximate); i++)
		if (!strncmp(op, approximate[i], strlen(approximate[i]))) note(f, &f->approximate, op);
	if (!strncmp(op, "MUFU.RCP", 8)) ++*(strstr(op, "64") ? &f->reciprocals64 : &f->reciprocals32);
	if (!strncmp(op, "MUFU.RSQ", 8)) ++*(strstr(op, "64") ? &f->roots64 : &f->roots32);
	f->swaps += !strncmp(op, "ATOM", 4) && strstr(op, ".CAS");
	f->fma32 += !strncmp(op, "FFMA", 4);
	f->fma64 += !strncmp(op, "DFMA", 4);
	if (!strncmp(op, "LDG", 3) && width(op) > f->load) f->load = width(op);
	if (!strncmp(op, "STG", 3) && width(op) > f->store) f->store = width(op);
}

static FILE *tool(const char *command, const char *cubin)
{
	char line[700];
	snprintf(line, sizeof line, "PATH=%s/nvidia/cu13/bin:$PATH %s %s 2>&1", tools, command, cubin);
	return popen(line, "r");
}

/* Instructions stand behind a comment with their address, and perhaps a predicate. */
static void disassemble(const char *cubin, const char *kernel, found *f)
{
	char line[1024], section[128];
	bool ours = false, inside = false;
	FILE *p = tool("nvdisasm -c", cubin);
	snprintf(section, sizeof section, ".text.%s:", kernel);
	while (p && fgets(line, sizeof line, p)) {
		if (!strncmp(line, ".text.", 6)) ours = !strncmp(line, section, strlen(section)), inside = false;
		if (ours && !strncmp(line, "$__internal", 11)) inside = true;
		char *op = ours ? strstr(line, "*/") : NULL;
		if (!op || !strstr(line, "/*")) continue;
		op += 2 + strspn(op + 2, " \t{");
		if (*op == '@') op += strcspn(op, " "), op += strspn(op, " ");
		if (!isupper((unsigned char)*op)) continue;
		op[strcspn(op, ";\n")] = 0;
		while (isspace((unsigned char)op[strlen(op) - 1])) op[strlen(op) - 1] = 0;
		if (!*f->refused && !may_have(op)) snprintf(f->refused, sizeof f->refused, "%s", op);
		op[strcspn(op, " ")] = 0;
		look_at(f, op, inside);
	}
	if (p) pclose(p);
}

static void read_resources(const char *cubin, const char *kernel, found *f)
{
	char line[1024], section[128], value[160], *at;
	bool ours = false, bank = false, parameter = false;
	FILE *p = tool("cuobjdump -elf", cubin);
	f->registers = f->frame = f->bytes = -1;
	snprintf(section, sizeof section, ".nv.info.%s\n", kernel);
	snprintf(value, sizeof value, "function: %s(", kernel);
	while (p && fgets(line, sizeof line, p)) {
		if (!strncmp(line, ".nv.", 4)) ours = !strcmp(line, section);
		if (strstr(line, value) && (at = strstr(line, "register count: "))) f->registers = (int)strtol(at + 16, NULL, 0);
		if (strstr(line, value) && (at = strstr(line, "min stack size: "))) f->frame = (int)strtol(at + 16, NULL, 0);
		if (ours && bank && (at = strstr(line, "Value:"))) f->bytes = (int)strtol(at + 6, NULL, 0), bank = false;
		if (ours && parameter && (at = strstr(line, "Offset  :"))) {
			if (strtol(at + 9, NULL, 0) == 0 && (at = strstr(at, "Size    :"))) f->size = (int)strtol(at + 9, NULL, 0);
			f->parameters++, parameter = false;
		}
		if (strstr(line, "EIATTR_CBANK_PARAM_SIZE")) bank = true;
		if (strstr(line, "EIATTR_KPARAM_INFO")) parameter = true;
	}
	if (p) pclose(p);
}

/* ---- rules ---- */
enum { FILE_OF_REGISTERS = 65536, REGISTERS_A_STEP = 8, FLUSHES_OF_ROOT = 3 };

/* The fused multiply-adds of NVIDIA's divisions and roots, without those behind a branch. FMA32_*64: f32 instructions of the f64 one. */
enum {
	FMA_DIVISION32 = 5,
	FMA_RECIPROCAL32 = 2,
	FMA_ROOT32 = 2,
	FMA_DIVISION64 = 7,
	FMA_RECIPROCAL64 = 5,
	FMA_ROOT64 = 5,
	FMA32_DIVISION64 = 1
};

/* Each approximate reciprocal is of a division, of 1 / x, or of a division of integers, which has no fma. */
static bool is_divisions(int extra, int reciprocals, int division, int reciprocal)
{
	for (int d = 0; d <= reciprocals; d++)
		for (int r = 0; d + r <= reciprocals; r++)
			if (d * division + r * reciprocal == extra) return true;
	return false;
}

static bool fused32(const wanted *w, const found *f)
{
	const int extra = f->fma32 - w->fma32 - f->roots32 * FMA_ROOT32;
	for (int d = 0; d <= f->reciprocals64; d++)
		if (is_divisions(extra - d * FMA32_DIVISION64, f->reciprocals32, FMA_DIVISION32, FMA_RECIPROCAL32)) return false;
	return true;
}

static bool fused64(const wanted *w, const found *f)
{
	return !is_divisions(f->fma64 - w->fma64 - f->roots64 * FMA_ROOT64, f->reciprocals64, FMA_DIVISION64, FMA_RECIPROCAL64);
}

/* A violation, as text; or "". */
static const char *verdict(const wanted *w, const found *f, int load, int store)
{
	static char why[300];
	const int each = (f->registers + REGISTERS_A_STEP - 1) / REGISTERS_A_STEP * REGISTERS_A_STEP;
	why[0] = 0;
#define RULE(bad, ...) if (!why[0] && (bad)) snprintf(why, sizeof why, __VA_ARGS__)
	RULE(f->registers < 0 || f->frame < 0 || f->bytes < 0, "memory: the tools say nothing about this kernel");
	RULE(f->frame != 0, "memory: a stack frame of %d bytes", f->frame);
	RULE(f->local, "memory: %d local accesses: %s", f->local, f->example);
	RULE((unsigned)each * w->threads > FILE_OF_REGISTERS, "registers: %d of each of %u threads", f->registers, w->threads);
	RULE(w->shared > w->most, "shared: %zu bytes of a block, it may ask for %zu", w->shared, w->most);
	RULE(f->bytes != (int)w->words * 8, "arguments: %d bytes, the host packs %u words", f->bytes, w->words);
	RULE(f->parameters != 1 || f->size != f->bytes, "arguments: %d parameters, that at offset 0 has %d bytes of %d", f->parameters,
	     f->size, f->bytes);
	RULE((f->swaps > 0) != w->faults, "faults: %d writes of the word, the kernel has %s", f->swaps,
	     w->faults ? "fault sites" : "no fault site");
	RULE(f->load < load || f->store < store, "wide: loads of %d bytes, stores of %d; %d and %d are promised", f->load, f->store, load, store);
	RULE(f->constant, "read-only: %d loads past coherence: %s", f->constant, f->example);
	RULE(f->approximate, "maths: %d approximations: %s", f->approximate, f->example);
	RULE(f->flush > (w->roots ? (f->roots32 + f->roots64) * FLUSHES_OF_ROOT : 0), "maths: %d instructions flush subnormals: %s",
	     f->flush, f->example);
	RULE(!w->divides && f->reciprocals32 + f->reciprocals64 + f->roots32 + f->roots64, "maths: approximate reciprocals without a division");
	RULE(fused32(w, f), "maths: %d fused multiply-adds, the text has %d", f->fma32, w->fma32);
	RULE(fused64(w, f), "maths: %d fused multiply-adds of f64, the text has %d", f->fma64, w->fma64);
	RULE(*f->refused, "opcodes: no kernel may have %s", f->refused);
#undef RULE
	return why;
}

static void report(const char *name, const wanted *w, const found *f, const kase *k, bool wide)
{
	const char *why = verdict(w, f, wide ? k->load : 0, wide ? k->store : 0);
	if (*why) failed++, printf("\nFAIL %s %s: %s\n", name, w->name, why);
	else passed++;
	if (verbose)
		printf("\n%-36s %-10s %3d registers, load %2d, store %2d, fma %3d of %2d, %3d of %2d", name, w->name, f->registers, f->load,
		       f->store, f->fma32, w->fma32, f->fma64, w->fma64);
}

/* ---- a program ---- */
typedef struct program {
	rt_text kernels, text; /* text: with the prelude */
	bool sizes;
	uint32_t n;
	wanted kernel[16];
} program;

static void take(lo_low *L, void *self)
{
	program *p = self;
	for (uint32_t i = 0; i < L->step.n; i++) {
		lo_built *b = L->step.v[i].built;
		if (!b || p->n == RT_COUNT(p->kernel)) continue;
		static char names[RT_COUNT(p->kernel)][16];
		snprintf(names[p->n], sizeof names[p->n], "k%u", p->n);
		b->k.name = names[p->n];
		if (p->sizes) lo_all_symbols(&b->k, &b->s);
		cu_params params = { 0 };
		const size_t start = p->kernels.n;
		cu_kernel(&b->k, &b->s, &p->kernels);
		p->kernels.oom |= !cu_params_of(&b->k, &params);
		p->kernel[p->n++] = wanted_of(&b->k, &b->s, &params, rt_str(&p->kernels) + start);
		put_offsets(&p->kernels, b->k.name, &params);
		rt_vec_free(&params.param);
	}
}

static void save(const char *path, const void *data, size_t n)
{
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(data, 1, n, f) != n) failed++, printf("\nFAIL %s cannot be written\n", path);
	if (f) fclose(f);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Compiles a text and leaves its cubin at `path`. Returns CPU time in ms; -1: an error was reported. */
static double compile(const char *name, const char *text, int arch, const char *path)
{
	void *cubin = NULL;
	size_t bytes = 0;
	rt_err err = { 0 };
	const double start = now();
	const tj_status st = rt_nvrtc_compile(text, arch, &cubin, &bytes, &err);
	const double ms = now() - start;
	if (st != TJ_OK) failed++, printf("\nFAIL %s: %s\n", name, err.message);
	else save(path, cubin, bytes);
	rt_free(cubin);
	return st == TJ_OK ? ms : -1;
}

static void inspect(const char *path, const wanted *w, found *f)
{
	*f = (found){ 0 };
	read_resources(path, w->name, f);
	disassemble(path, w->name, f);
}

static char *with_dtype(const char *text, const char *dtype)
{
	rt_text t = { 0 };
	for (const char *s = text; *s; s++)
		if (*s == '$') rt_puts(&t, dtype);
		else rt_putn(&t, s, 1);
	char *all = rt_strdup(rt_str(&t));
	rt_text_free(&t);
	return all;
}

static bool lower(const kase *k, const char *name, const char *dtype, size_t gpu, program *p)
{
	ir_graph g;
	rt_err err = { 0 };
	char *text = with_dtype(k->text, dtype);
	const lo_opts o = { .name = "f", .target = cu_target((int)gpu, archs[gpu]), .settings = RT_PRODUCTS_OWN };
	p->sizes = k->sizes;
	ir_graph_init(&g);
	tj_status st = ir_parse(&g, text, &err);
	if (st == TJ_OK) st = lo_dry_run(&g, &o, true, take, p, &err);
	if (st != TJ_OK || !p->n) failed++, printf("\nFAIL %s: %s\n", name, st == TJ_OK ? "no kernel" : err.message);
	cu_prelude(rt_str(&p->kernels), &p->text);
	rt_puts(&p->text, rt_str(&p->kernels));
	rt_text_free(&p->kernels);
	ir_graph_free(&g);
	rt_free(text);
	return st == TJ_OK && p->n;
}

/* CPU time of compilation for each GPU, in ms a kernel. */
static struct times { double ms[400]; size_t n; } times[RT_COUNT(archs)];

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void print_medians(void)
{
	printf("%-26s", "median");
	for (size_t gpu = 0; gpu < RT_COUNT(archs); gpu++) {
		struct times *t = &times[gpu];
		qsort(t->ms, t->n, sizeof *t->ms, ascending);
		if (t->n) printf("%6.0f", t->ms[t->n / 2]);
	}
	puts(" ms a kernel");
}

/* One case for one GPU. */
static void run(const kase *k, const char *dtype, size_t gpu)
{
	program p = { 0 };
	char name[100], path[300];
	double ms = 0;
	snprintf(name, sizeof name, "%s %s sm_%d", k->name, dtype, archs[gpu]);
	if (lower(k, name, dtype, gpu, &p)) {
		snprintf(path, sizeof path, "%s/%s.%s.sm_%d.cu", folder, k->name, dtype, archs[gpu]);
		save(path, rt_str(&p.text), strlen(rt_str(&p.text)));
		snprintf(path, sizeof path, "%s/%s.%s.sm_%d.cubin", folder, k->name, dtype, archs[gpu]);
		ms = compile(name, rt_str(&p.text), archs[gpu], path);
		for (uint32_t i = 0; i < p.n && ms >= 0; i++) {
			found f;
			inspect(path, &p.kernel[i], &f);
			report(name, &p.kernel[i], &f, k, strlen(dtype) == 3 && strchr("36", dtype[1]));
		}
	}
	rt_text_free(&p.text);
	if (p.n) ms /= p.n;
	printf("%6.0f", ms);
	if (ms > 0 && times[gpu].n < RT_COUNT(times->ms)) times[gpu].ms[times[gpu].n++] = ms;
}

/* ---- kernels written by hand: they are not printed from the kernel IR, and divide by sizes ---- */
#define CUMULATE "x y n inner chunk shift chunks count phase per_inner per_chunks per_rest units"
enum { MOST_AXES = TJ_MAX_RANK - 1, PLAIN_SHARED = 48 << 10 }; /* PLAIN_SHARED: bytes of shared memory that any launch may ask for */
static const struct written {
	const char *name, *dtypes, *members; /* dtypes as in a case; members of the argument in the order of the host's words; of
	                                        scatter_add put_axes() has others behind them */
	ir_op op;
	int which;
	bool staged;
	int fma;                             /* fused multiply-adds of floats */
} written[] = {
	{ "scatter_add", "fdilscut", "base index src out n size slots shift shared tiles base_step index_step src_step out_step naxis",
	  IR_scatter_add, 0, false, 0 },
	{ "cumsum", "fdl", CUMULATE, IR_cumsum, 0, false, 0 },
	{ "cumsum_staged", "fdl", CUMULATE, IR_cumsum, 0, true, 0 },
	{ "cumprod_staged", "fdl", CUMULATE, IR_cumprod, 0, true, 0 },
	{ "cummax", "fdlisut", CUMULATE, IR_cummax, 0, false, 0 },
	{ "cummin_staged", "fdlisut", CUMULATE, IR_cummin, 1, true, 0 },
	{ "recurrence", "fdlisc", "a " CUMULATE, IR_linear_recurrence, 0, false, 8 },
	{ "recurrence_staged", "fdlisc", "a " CUMULATE, IR_linear_recurrence, 0, true, 4 },
	{ "searchsorted", "fdhblisct", "sorted values out n m own right count units", IR_searchsorted, 0, false, 0 },
	{ "sort", "fdhblisct",
	  "x y work n k inner lines down pieces shift width runs kept length stride from to per_inner per_runs per_piece units", IR_sort, 0,
	  false, 0 },
	{ "argsort", "fl",
	  "x y work n k inner lines down pieces shift width runs kept length stride from to per_inner per_runs per_piece units", IR_sort, 1,
	  false, 0 },
};

static cu_written put_written(const struct written *k, tj_dtype t, rt_text *out)
{
	switch (k->op) {
	case IR_scatter_add: return cu_scatter_text(k->op, t, out);
	case IR_searchsorted: return cu_search_text(t, out);
	case IR_sort: return cu_sort_text(k->which, t, out);
	default: return cu_cumulate_text(k->op, k->which, t, k->staged, out);
	}
}

/* The members of scatter_add behind its sizes. */
static uint32_t put_axes(rt_text *t, uint32_t n)
{
	static const char *const each[] = { "dim", "inside", "base", "index", "src", "out" }, *const last[] = { "units", "launch", "fault" };
	char member[32];
	for (uint32_t i = 0; i < MOST_AXES * RT_COUNT(each); i++) {
		snprintf(member, sizeof member, "axis[%u].", i / (uint32_t)RT_COUNT(each));
		put_offset(t, "tj_scatter_add", member, each[i % RT_COUNT(each)], n++);
	}
	for (size_t i = 0; i < RT_COUNT(last); i++) put_offset(t, "tj_scatter_add", last[i], "", n++);
	return n;
}

/* Assertions for the offsets of all members; returns their number. */
static uint32_t put_members(const struct written *k, const char *kernel, rt_text *t)
{
	uint32_t n = 0;
	for (const char *s = k->members; *s; s += strspn(s, " ")) {
		char member[32];
		const int len = (int)strcspn(s, " ");
		snprintf(member, sizeof member, "%.*s", len, s);
		put_offset(t, kernel, member, "", n++);
		s += len;
	}
	return k->op == IR_scatter_add ? put_axes(t, n) : n;
}

static void run_written(const struct written *k, const char *dtype, size_t gpu)
{
	static const kase none = { 0 };
	const tj_dtype t = (tj_dtype)rt_dtype_parse(dtype, strlen(dtype));
	rt_text text = { 0 };
	char name[100], path[300];
	found f;
	snprintf(name, sizeof name, "%s %s sm_%d", k->name, dtype, archs[gpu]);
	snprintf(path, sizeof path, "%s/%s.%s.sm_%d.cubin", folder, k->name, dtype, archs[gpu]);
	const cu_written x = put_written(k, t, &text);
	wanted w = { .words = x.operands + x.words + (x.faults ? 3 : 1),
		     .threads = x.threads,
		     .shared = x.own * x.units,
		     .most = PLAIN_SHARED,
		     .divides = true,
		     .faults = x.faults };
	snprintf(w.name, sizeof w.name, "%s", x.name);
	if (t == TJ_F32) w.fma32 = k->fma;
	if (t == TJ_F64) w.fma64 = k->fma;
	if (put_members(k, x.name, &text) != w.words) failed++, printf("\nFAIL %s: %u words\n", name, w.words);
	const double ms = compile(name, rt_str(&text), archs[gpu], path);
	if (ms >= 0) {
		inspect(path, &w, &f);
		report(name, &w, &f, &none, false);
	}
	printf("%6.0f", ms);
	rt_text_free(&text);
}

static void run_all_written(const struct written *k)
{
	for (const char *d = k->dtypes; *d; d++) {
		printf("%-20s %-5s", k->name, dtype_of(*d));
		for (size_t gpu = 0; gpu < RT_COUNT(archs); gpu++)
			if (!quick || archs[gpu] == 90) run_written(k, dtype_of(*d), gpu);
		puts(" ms a kernel");
		fflush(stdout);
	}
}

/* ---- bugs that the rules must find ---- */
#define KERNEL(body) \
	"struct arguments { float *a, *b; };\nextern \"C\" __global__ void __launch_bounds__(256) k(const __grid_constant__ arguments s) {\n" \
	"float *a = s.a, *b = s.b;\n" body \
	"\n}\n"
#define ASKS .name = "k", .words = 2, .threads = 256, .most = 1
typedef struct bug { const char *rule, *text; wanted w; int wide; } bug;
static const bug bugs[] = {
	{ "memory",
	  KERNEL("float x[64]; for (int i = 0; i < 64; i++) x[(int)a[i] & 63] = a[i]; a[0] = x[threadIdx.x & 63];"),
	  { ASKS },
	  0 },
	{ "arguments: 16 bytes", KERNEL("a[0] = 1;"), { .name = "k", .words = 3, .threads = 256, .most = 1 }, 0 },
	{ "arguments: 2 parameters", "extern \"C\" __global__ void k(float *a, float *b) { a[0] = b[1]; }", { ASKS }, 0 },
	{ "registers", KERNEL("a[0] = 1;"), { .name = "k", .words = 2, .threads = 1 << 14, .most = 1 }, 0 },
	{ "shared", KERNEL("a[0] = 1;"), { ASKS, .shared = 2 }, 0 },
	{ "faults: 1 writes", KERNEL("atomicCAS((unsigned *)a, 0u, 1u);"), { ASKS }, 0 },
	{ "faults: 0 writes", KERNEL("a[0] = 1;"), { ASKS, .faults = true }, 0 },
	{ "wide", KERNEL("a[threadIdx.x] = a[threadIdx.x + 1];"), { ASKS }, 16 },
	{ "read-only", KERNEL("float x; asm(\"ld.global.nc.f32 %0, [%1];\" : \"=f\"(x) : \"l\"(b)); a[threadIdx.x] = x;"), { ASKS }, 0 },
	{ "opcodes: no kernel may have RED", KERNEL("atomicAdd((unsigned *)a + threadIdx.x, 1u);"), { ASKS }, 0 },
	{ "opcodes: no kernel may have ATOMG.E.ADD",
	  KERNEL("((int *)b)[threadIdx.x] = atomicAdd((int *)a + threadIdx.x, 1);"),
	  { ASKS },
	  0 },
	{ "opcodes: no kernel may have CALL",
	  "__device__ __noinline__ float g(float x) { return x * x; }\n" KERNEL("a[0] = g(a[1]) + g(a[2]);"),
	  { ASKS },
	  0 },
	{ "opcodes: no kernel may have HMUL2", KERNEL("asm(\"mul.f16 %0, %0, %0;\" : \"+h\"(((short *)a)[0]));"), { ASKS }, 0 },
	{ "opcodes: no kernel may have HFMA2", KERNEL("asm(\"fma.rn.f16 %0, %0, %0, %0;\" : \"+h\"(((short *)a)[0]));"), { ASKS }, 0 },
	{ "opcodes: no kernel may have HADD2", KERNEL("asm(\"add.f16 %0, %0, %0;\" : \"+h\"(((short *)a)[0]));"), { ASKS }, 0 },
	{ "maths: 1 approximations", KERNEL("asm volatile(\"ex2.approx.f32 %0, %0;\" : \"+f\"(a[0]));"), { ASKS }, 0 },
	{ "maths: 1 instructions flush", KERNEL("asm volatile(\"add.ftz.f32 %0, %0, %0;\" : \"+f\"(a[threadIdx.x]));"), { ASKS }, 0 },
	{ "maths: approximate reciprocals", KERNEL("asm volatile(\"rcp.approx.ftz.f32 %0, %0;\" : \"+f\"(a[0]));"), { ASKS }, 0 },
	{ "maths: 1 fused", KERNEL("a[0] = fmaf(a[1], a[2], a[3]);"), { ASKS }, 0 },
	{ "maths: 2 fused", KERNEL("a[0] = fmaf(a[1], a[2], a[3]); a[4] = fmaf(a[5], a[6], a[7]);"), { ASKS, .fma32 = 1 }, 0 },
	{ "maths: 6 fused", KERNEL("a[0] = a[1] / a[2]; a[4] = fmaf(a[5], a[6], a[7]);"), { ASKS, .divides = true }, 0 },
	{ "maths: 8 fused multiply-adds of f64",
	  KERNEL("double *d = (double *)a; d[0] = d[1] / d[2]; d[4] = fma(d[5], d[6], d[7]);"),
	  { ASKS, .divides = true },
	  0 },
};

/* Members in another order than the host's words must not compile. */
static void find_wrong_offset(void)
{
	rt_cuda_param words[] = { { RT_CUDA_BUFFER, 0 }, { RT_CUDA_UNITS, 0 } };
	const cu_params p = { .param = { .v = words, .n = 2 } };
	rt_text t = { 0 };
	rt_err err = { 0 };
	void *cubin = NULL;
	size_t bytes;
	rt_puts(&t, "struct k_args { long long units; void *b0; };\n");
	put_offsets(&t, "k", &p);
	if (rt_nvrtc_compile(rt_str(&t), 90, &cubin, &bytes, &err) != TJ_OK && strstr(err.message, "static assertion failed")) passed++;
	else failed++, printf("\nFAIL members at wrong offsets: %s\n", err.message);
	rt_free(cubin);
	rt_text_free(&t);
}

static void find_bugs(void)
{
	for (size_t i = 0; i < RT_COUNT(bugs); i++) {
		char path[300];
		found f;
		snprintf(path, sizeof path, "%s/bug%zu.cubin", folder, i);
		if (compile(bugs[i].rule, bugs[i].text, 90, path) < 0) continue;
		inspect(path, &bugs[i].w, &f);
		const char *why = verdict(&bugs[i].w, &f, bugs[i].wide, bugs[i].wide);
		if (!strncmp(why, bugs[i].rule, strlen(bugs[i].rule))) passed++;
		else failed++, printf("\nFAIL the rule `%s` does not find its bug, but: %s\n", bugs[i].rule, *why ? why : "nothing");
	}
}

int main(int n, char **arg)
{
	static char path[300];
	int i = 1;
	for (; i < n && arg[i][0] == '-'; i++) quick |= arg[i][1] == 'q', verbose |= arg[i][1] == 'v';
	if (i == n) return fprintf(stderr, "usage: cuda_static [-q] [-v] tools [case...]\n"), 2;
	tools = arg[i++];
	snprintf(path, sizeof path, "%s/nvidia/cu13/bin/nvdisasm", tools);
	if (access(path, X_OK) != 0)
		return printf("SKIP cuda_static: no NVRTC in %s: run `make cuda-tools`\n0 passed, 0 failed, 1 skipped\n", tools), 0;
	setenv("TJ_CUDA_PATH", tools, 1);
	snprintf(path, sizeof path, "%s-out", tools);
	mkdir(folder = path, 0777);
	find_bugs();
	find_wrong_offset();
	for (size_t k = 0; k < RT_COUNT(cases); k++) {
		bool asked = i == n;
		for (int a = i; a < n; a++) asked |= !strcmp(arg[a], cases[k].name);
		for (const char *d = cases[k].dtypes; asked && *d; d++) {
			printf("%-20s %-5s", cases[k].name, dtype_of(*d));
			for (size_t gpu = 0; gpu < RT_COUNT(archs); gpu++)
				if (!quick || archs[gpu] == 90) run(&cases[k], dtype_of(*d), gpu);
			puts(" ms a kernel");
			fflush(stdout);
		}
	}
	for (size_t k = 0; k < RT_COUNT(written); k++) {
		bool asked = i == n;
		for (int a = i; a < n; a++) asked |= !strcmp(arg[a], written[k].name);
		if (asked) run_all_written(&written[k]);
	}
	print_medians();
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed > 0;
}
