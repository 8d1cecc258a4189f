/* SPDX-License-Identifier: MIT */
/* Gradients (ir/grad.c, ir/vjp.c): every rule against finite differences, to the third order; composites against their decomposition;
 * compiled code against the evaluator; special values as PyTorch defines them; errors. */
#include "ir/vjp.h"
#include "runtime/alloc.h"
#include "test/gen.h"
#include "test/kit.h"
#include "test/mock.h"

#include <math.h>

enum { MOST = 4, ORDERS = 3, DRAWS = 256, ATTRS = 18 };
static const double H = 0x1p-10; /* values and steps are multiples of it, so that f32 holds them */

/* ---- cases:  op|op...  operand...  ; attribute...
 * An operand is !kind[sizes]. The letter says how its elements are drawn; all floats of a case differ by at least 0.01:
 *   (none) 0.3 to 2.2 and both signs, away from k / 2    p  0.4 to 2.2    u  0.1 to 0.8 and both signs
 *   z  like (none), or 0       e  2 or 3
 *   h  1.4 to 1.6 or 2.4 to 2.6 and both signs           w  0.97 to 1.03 and both signs     k  -2, -1, 1, 2, 3
 *   g  1.2 to 2.8              v  0.1 to 0.9
 *   i<n>  i64 from 0 to n - 1    o<n>  i64: 0, n, 2 n, ...    b  bool    n, m  a number near 1, near -1, without sizes
 * ! : no gradient is taken by it. Attributes are written as ir_emit() takes them; T is the dtype of the case. ---- */
#define ANY2    "add|sub|mul|div|minimum|maximum "
#define POINT2  "fmin|fmax|hypot|copysign|heaviside|atan2|logaddexp|logaddexp2 "
#define MODS    "floor_divide|trunc_divide|remainder|fmod "
#define ANY1    "neg|abs|sign|reciprocal|square|floor|ceil|round|trunc|exp|tanh|sigmoid|erf|sin|cos|expm1|relu|silu|gelu|gelu_tanh "
#define SPECIAL "erfc|erfcx|ndtr|log_ndtr|lgamma|tgamma|digamma|i0|i0e|i1|i1e "
#define MATHS1  "exp2|tan|atan|sinh|cosh|asinh|sinc|cbrt|frac|deg2rad|rad2deg|positive "
#define ABOVE0  "log|sqrt|rsqrt|log1p|log2|log10 "
#define ACTS    "relu6|selu|mish|softsign|logsigmoid|tanhshrink|hardsigmoid|hardswish "
#define ACTS_1  "leaky_relu|elu|celu|hardshrink|softshrink "
#define INSIDE  "asin|acos|atanh "
#define REDUCED "sum|mean|prod|amax|amin|logsumexp "
#define SCATTERED "scatter|scatter_prod|scatter_amax|scatter_amin "
#define PICKED  "max_with_indices|min_with_indices "
#define ALONG   "cumsum|cumprod|cummax|cummin|logcumsumexp "
#define SOFT    "softmax|log_softmax|softmin "
static const char *const cases[] = {
	ANY2 "[2,3] [2,3]",
	ANY2 "[2,3] [3]",
	ANY2 "[3] [2,1]",
	ANY2 "[] [2,2]",
	ANY2 "[2,1,2] [1,2,1]",
	ANY2 "[1,1] [2,3]",
	ANY2 "[] []",
	ANY2 "[0,3] [3]",
	ANY2 "[1] [0]",
	ANY2 "[3] n",
	ANY2 "n [3]",
	POINT2 "[2,3] [2,3]",
	POINT2 "[2,3] [3]",
	POINT2 "[3] [2,1]",
	POINT2 "[] []",
	POINT2 "[0,3] [3]",
	POINT2 "[3] n",
	"nextafter [2,3] ![3]",
	"nextafter [] n",
	"ldexp [2,3] !k[3]",
	"ldexp [] !k[]",
	"ldexp [2,3] [3]",
	"ldexp [3] []",
	"ldexp [2] n",
	"ldexp [0] []",
	"xlogy|xlog1py|float_power p[2,3] p[3]",
	"xlogy|xlog1py [3] p[2,1]",
	"xlogy|xlog1py|float_power p[] p[]",
	"xlogy|xlog1py z[4] p[4]",
	"lerp [2,3] [3] [2,1]",
	"lerp [] [] []",
	"lerp [0] [] []",
	"addcmul [2,3] [3] [2,1] n",
	"addcdiv [2,3] [3] [2,1] n",
	"addcmul|addcdiv [] [] [] n",
	"nan_to_num [5] n n n",
	"nan_to_num [] n n n",
	"nan_to_num [0,2] n n n",
	MODS "h[2,3] w[2,3]",
	MODS "h[2,3] w[3]",
	MODS "h[3] w[2,1]",
	MODS "h[2] w[]",
	MODS "h[] w[2,2]",
	MODS "h[3] n",
	MODS "h[0] w[]",
	"pow p[2,3] [3]",
	"pow p[3] [2,1]",
	"pow p[] []",
	"pow [6] !k[6]",
	"pow p[3] n",
	"pow n [3]",
	"pow p[0] []",
	ANY1 "[5]",
	ANY1 "[]",
	ANY1 "[1,3]",
	ANY1 "[2,0]",
	ABOVE0 "p[5]",
	ABOVE0 "p[]",
	ABOVE0 "p[0]",
	"log1p u[5]",
	SPECIAL "p[4]",
	SPECIAL "p[]",
	SPECIAL "[0]",
	"erfc|erfcx|ndtr|log_ndtr|i0|i1 [5]",
	"erfinv u[5]",
	"ndtri v[4]",
	"polygamma p[4] ; 1",
	"polygamma p[] ; 0",
	"polygamma p[0] ; 2",
	MATHS1 "u[5]",
	MATHS1 "[]",
	MATHS1 "[2,0]",
	INSIDE "u[5]",
	INSIDE "u[]",
	INSIDE "u[0]",
	"acosh g[4]",
	"acosh g[]",
	ACTS "[5]",
	ACTS "[]",
	ACTS "[2,0]",
	"logsigmoid|mish|hardswish|relu6 u[4]",
	ACTS_1 "[5] n",
	ACTS_1 "[] n",
	ACTS_1 "[0,2] n",
	"elu|celu|leaky_relu u[4] n",
	"prelu [2,3] [3]",
	"prelu [2,3,2] [3]",
	"prelu [4] [1]",
	"prelu [2,3] []",
	"prelu [] []",
	"prelu [0,2] [2]",
	"softplus [5] n n",
	"softplus u[2,2] n n",
	"softplus [] n n",
	"hardtanh [6] m n",
	"hardtanh [] m n",
	"threshold [6] n n",
	"threshold [0] n n",
	"glu [2,4] ; 1",
	"glu [4,2] ; 0",
	"glu [2,4,2] ; -2",
	"glu [0,2] ; 1",
	"glu [2,0] ; 1",
	"normalize [2,3] n ; 1",
	"normalize [2,3] n ; 0",
	"normalize z[2,3] n ; 1",
	"normalize [] n ; 0",
	"normalize [2,0] n ; 1",
	"where b[2,3] [2,3] [3]",
	"where b[3] [2,1] []",
	"where b[] [2] [2]",
	"where b[2,2] n [2]",
	"where ![3] [3] [3]",
	"where b[0] [1] []",
	"fma [2,3] [3] [2,1]",
	"fma [] [2] n",
	"fma [0] [] [1]",
	"clamp [2,3] [3] [2,1]",
	"clamp [6] [] []",
	"clamp [2,3] [2,3] [2,3]",
	"clamp [6] n n",
	"clamp [6] [] n",
	"clamp [] [2] []",
	"clamp [0] [] [1]",
	"cast [4] ; f32",
	"cast [] ; f32",
	"cast [0] ; f32",
	"to [3] ; mock",
	"to [2,2] ; mock",
	"reshape [2,3] ; 3 2",
	"reshape [6] ; 2 -1",
	"reshape [] ; 1 1",
	"reshape [1,1] ;",
	"reshape [0,2] ; 0",
	"expand [2,1] ; 2 3",
	"expand [3] ; 2 3",
	"expand [] ; 2 2",
	"expand [1,3] ; 2 -1 3",
	"expand [1] ; 0",
	"expand [1] ; 1",
	"permute [2,3,2] ; 2 0 1",
	"permute [2,3] ; 1 0",
	"permute [2] ; 0",
	"permute [] ;",
	"transpose [2,3,2] ; 0 2",
	"transpose [2,3] ; -1 -2",
	"squeeze [1,3,1] ;",
	"squeeze [1,3,1] ; 0",
	"squeeze [2,1] ; -1",
	"unsqueeze [2,3] ; 1",
	"unsqueeze [] ; 0",
	"unsqueeze [2] ; -1",
	"slice [7] ; 0 1 6 1",
	"slice [7] ; 0 1 end 2",
	"slice [7] ; 0 6 0 -1",
	"slice [7] ; 0 -1 end -2",
	"slice [3,4] ; 1 3 end -3",
	"slice [7] ; 0 5 1 -2",
	"slice [8] ; 0 2 7 3",
	"slice [5] ; 0 2 3 1",
	"slice [5] ; 0 3 3 1",
	"slice [2,5] ; 1 1 4 2",
	"slice [5,2] ; 0 4 end -4",
	"slice [1] ; 0 0 end 3",
	"flip [2,3] ;",
	"flip [2,3] ; 1",
	"flip [2,2,2] ; 0 2",
	"flip [] ;",
	"flip [0] ;",
	"optimization_barrier [2,3] [2]",
	"optimization_barrier [] [3]",
	"optimization_barrier [2] i3[4]",
	"optimization_barrier [3] n",
	"optimization_barrier [0] []",
	"roll [5] ; 0 2",
	"roll [2,3] ; -1 -4",
	"roll [] ; 0 3",
	"roll [0,2] ; 0 1",
	"roll [3] ; 0 3",
	"repeat_interleave [2,3] ; 1 2",
	"repeat_interleave [] ; 0 3",
	"repeat_interleave [2] ; 0 0",
	"unfold [5] ; 0 3 1 1",
	"unfold [2,6] ; 1 2 2 1",
	"unfold [7,2] ; 0 3 2 2",
	"unfold [4] ; -1 4 1 1",
	"unfold [5] ; 0 4 1 1",
	"unfold [6] ; 0 2 4 3",
	"unfold [3] ; 0 1 2 1",
	"unfold [9] ; 0 6 3 1",
	"tile [2,3] ; 2 2",
	"tile [3] ; 2 3",
	"tile [2,2] ; 3",
	"tile [] ; 2",
	"tile [2] ; 0",
	"tile [2] ;",
	"pad [3] n ; 0 1 2",
	"pad [2,3] [] ; 0 1 0 2 1",
	"pad [4] n ; 1 3 2",
	"pad [2,3] n ; 1 1 1 2 2",
	"pad [3] n ; 2 2 1",
	"pad [2,3] n ; 3 2 1 0 3",
	"pad [5] [] ; 0 -2 1",
	"pad [] n ; 0",
	"pad [0] [] ; 0 1 1",
	"tril|triu [3,3] ; 0",
	"tril|triu [2,3] ; 1",
	"tril|triu [2,3,2] ; -1",
	"tril|triu [0,2] ; 0",
	"diagonal [3,3] ; 0 0 1",
	"diagonal [2,3,4] ; 1 2 0",
	"diagonal [3,2] ; -1 -2 -1",
	"diagonal [2,2] ; 5 0 1",
	"diag_embed [3] ; 0",
	"diag_embed [2,2] ; 1",
	"diag_embed [2] ; -2",
	"diag_embed [0] ; 1",
	"masked_fill [2,3] b[3] []",
	"masked_fill [3] b[2,1] n",
	"masked_fill [2] b[2] [2]",
	"masked_fill [0] b[] []",
	"trace [3,3]",
	"trace [2,3]",
	"trace [0,2]",
	"cat [2,2] [1,2] [3,2] ; 0",
	"cat [2,1] [2,3] ; 1",
	"cat [2] ; 0",
	"cat [0] [2] ; 0",
	"cat [2] ![2] [1] ; -1",
	"stack [2] [2] [2] ; 0",
	"stack [2,2] [2,2] ; 1",
	"stack [] [] ; 0",
	"stack [] n ; 0",
	"stack [2,1] [2,1] ; -1",
	REDUCED "[2,3] ; 0",
	REDUCED "[2,3] ; 1",
	REDUCED "[2,3] ; 0 1",
	REDUCED "[2,3] ; 1 0",
	REDUCED "[2,2,2] ; 0 0 2",
	REDUCED "[2,2,2] ; 1 -1 0",
	REDUCED "[] ; 0",
	REDUCED "[] ; 1",
	REDUCED "[1,3] ; 0 0",
	REDUCED "[5] ; 0 0",
	REDUCED "[1] ; 0",
	REDUCED "[2,0] ; 0 0",
	"sum|mean|prod|logsumexp [0,2] ; 0 0",
	"sum|mean|prod|logsumexp [0] ; 1",
	PICKED "[2,3] ; 0 1",
	PICKED "[2,3] ; 1 0",
	PICKED "[2,3] ; 0 end",
	PICKED "[2,3] ; 1 end",
	PICKED "[5] ; 0 0",
	PICKED "[2,3,2] ; 0 1",
	PICKED "[2,3,2] ; 1 -1",
	PICKED "[] ; 0 0",
	PICKED "[] ; 0 end",
	PICKED "[1] ; 0 0",
	PICKED "[2,0] ; 0 0",
	"var [2,3] n ; 0 1",
	"var [2,3] m ; 1 0",
	"var [2,3] n ; 0",
	"var [4] m ; 0 0",
	"var [2,3,2] n ; 1 0 2",
	"var [1,4] n ; 0 1",
	"var [2] n ; 1",
	"var [2,0] n ; 0 0",
	"cholesky p[1,1]",
	"cholesky p[3,1,1]",
	"solve_lower p[3,3] [3,2] ; 0",
	"solve_lower p[2,2,2] [2,2,1] ; 1",
	"solve_lower p[1,1] [1,3] ; 0",
	"lu_packed p[3,3]",
	"lu_packed p[2,2,2]",
	"qr_packed p[3,2]",
	"qr_packed p[2,3]",
	"qr_packed p[2,2,2]",
	"eigh_packed [1,1] ; 0", /* larger symmetric ones: test_spectral.c */
	"eigh_packed [2,1,1] ; 1",
	"svd_packed [1,1] ; 0",
	"svd_packed [3,2] ; 0",
	"svd_packed [2,3] ; 1",
	"svd_packed [2,2,2] ; 0",
	"dft|inverse_dft [4,2] ; 0",
	"dft|inverse_dft [2,5,2] ; 1",
	"dft|inverse_dft [3,2,2] ; 0",
	"dft|inverse_dft [1,2] ; 0",
	"rdft [5] ; 0",
	"rdft [4,2] ; 0",
	"rdft [2,6] ; 1",
	"rdft [1] ; 0",
	"inverse_rdft [3,2] ; 0 4",
	"inverse_rdft [3,2] ; 0 5",
	"inverse_rdft [2,2,2] ; 1 3",
	"inverse_rdft [1,2,2] ; 0 1",
	ALONG "[5] ; 0",
	ALONG "[2,3] ; 1",
	ALONG "[3,2] ; 0",
	ALONG "[2,3,2] ; -2",
	ALONG "[] ; 0",
	ALONG "[1] ; 0",
	ALONG "[0] ; 0",
	ALONG "[2,0] ; 0",
	"cumprod z[4] ; 0",
	"prod z[4] ; 0 0",
	"prod z[4] ; 1 0",
	"prod z[2,3] ; 0 1",
	"prod z[2,3] ; 1",
	"prod z[3,2,2] ; 0 0 2",
	"prod z[6] ; 0 0",
	"scatter_prod z[3] i3[5] z[5] ; 0",
	"scatter_prod z[2] i2[6] z[6] ; 0",
	"scatter_prod z[2,2] i2[4,2] z[4,2] ; 0",
	"sort [5] ; 0 0",
	"sort [2,3] ; 1 1",
	"sort [3,2] ; 0 0",
	"sort [] ; 0 1",
	"sort [0] ; 0 0",
	"topk [5] ; 0 2 1",
	"topk [2,3] ; 1 2 0",
	"topk [3,2] ; 0 3 1",
	"topk [] ; 0 1 1",
	"topk [3] ; 0 0 1",
	"take_sorted [5] i5[3] ; 0",
	"take_sorted [2,4] i4[2,6] ; 1",
	"take_sorted [4,3] i4[2,2] ; 0",
	"take_sorted [2,3,2] i3[2,1,2] ; -2",
	"take_sorted [] i1[] ; 0",
	"take_sorted [3] i3[0] ; 0",
	"take_sorted [0] i1[0] ; 0",
	"linear_recurrence [5] [5] ; 0",
	"linear_recurrence [2,3] [2,3] ; 1",
	"linear_recurrence [3,2] ![3,2] ; 0",
	"linear_recurrence ![4] [4] ; -1",
	"linear_recurrence [] [] ; 0",
	"linear_recurrence [0] [0] ; 0",
	"matmul [2,3] [3,2]",
	"matmul [3] [3]",
	"matmul [3] [3,2]",
	"matmul [2,3] [3]",
	"matmul [2,2,3] [3,2]",
	"matmul [2,3] [2,3,2]",
	"matmul [2,2,3] [2,3,1]",
	"matmul [2,1,2,2] [3,2,1]",
	"matmul [3] [2,3,2]",
	"matmul [2,2,3] [3]",
	"matmul [1,2,2] [2,2,2]",
	"matmul [2,2,2] [1,2,2]",
	"matmul [0,2] [2,2]",
	"matmul [2,0] [0,2]",
	"matmul [0,2,2] [2,2]",
	"matmul [1] [1]",
	"matmul [2,1,1,2] [2,1]",
	"conv [1,1,4] [1,1,2] ; 1 1 1 0 0",
	"conv [2,2,4] [3,2,2] ; 1 2 1 1 0",
	"conv [1,4,3] [2,2,2] ; 2 1 2 1 1",
	"conv [2,2,3] [4,1,2] ; 2 1 1 0 1",
	"conv [1,2,3] [2,1,3] ; 2 2 1 1 1",
	"conv [1,2,3] [2,2,1] ; 1 1 1 0 0",
	"conv [1,1,3,3] [2,1,2,2] ; 1 2 1 1 1 0 1 1 0",
	"conv [1,2,2,2] [2,2,1,1] ; 1 2 1 1 1 0 0 0 0",
	"conv [1,1,2,2,2] [1,1,2,1,2] ; 1 1 1 1 1 1 1 0 0 0 0 1 0",
	"conv [0,2,3] [2,2,2] ; 1 1 1 0 0",
	"conv [1,2,3] ![2,2,2] ; 1 1 1 -1 1",
	"conv ![1,2,3] [2,2,2] ; 1 1 1 0 0",
	"conv_transpose [1,2,3] [2,2,2] ; 1 2 1 0 0",
	"conv_transpose [1,2,2] [2,1,3] ; 2 1 1 1 0",
	"conv_transpose [2,2,2] [2,3,2] ; 1 2 2 0 -1",
	"conv_transpose [1,1,2,2] [1,2,2,2] ; 1 2 1 1 1 1 0 0 0",
	"conv_transpose [0,1,2] [1,1,2] ; 1 1 1 0 0",
	"max_pool [2,5] ; 0 2 2 1 0 0",
	"max_pool [5] ; 1 2 2 1 0 1",
	"max_pool [2,3,3] ; 0 2 2 1 1 1 1 1 0 0 1",
	"max_pool [6] ; 0 2 1 2 1 1",
	"max_pool [0,3] ; 0 2 1 1 0 0",
	"avg_pool [2,5] ; 0 0 2 2 1 0 0",
	"avg_pool [5] ; 1 0 2 2 1 1 0",
	"avg_pool [5] ; 1 -1 3 2 1 1 1",
	"avg_pool [2,3,3] ; 0 3 2 2 1 1 1 1 1 0 0 1",
	"avg_pool [0,3] ; 0 0 2 1 1 0 0",
	"gather [4,2] i4[3,2] ; 0",
	"gather [2,4] i4[2,6] ; 1",
	"gather [3] i3[5] ; 0",
	"gather [3,3] i3[2,2] ; 0",
	"gather [2] i2[0] ; 0",
	"gather [] i1[] ; 0",
	"gather [2,3] i3[2,4] ; -1",
	"index_select [4,2] i4[3] ; 0",
	"index_select [2,3] i3[5] ; 1",
	"index_select [2] i2[3] ; 0",
	"index_select [3,2] i3[0] ; 0",
	"index_select [2,3,2] i3[4] ; -2",
	"csr_product o2[3] i3[5] [5] [3,2]",
	"csr_product o1[1] i3[2] [2] [3,2]",
	"csr_product_transposed o2[3] i3[4] [4] [2,2] ; 3",
	"csr_sampled_product o2[3] i3[5] [2,2] [3,2]",
	"embedding [3,2] i3[4]",
	"embedding [3,2] i3[2,2]",
	"embedding [3,2] i3[]",
	"embedding [3,2] i3[0]",
	"scatter_add [3] i3[5] [5] ; 0",
	"scatter_add [3,2] i3[4,2] [4,2] ; 0",
	"scatter_add [2,3] i3[2,5] [2,6] ; 1",
	"scatter_add [3,3] i3[2,2] [3,4] ; 0",
	"scatter_add [3,2] i3[1,1] [1,1] ; 0",
	"scatter_add [2] i2[0] [2] ; 0",
	"scatter_add [3] i3[4] ![4] ; 0",
	"scatter_add ![3] i3[4] [4] ; 0",
	SCATTERED "[3] i3[5] [5] ; 0",
	SCATTERED "[3,2] i3[4,2] [4,2] ; 0",
	SCATTERED "[2,3] i2[2,3] [2,4] ; -2",
	SCATTERED "[3,3] i3[2,2] [3,4] ; 1",
	SCATTERED "[] i1[] [] ; 0",
	SCATTERED "[3] i3[0] [2] ; 0",
	SCATTERED "[3] i3[4] ![4] ; 0",
	SCATTERED "![3] i3[4] [4] ; 0",
	"full [] ; T 2 3",
	"full [] ; T",
	"full [] ; T 0 2",
	SOFT "[2,3] ; 1",
	SOFT "[2,3] ; 0",
	SOFT "[] ; 0",
	SOFT "[5] ; -1",
	SOFT "[2,2,2] ; 1",
	SOFT "[1] ; 0",
	SOFT "[2,0] ; 1",
	SOFT "[0,2] ; 1",
	"layer_norm [2,3] [3] [3] n",
	"layer_norm [4] [4] [4] n",
	"layer_norm [2,1,3] [3] [3] n",
	"layer_norm [0,2] [2] [2] n",
	"rms_norm [2,3] [3] n",
	"rms_norm [4] [4] n",
	"rms_norm [2,1,3] [3] n",
	"rms_norm [0,2] [2] n",
	"add|sub|mul z[4] z[4]",
	"square|exp|tanh|sigmoid|erf|sin|cos|expm1|silu|gelu|gelu_tanh z[4]",
	"pow z[6] !e[6]",
	"prod z[2,2] ; 0 1",
	"matmul z[2,2] z[2,2]",
	"var z[2,3] n ; 0 1",
	SOFT "z[2,3] ; 1",
	"logsumexp z[2,3] ; 0 1",
	"layer_norm z[2,3] z[3] z[3] n",
	"rms_norm z[2,3] z[3] n",
	"where b[4] z[4] z[4]",
	"cross_entropy z[3,4] i4[3]",
	"cross_entropy [3,4] i4[3]",
	"cross_entropy [1,3] i3[1]",
	"cross_entropy [2,1] i1[2]",
};

typedef struct operand { char kind; bool fixed; int64_t below; int rank; int64_t dim[TJ_MAX_RANK]; } operand; /* kind ' ': none */
typedef struct kase {
	ir_op op;
	int nsrc, nattr;
	operand src[MOST];
	int64_t attr[ATTRS];
} kase;

static ir_op op_named(const char *name, size_t n)
{
	for (int op = 0; op < IR_OPS; op++)
		if (strlen(ir_ops[op].name) == n && !memcmp(ir_ops[op].name, name, n)) return (ir_op)op;
	fail_msg("no op %.*s", (int)n, name);
	return IR_OPS;
}

static bool is_number(const operand *o) { return o->kind == 'n' || o->kind == 'm'; }

static const char *read_operand(const char *p, operand *to)
{
	*to = (operand){ .kind = ' ' };
	if (*p == '!') to->fixed = true, p++;
	if (*p != '[') to->kind = *p++;
	if (to->kind == 'i' || to->kind == 'o') to->below = strtoll(p, (char **)&p, 10);
	if (is_number(to)) return p;
	if (*p++ != '[') fail_msg("no sizes at %s", p - 1);
	while (*p != ']') {
		to->dim[to->rank++] = strtoll(p, (char **)&p, 10);
		if (*p == ',') p++;
	}
	return p + 1;
}

static int64_t read_attr(const char *p, size_t n, tj_dtype dtype)
{
	if (*p == 'T') return dtype;
	if (!strncmp(p, "f32", n)) return TJ_F32;
	if (!strncmp(p, "end", n)) return TJ_END_DIM;
	if (!strncmp(p, "mock", n)) return mock_device();
	return strtoll(p, NULL, 10);
}

/* The case for op number `which` of the line; false: it has fewer ops. */
static bool read_case(const char *line, int which, tj_dtype dtype, kase *k)
{
	const char *p = line, *end = p + strcspn(p, "| ");
	*k = (kase){ 0 };
	for (; which > 0 && *end == '|'; which--) p = end + 1, end = p + strcspn(p, "| ");
	if (which > 0) return false;
	k->op = op_named(p, (size_t)(end - p));
	p += strcspn(p, " ");
	while (*(p += strspn(p, " ")) && *p != ';') p = read_operand(p, &k->src[k->nsrc++]);
	if (*p == ';') p++;
	while (*(p += strspn(p, " "))) {
		const size_t n = strcspn(p, " ");
		k->attr[k->nattr++] = read_attr(p, n, dtype);
		p += n;
	}
	return true;
}

/* ---- a case as a graph ---- */
typedef struct trial {
	gen G;
	ir_graph g;
	double drawn[DRAWS];    /* the floats of this case */
	int ndrawn, nwrt;
	ir_ref wrt[MOST], y;
	ir_ref used[MOST];      /* wrt[i] on `device` */
	int slot[MOST];         /* of the operands by which gradients are taken */
	int device;             /* operands are copied to it first */
} trial;

static double unit(gen *G) { return (double)(gen_next(G) >> 11) * 0x1p-53; }

static double candidate(gen *G, char kind)
{
	const double u = unit(G), sign = gen_chance(G, 50) ? 1 : -1;
	static const double whole[] = { -2, -1, 1, 2, 3 };
	switch (kind) {
	case 'p': return 0.4 + 1.8 * u;
	case 'g': return 1.2 + 1.6 * u;
	case 'v': return 0.1 + 0.8 * u;
	case 'u': return sign * (0.1 + 0.7 * u);
	case 'h': return sign * (1.4 + 0.2 * u + (gen_chance(G, 50) ? 1 : 0));
	case 'w': return sign * (0.97 + 0.06 * u);
	case 'n': return 0.97 + 0.06 * u;
	case 'm': return -0.97 - 0.06 * u;
	case 'z': return gen_chance(G, 50) ? 0 : sign * (0.3 + 1.9 * u);
	case 'e': return u < 0.5 ? 2 : 3;
	case 'k': return whole[gen_below(G, 5)];
	default: return sign * (0.3 + 1.9 * u);
	}
}

static bool too_near(const trial *t, char kind, double v)
{
	if (strchr("kwhze", kind)) return false;
	if (kind == ' ' && fabs(2 * v - rint(2 * v)) < 0.04) return true;
	for (int i = 0; i < t->ndrawn; i++)
		if (fabs(t->drawn[i] - v) < 0.01) return true;
	return false;
}

static double draw(trial *t, char kind)
{
	double v;
	do v = rint(candidate(&t->G, kind) / H) * H;
	while (too_near(t, kind, v));
	if (t->ndrawn < DRAWS) t->drawn[t->ndrawn++] = v;
	return v;
}

static ir_ref number(trial *t, char kind)
{
	const double v = draw(t, kind);
	uint64_t bits;
	memcpy(&bits, &v, sizeof bits);
	if (!rt_push(&t->G.num, bits) || !rt_push(&t->G.num_of, (gen_num){ .kind = GEN_FIXED })) abort();
	return ir_num_(&t->g, TJ_F64, (int)t->G.num.n - 1, NULL);
}

static ir_ref source(trial *t, const operand *o, tj_dtype dtype)
{
	if (is_number(o)) return number(t, o->kind);
	const int64_t steps[] = { TJ_I64, 0, o->dim[0] * o->below, o->below };
	if (o->kind == 'o') return ir_emit(t->G.g, IR_arange, 0, NULL, 4, steps, NULL);
	if (o->kind == 'i') return gen_input(&t->G, TJ_I64, o->rank, o->dim, GEN_INDEX, 0, o->below - 1);
	return gen_input(&t->G, o->kind == 'b' ? TJ_BOOL : dtype, o->rank, o->dim,
	                 t->G.content >= 0 ? (gen_content)t->G.content : GEN_PLAIN, 0, 0);
}

/* Adds the case to the graph of the trial. */
static void add_case(trial *t, const kase *k, tj_dtype dtype)
{
	ir_ref src[MOST];
	t->nwrt = t->ndrawn = 0;
	for (int i = 0; i < k->nsrc; i++) {
		const ir_ref x = source(t, &k->src[i], dtype);
		src[i] = t->device == RT_CPU || is_number(&k->src[i]) ? x : ir_to(&t->g, x, t->device, NULL);
		if (k->src[i].fixed || strchr("nmibo", k->src[i].kind)) continue;
		t->slot[t->nwrt] = (int)t->G.slot.n - 1;
		t->used[t->nwrt] = src[i];
		t->wrt[t->nwrt++] = x;
	}
	t->y = ir_emit(&t->g, k->op, k->nsrc, src, k->nattr, k->attr, "test_grad.c:1");
	if (t->y != IR_NONE && ir_ops[k->op].nresult > 1) t->y = ir_get(&t->g, t->y, 0, "test_grad.c:1");
	if (t->y == IR_NONE) fail_msg("%s: %s", ir_ops[k->op].name, t->g.err.message);
}

/* Floats are drawn as the case says; operands are row-major. */
static void open_trial(trial *t, const kase *k, tj_dtype dtype, int device, uint64_t seed)
{
	*t = (trial){ .device = device };
	gen_init(&t->G, &t->g, seed);
	t->G.layout = GEN_ROW;
	add_case(t, k, dtype);
	for (int i = 0, s = 0; i < k->nsrc; i++) {
		if (is_number(&k->src[i])) continue;
		const gen_slot *x = &t->G.slot.v[s++];
		int64_t n = 0;
		rt_numel(x->meta.rank, x->meta.dim, &n);
		for (int64_t e = 0; e < n && rt_is_float((tj_dtype)x->meta.dtype); e++)
			ir_store(dtype, (char *)x->data + e * (int64_t)tj_dtype_size(dtype),
			         ir_cast_scalar((ir_scalar){ .d = draw(t, k->src[i].kind) }, TJ_F64, dtype));
	}
}

static void close_trial(trial *t) { gen_free(&t->G); }

static tj_status evaluate(trial *t, const ir_graph *g, uint32_t n, ir_ref *out, void **data)
{
	const void *ext[2 * MOST];
	rt_err err = { 0 };
	ir_graph view = *g; /* with other outputs */
	for (uint32_t i = 0; i < t->G.slot.n; i++) ext[i] = t->G.slot.v[i].data;
	view.out.v = out;
	view.out.n = n;
	if (ir_eval(&view, ext, t->G.num.v, NULL, data, NULL, &err) != TJ_OK) fail_msg("%s: %s", err.op, err.message);
	return TJ_OK;
}

static double scalar(trial *t, ir_ref r)
{
	double v;
	evaluate(t, &t->g, 1, &r, (void *[]){ &v });
	return v;
}

/* sum(r * random constants), in f64 */
static ir_ref weighted(trial *t, ir_ref r)
{
	double c[DRAWS];
	r = ir_to(&t->g, r, RT_CPU, NULL);
	r = ir_cast(&t->g, r, TJ_F64, NULL);
	const ir_meta m = ir_meta_of(&t->g, r);
	for (int64_t i = 0; i < ir_numel(&t->g, r); i++) c[i] = rint(candidate(&t->G, ' ') / H) * H;
	ir_ref by = ir_data_(&t->g, &m, c, NULL);
	r = ir_op2(&t->g, IR_mul, r, by, NULL);
	return m.rank ? ir_reduce(&t->g, IR_sum, r, (1u << m.rank) - 1, false, NULL) : r;
}

static ir_ref loss_of(trial *t, int n, const ir_ref *r)
{
	ir_ref all = weighted(t, r[0]);
	for (int i = 1; i < n; i++) {
		ir_ref next = weighted(t, r[i]);
		all = ir_op2(&t->g, IR_add, all, next, NULL);
	}
	return all;
}

static void check_types(const ir_graph *g, int n, const ir_ref *wrt, const ir_ref *grad, const char *what)
{
	for (int i = 0; i < n; i++) {
		const ir_meta a = ir_meta_of(g, wrt[i]), b = ir_meta_of(g, grad[i]);
		bool same = a.dtype == b.dtype && a.rank == b.rank && a.device == b.device && !b.weak;
		for (int d = 0; same && d < a.rank; d++) same = a.dim[d] == b.dim[d];
		if (!same) fail_msg("%s: gradient %d has another type than its operand", what, i);
	}
}

static void gradients(ir_graph *g, const ir_grad_ask *q, ir_ref *out, const char *what)
{
	rt_err err = { 0 };
	if (!ir_grad(g, q, out)) fail_msg("%s: %s: %s", what, g->err.op, g->err.message);
	check_types(g, q->n, q->wrt, out, what);
	if (ir_verify(g, &err) != TJ_OK) fail_msg("%s: %s", what, err.message);
}

/* ---- finite differences ---- */
/* d loss / d x[e], from four values: the error is of the order of H^4. */
static double difference(trial *t, ir_ref loss, double *x)
{
	static const double at[] = { 1, -1, 2, -2 }, weight[] = { 8, -8, -1, 1 };
	const double was = *x;
	double sum = 0;
	for (int i = 0; i < 4; i++) {
		*x = was + at[i] * H;
		sum += weight[i] * scalar(t, loss);
	}
	*x = was;
	return sum / (12 * H);
}

static double worst[ORDERS + 1];
static char worst_case[ORDERS + 1][100];

/* The gradient by operand i. Errors are relative to its largest element. */
static void check_operand(trial *t, int i, ir_ref loss, ir_ref grad, int order, const char *name)
{
	double got[DRAWS], want[DRAWS], scale = 0.1;
	double *x = t->G.slot.v[t->slot[i]].data;
	const int64_t n = ir_numel(&t->g, grad);
	evaluate(t, &t->g, 1, &grad, (void *[]){ got });
	for (int64_t e = 0; e < n; e++) {
		want[e] = difference(t, loss, &x[e]);
		scale = fmax(scale, fabs(want[e]));
	}
	for (int64_t e = 0; e < n; e++) {
		const double error = fabs(got[e] - want[e]) / scale;
		if (!(error < 1e-6))
			fail_msg("%s: order %d, operand %d, element %d is %.12g, by differences %.12g", name, order, i, (int)e, got[e],
			         want[e]);
		if (error <= worst[order]) continue;
		worst[order] = error;
		snprintf(worst_case[order], sizeof worst_case[order], "%s", name);
	}
}

static void check_orders(trial *t, int orders, const char *name)
{
	ir_ref grad[MOST], loss = loss_of(t, 1, &t->y);
	for (int order = 1; order <= orders; order++) {
		const ir_grad_ask q = { .y = loss, .cotangent = IR_NONE, .n = t->nwrt, .wrt = t->wrt, .zeros = order > 1, .site = "test_grad.c:2" };
		gradients(&t->g, &q, grad, name);
		for (int i = 0; i < t->nwrt; i++) check_operand(t, i, loss, grad[i], order, name);
		loss = loss_of(t, t->nwrt, grad);
	}
}

/* The derivative along tangents is the product of gradients and tangents; and again, for the second derivative. */
static void check_tangents(trial *t, const char *name)
{
	ir_ref tangent[MOST], grad[MOST], y = loss_of(t, 1, &t->y), z = y;
	int64_t elements = 1;
	for (int i = 0; i < t->nwrt; i++) {
		double v[DRAWS];
		const ir_meta m = ir_meta_of(&t->g, t->wrt[i]);
		for (int64_t e = 0; e < ir_numel(&t->g, t->wrt[i]); e++) v[e] = rint(candidate(&t->G, ' ') / H) * H;
		tangent[i] = ir_data_(&t->g, &m, v, NULL);
		elements *= ir_numel(&t->g, t->wrt[i]);
	}
	for (int order = 1; order <= 2; order++) {
		ir_grad_ask q = { .y = y, .cotangent = IR_NONE, .n = t->nwrt, .wrt = t->wrt, .zeros = true, .site = "test_grad.c:3" };
		gradients(&t->g, &q, grad, name);
		for (int i = 0; i < t->nwrt; i++) grad[i] = ir_op2(&t->g, IR_mul, grad[i], tangent[i], NULL);
		for (int i = 0; i < t->nwrt; i++) {
			const int rank = ir_at(&t->g, grad[i])->rank;
			ir_ref sum = rank ? ir_reduce(&t->g, IR_sum, grad[i], (1u << rank) - 1, false, NULL) : grad[i];
			y = i ? ir_op2(&t->g, IR_add, y, sum, NULL) : sum;
		}
		q.y = z;
		if (!ir_jvp(&t->g, &q, tangent, &z)) fail_msg("%s: %s", name, t->g.err.message);
		const double want = scalar(t, y), got = scalar(t, z);
		if (isnan(got) && !elements) return; /* of a mean of nothing, which is NaN */
		if (!(fabs(got - want) <= 1e-10 * fmax(1, fabs(want))))
			fail_msg("%s: order %d along tangents is %.17g, not %.17g", name, order, got, want);
	}
}

static void check_case(const kase *k, int device, uint64_t seed, const char *name)
{
	trial t;
	ir_ref there[MOST];
	open_trial(&t, k, TJ_F64, device, seed);
	gradients(&t.g, &(ir_grad_ask){ .y = t.y, .cotangent = IR_NONE, .n = t.nwrt, .wrt = t.used, .zeros = true }, there,
	          name); /* its types are checked */
	check_orders(&t, ORDERS, name);
	if (t.nwrt && device == RT_CPU) check_tangents(&t, name);
	close_trial(&t);
}

static bool has_rule(int op)
{
	const int rule = ir_ops[op].grad;
	return rule != IR_GRAD_DISCRETE && rule != IR_GRAD_MADE && rule != IR_GRAD_REGIONS && rule != IR_GRAD_NONE &&
	       op != IR_stop_gradient; /* its rule is not its derivative */
}

/* The evaluator decomposes a stack as it is written, and then joins a number, which is on the CPU, with tensors that are not. */
static bool evaluated_there(const kase *k)
{
	bool numbers = false;
	for (int i = 0; i < k->nsrc; i++) numbers |= is_number(&k->src[i]);
	return k->op != IR_stack || !numbers;
}

static void title(char *name, size_t size, const kase *k, const char *line)
{
	snprintf(name, size, "%s%s", ir_ops[k->op].name, strchr(line, ' '));
}

static void differences(void **state)
{
	bool seen[IR_OPS] = { false };
	char name[100];
	kase k;
	(void)state;
	for (size_t c = 0; c < RT_COUNT(cases); c++)
		for (int w = 0; read_case(cases[c], w, TJ_F64, &k); w++) {
			seen[k.op] = true;
			title(name, sizeof name, &k, cases[c]);
			for (uint64_t seed = 0; seed < 3; seed++)
				check_case(&k, seed == 2 && evaluated_there(&k) ? mock_device() : RT_CPU,
				           1000 * c + 10 * (uint64_t)w + seed, name);
		}
	for (int op = 0; op < IR_OPS; op++)
		if (has_rule(op) && !seen[op] && op != IR_host_call) /* test_host.c */
			fail_msg("no case for %s", ir_ops[op].name);
	for (int o = 1; o <= ORDERS; o++) print_message("order %d: largest relative error %.1e (%s)\n", o, worst[o], worst_case[o]);
}

/* ---- graphs of several nodes; each input is an operand ---- */
static const char *const graphs[] = {
	/* slices side by side, out of order, with a gap; those that overlap; along two axes; of a slice; and other uses */
	"%0 = input f64[7] slot=0\n%1 = slice f64[2] %0 axis=0 start=5 stop=7 step=1\n%2 = slice f64[2] %0 axis=0 start=0 stop=2 step=1\n"
	"%3 = slice f64[2] %0 axis=0 start=2 stop=4 step=1\n"
	"%4 = mul f64[2] %1 %2\n%5 = mul f64[2] %4 %3\nret %5",
	"%0 = input f64[4] slot=0\n%1 = slice f64[3] %0 axis=0 start=0 stop=3 step=1\n%2 = slice f64[3] %0 axis=0 start=1 stop=4 step=1\n"
	"%3 = mul f64[3] %1 %2\n%4 = mul f64[3] %3 %1\nret %4",
	"%0 = input f64[2,3] slot=0\n%1 = slice f64[1,3] %0 axis=0 start=1 stop=2 step=1\n%2 = slice f64[2,1] %0 axis=1 start=0 stop=1 step=1\n"
	"%3 = slice f64[2,2] %0 axis=1 start=1 stop=3 step=1\n"
	"%4 = mul f64[2,3] %1 %2\n%5 = mul f64[2,3] %4 %0\n%6 = sum f64[2,1] %3 keepdim=1 axes=1\n%7 = add f64[2,3] %5 %6\nret %7",
	"%0 = input f64[6] slot=0\n%1 = slice f64[4] %0 axis=0 start=1 stop=5 step=1\n%2 = slice f64[2] %1 axis=0 start=2 stop=4 step=1\n"
	"%3 = slice f64[2] %0 axis=0 start=5 stop=1 step=-2\n%4 = exp f64[2] %2\n"
	"%5 = mul f64[2] %4 %3\nret %5",
	/* both results of a node, one of them an index */
	"%0 = input f64[3,4] slot=0\n%1 = max_with_indices %0 keepdim=1 axis=1\n%2 = get f64[3,1] %1 i=0\n%3 = get i64[3,1] %1 i=1\n"
	"%4 = gather f64[3,1] %0 %3 axis=1\n%5 = mul f64[3,1] %4 %2\nret %5",
	/* attention, a layer with a loss */
	"%0 = input f64[3,2] slot=0\n%1 = input f64[3,2] slot=1\n%2 = input f64[3,2] slot=2\n%3 = transpose f64[2,3] %1 a=0 b=1\n"
	"%4 = matmul f64[3,3] %0 %3\n%5 = softmax f64[3,3] %4 axis=1\n%6 = matmul f64[3,2] %5 %2\nret %6",
	"%0 = input f64[3,2] slot=0\n%1 = permute f64[2,3] %0 axes=1,0\n%2 = matmul f64[3,3] %0 %1\n%3 = eye f64[3,3] dtype=f64 n=3 m=3\n"
	"%4 = add f64[3,3] %2 %3\n%5 = cholesky f64[3,3] %4\nret %5",
	"%0 = input f64[3,2] slot=0\n%1 = input f64[2,4] slot=1\n%2 = input f64[4] slot=2\n%3 = matmul f64[3,4] %0 %1\n"
	"%4 = add f64[3,4] %3 %2\n%5 = gelu f64[3,4] %4\n%6 = data i64[3] {1,3,1}\n"
	"%7 = cross_entropy f64[] %5 %6\nret %7",
};

static ir_graph parsed(const char *text)
{
	ir_graph g;
	rt_err err = { 0 };
	ir_graph_init(&g);
	if (ir_parse(&g, text, &err) != TJ_OK) fail_msg("%s\n%s", text, err.message);
	return g;
}

static void open_graph(trial *t, const char *text)
{
	*t = (trial){ 0 };
	gen_init(&t->G, &t->g, 1);
	t->G.layout = GEN_ROW;
	ir_graph g = parsed(text);
	for (ir_ref r = 0; r < g.node.n; r++) {
		const ir_meta m = ir_meta_of(&g, r);
		if (ir_at(&g, r)->op != IR_input) continue;
		gen_input(&t->G, (tj_dtype)m.dtype, m.rank, m.dim, GEN_PLAIN, 0, 0);
		t->slot[t->nwrt] = t->nwrt;
		t->wrt[t->nwrt++] = r;
	}
	ir_graph_free(&t->g);
	t->g = g;
	t->y = g.out.v[0];
}

static void whole_graphs(void **state)
{
	(void)state;
	for (size_t i = 0; i < RT_COUNT(graphs); i++) {
		trial t;
		open_graph(&t, graphs[i]);
		for (uint32_t k = 0; k < t.G.slot.n; k++)
			for (int64_t e = 0; e < ir_numel(&t.g, t.wrt[k]); e++) ((double *)t.G.slot.v[k].data)[e] = draw(&t, ' ');
		check_orders(&t, ORDERS, graphs[i]);
		close_trial(&t);
	}
}

/* ---- a composite's own rule against the gradient of its decomposition ---- */
static void compare(tj_dtype dtype, int64_t n, const void *a, const void *b, double bound, const char *name)
{
	double got[DRAWS], want[DRAWS], scale = 0.1;
	for (int64_t i = 0; i < n; i++) {
		const size_t at = (size_t)i * tj_dtype_size(dtype);
		got[i] = ir_cast_scalar(ir_load(dtype, (const char *)a + at), dtype, TJ_F64).d;
		want[i] = ir_cast_scalar(ir_load(dtype, (const char *)b + at), dtype, TJ_F64).d;
		scale = fmax(scale, fabs(want[i]));
	}
	for (int64_t i = 0; i < n; i++)
		if (!(fabs(got[i] - want[i]) <= bound * scale)) fail_msg("%s: element %d is %.17g, not %.17g", name, (int)i, got[i], want[i]);
}

static void check_composite(const kase *k, tj_dtype dtype, double bound, const char *name)
{
	trial t;
	ir_graph parts;
	rt_err err = { 0 };
	ir_ref own[MOST], of_parts[MOST];
	double a[DRAWS], b[DRAWS];
	open_trial(&t, k, dtype, RT_CPU, 7);
	ir_graph_init(&parts);
	ir_ref loss = loss_of(&t, 1, &t.y);
	ir_ret(&t.g, loss);
	for (int i = 0; i < t.nwrt; i++) ir_ret(&t.g, t.wrt[i]); /* outputs, to find them again */
	if (ir_pass_decomp(&t.g, &parts, NULL, &err) != TJ_OK) fail_msg("%s: %s", name, err.message);
	const ir_grad_ask q = { .y = loss, .cotangent = IR_NONE, .n = t.nwrt, .wrt = t.wrt },
			  r = { .y = parts.out.v[0], .cotangent = IR_NONE, .n = t.nwrt, .wrt = parts.out.v + 1 };
	gradients(&t.g, &q, own, name);
	gradients(&parts, &r, of_parts, name);
	for (int i = 0; i < t.nwrt; i++) {
		evaluate(&t, &t.g, 1, &own[i], (void *[]){ a });
		evaluate(&t, &parts, 1, &of_parts[i], (void *[]){ b });
		compare(dtype, ir_numel(&t.g, own[i]), a, b, bound, name);
	}
	ir_graph_free(&parts);
	close_trial(&t);
}

static void composites(void **state)
{
	char name[100];
	kase k;
	(void)state;
	for (size_t c = 0; c < RT_COUNT(cases); c++)
		for (int w = 0; read_case(cases[c], w, TJ_F64, &k); w++) {
			if (!(ir_ops[k.op].flags & IR_COMPOSITE)) continue;
			title(name, sizeof name, &k, cases[c]);
			check_composite(&k, TJ_F64, 1e-12, name);
			check_composite(&k, TJ_F32, 2e-6, name);
		}
}

/* ---- narrow dtypes: rules compute in f32, so few roundings separate their results from those in f64 ---- */
static void same_operands(const trial *from, trial *to)
{
	for (uint32_t i = 0; i < from->G.slot.n; i++) {
		const gen_slot *a = &from->G.slot.v[i], *b = &to->G.slot.v[i];
		const tj_dtype s = (tj_dtype)a->meta.dtype, t = (tj_dtype)b->meta.dtype;
		int64_t n = 0;
		rt_numel(a->meta.rank, a->meta.dim, &n);
		for (int64_t e = 0; e < n; e++)
			ir_store(t, (char *)b->data + e * (int64_t)tj_dtype_size(t),
			         ir_cast_scalar(ir_load(s, (char *)a->data + e * (int64_t)tj_dtype_size(s)), s, t));
	}
	for (uint32_t i = 0; i < from->G.num.n; i++) to->G.num.v[i] = from->G.num.v[i];
}

static void check_narrow(const kase *k, const kase *wide, tj_dtype dtype, double bound, const char *name)
{
	trial t, exact;
	ir_ref a[MOST], b[MOST];
	double got[DRAWS], want[DRAWS], rounded[DRAWS];
	open_trial(&t, k, dtype, RT_CPU, 11);
	open_trial(&exact, wide, TJ_F64, RT_CPU, 11);
	same_operands(&t, &exact);
	gradients(&t.g, &(ir_grad_ask){ .y = t.y, .cotangent = IR_NONE, .n = t.nwrt, .wrt = t.wrt }, a, name);
	gradients(&exact.g, &(ir_grad_ask){ .y = exact.y, .cotangent = IR_NONE, .n = t.nwrt, .wrt = exact.wrt }, b, name);
	for (int i = 0; i < t.nwrt; i++) {
		const int64_t n = ir_numel(&t.g, a[i]);
		evaluate(&t, &t.g, 1, &a[i], (void *[]){ got });
		evaluate(&exact, &exact.g, 1, &b[i], (void *[]){ want });
		for (int64_t e = 0; e < n; e++)
			ir_store(dtype, (char *)rounded + e * (int64_t)tj_dtype_size(dtype),
			         ir_cast_scalar((ir_scalar){ .d = want[e] }, TJ_F64, dtype));
		compare(dtype, n, got, rounded, bound, name);
	}
	close_trial(&t);
	close_trial(&exact);
}

static void narrow(void **state)
{
	static const struct { tj_dtype dtype; double bound; } types[] = { { TJ_F32, 0x1p-20 }, { TJ_F16, 0x1p-9 }, { TJ_BF16, 0x1p-6 } };
	char name[100];
	kase k, wide;
	(void)state;
	for (size_t c = 0; c < RT_COUNT(cases); c++)
		for (size_t d = 0; d < RT_COUNT(types); d++)
			for (int w = 0; read_case(cases[c], w, types[d].dtype, &k) && read_case(cases[c], w, TJ_F64, &wide); w++) {
				title(name, sizeof name, &k, cases[c]);
				if (k.op == IR_svd_packed) continue; /* its error grows as singular values come close */
				check_narrow(&k, &wide, types[d].dtype, types[d].bound, name);
			}
}

/* ---- compiled code against the evaluator: operands of any layout and content, many cases in one graph ---- */
static void check_group(trial *t, tj_dtype dtype, const lo_target *target)
{
	gen_out got, want;
	rt_err err = { 0 };
	char why[200];
	gen_keep_lib(&t->G);
	if (!gen_out_new(&got, &t->g) || !gen_out_new(&want, &t->g)) abort();
	if (gen_run(&t->G, &(gen_how){ .target = target }, &got, &err) != TJ_OK) fail_msg("%s: %s", err.op, err.message);
	if (gen_oracle(&t->G, false, &got, &want, &err) != TJ_OK) fail_msg("evaluator: %s: %s", err.op, err.message);
	if (!gen_lib_ok(&t->G, &got, why, sizeof why)) fail_msg("%s", why);
	for (uint32_t i = 0; i < got.n; i++) {
		int64_t at;
		const ir_node *n = ir_at(&t->g, t->g.out.v[i]);
		if (!gen_same((tj_dtype)n->dtype, got.data[i], want.data[i], ir_numel(&t->g, t->g.out.v[i]), &at))
			fail_msg("%s: output %u (%s), element %d differs from the evaluator's", tj_dtype_name(dtype), i, ir_ops[n->op].name, (int)at);
	}
	gen_out_free(&got);
	gen_out_free(&want);
}

/* The gradients of the case, as outputs. */
static void ret_gradients(trial *t, const kase *k, tj_dtype dtype, const char *name)
{
	ir_ref grad[MOST];
	add_case(t, k, dtype);
	const ir_meta m = ir_meta_of(&t->g, t->y);
	ir_ref dy = gen_input(&t->G, (tj_dtype)m.dtype, m.rank, m.dim, GEN_PLAIN, 0, 0);
	const ir_grad_ask q = { .y = t->y, .cotangent = dy, .n = t->nwrt, .wrt = t->wrt };
	gradients(&t->g, &q, grad, name);
	for (int i = 0; i < t->nwrt; i++) ir_ret(&t->g, grad[i]);
	if (dtype != TJ_F32 || !t->nwrt) return;
	const ir_meta first = ir_meta_of(&t->g, grad[0]); /* the second order, too */
	dy = gen_input(&t->G, TJ_F32, first.rank, first.dim, GEN_PLAIN, 0, 0);
	const ir_grad_ask again = { .y = grad[0], .cotangent = dy, .n = t->nwrt, .wrt = t->wrt, .zeros = true };
	gradients(&t->g, &again, grad, name);
	for (int i = 0; i < t->nwrt; i++) ir_ret(&t->g, grad[i]);
}

/* The cases of these lines, in one graph. */
static void compile_lines(size_t from, size_t to, tj_dtype dtype, const lo_target *target)
{
	trial t = { 0 };
	char name[100];
	kase k;
	gen_init(&t.G, &t.g, from + 1);
	for (size_t c = from; c < to; c++)
		for (int w = 0; read_case(cases[c], w, dtype, &k); w++) {
			if (k.op == IR_cholesky) continue; /* of any content it is an error */
			if (k.op == IR_to) continue; /* kernels of the mock device have tests of their own */
			title(name, sizeof name, &k, cases[c]);
			ret_gradients(&t, &k, dtype, name);
		}
	check_group(&t, dtype, target);
	close_trial(&t);
}

static void compiled(void **state)
{
	enum { GROUP = 10 };
	static const tj_dtype types[] = { TJ_F32, TJ_F64, TJ_BF16, TJ_F16 };
	const lo_target *target = lo_backend_find("llvm", NULL) ? &lo_cpu : NULL;
	(void)state;
	for (size_t d = 0; d < RT_COUNT(types); d++)
		for (size_t c = 0; c < RT_COUNT(cases); c += GROUP)
			compile_lines(c, c + GROUP < RT_COUNT(cases) ? c + GROUP : RT_COUNT(cases), types[d], target);
}

/* ---- special values: the results are PyTorch's ---- */
enum { FEW = 6 };
typedef struct special {
	const char *text;            /* a case, or a graph: then each of its inputs is an operand */
	double operand[3][FEW], grad[3][FEW];
	double dy[FEW];              /* all 0: ones */
} special;

#define INF INFINITY
static const special specials[] = {
	{ "maximum [3] [3]", { { 1, 2, 3 }, { 1, 3, 2 } }, { { .5, 0, 1 }, { .5, 1, 0 } }, { 0 } },
	{ "minimum [3] [3]", { { 1, 2, 3 }, { 1, 3, 2 } }, { { .5, 1, 0 }, { .5, 0, 1 } }, { 0 } },
	{ "maximum|minimum [3] [3]", { { NAN, 1, 0.0 }, { 1, NAN, -0.0 } }, { { 1, 1, .5 }, { 1, 1, .5 } }, { 0 } },
	{ "fmax [4] [4]", { { 1, 2, NAN, 1 }, { 1, 3, 1, NAN } }, { { 1, 0, 0, 1 }, { 0, 1, 1, 0 } }, { 0 } },
	{ "fmin [4] [4]", { { 1, 2, NAN, 1 }, { 1, 3, 1, NAN } }, { { 1, 1, 0, 1 }, { 0, 0, 1, 0 } }, { 0 } },
	{ "hypot [3] [3]", { { 0, 3, -1 }, { 0, 4, 0 } }, { { 0, .6, -1 }, { 0, .8, 0 } }, { 0 } },
	{ "copysign [4] [4]", { { 0, 3, -3, 2 }, { 1, -4, -1, 1 } }, { { 0, -1, 1, 1 }, { 0 } }, { 0 } },
	{ "atan2 [3] [3]", { { 1, 3, 0 }, { 0, 4, 0 } }, { { 0, .16, 0 }, { -1, -.12, 0 } }, { 0 } },
	{ "logaddexp|logaddexp2 [3] [3]",
	  { { 2, INF, -INF }, { 2, INF, -INF } },
	  { { .5, .5, .5 }, { .5, .5, .5 } },
	  { 0 } }, /* PyTorch: NaN of infinities */
	{ "xlogy [3] [3]",
	  { { 0, 0, 2 }, { 0, 2, 4 } },
	  { { 0, 0.69314718055994531, 1.3862943611198906 }, { 0, 0, .5 } },
	  { 0 } }, /* PyTorch: NaN by b at 0, 0 */
	{ "amax [5] ; 0 0", { { 3, 1, 3, 3, 3 } }, { { .25, 0, .25, .25, .25 } }, { 0 } },
	{ "amin [2,2] ; 1", { { 1, 1, 1, 2 } }, { { 2, 2, 2, 0 } }, { 6 } },
	{ "amax|amin [2] ; 0", { { NAN, 1 } }, { { NAN, NAN } }, { 0 } },
	{ "max_with_indices [4] ; 0 0", { { 1, 3, 3, 2 } }, { { 0, 1, 0, 0 } }, { 0 } },
	{ "min_with_indices [4] ; 0 0", { { 2, 1, 1, 3 } }, { { 0, 1, 0, 0 } }, { 0 } },
	{ "max_with_indices|min_with_indices [4] ; 0 0", { { 1, NAN, 3, NAN } }, { { 0, 1, 0, 0 } }, { 0 } },
	{ "max_with_indices [2,2] ; 0 end", { { 1, 3, 3, 2 } }, { { 0, 1, 0, 0 } }, { 0 } },
	{ "cumprod [4] ; 0", { { 2, 0, 3, 0 } }, { { 1, 8, 0, 0 } }, { 0 } }, /* of 2, 0, 0, 0 */
	{ "cummax [4] ; 0", { { 1, 3, 3, 2 } }, { { 1, 1, 2, 0 } }, { 0 } },
	{ "cummin [4] ; 0", { { 2, NAN, 1, NAN } }, { { 1, 2, 0, 1 } }, { 0 } },
	{ "logcumsumexp [3] ; 0", { { -INF, 0, 0 } }, { { 0, 1.5, .5 } }, { 0 } },
	{ "relu [5]", { { 0, -0.0, 1, -1, NAN } }, { { 0, 0, 1, 0, 1 } }, { 0 } },
	{ "abs [5]", { { 0, -0.0, 2, -2, NAN } }, { { 0, 0, 1, -1, NAN } }, { 0 } },
	{ "sign|floor|ceil|round|trunc [6]", { { 0, -0.0, 2, .5, NAN, INF } }, { { 0 } }, { 0 } },
	{ "floor_divide|trunc_divide [2] [2]", { { 1, 4 }, { 0, 2 } }, { { 0 }, { 0 } }, { 0 } },
	{ "where b[2] [2] [2]", { { 1, 0 }, { 1, NAN }, { NAN, 1 } }, { { 1, 0 }, { 0, 1 } }, { 0 } },
	{ "%0 = input f64[3] slot=0\n%1 = data bool[3] {0,1,0}\n%2 = sqrt f64[3] %0\n%3 = const f64[3] 0x0p+0\n%4 = where f64[3] %1 %2 %3\nret %4",
	  { { 0, 4, 4 } },
	  { { NAN, .25, 0 } },
	  { 0 } }, /* 0 * inf, though sqrt(0) is not chosen */
	{ "pow [6] [6]",
	  { { 0, 0, 0, 2, 0, -2 }, { 0, 2, 1, 0, -1, 2 } },
	  { { 0, 0, 1, 0, -INF, -4 }, { 0, 0, 0, 0.69314718055994531, -INF, NAN } },
	  { 0 } },
	{ "sqrt [4]", { { 0, -0.0, 4, -1 } }, { { INF, -INF, .25, NAN } }, { 0 } },
	{ "rsqrt [3]", { { 0, 4, INF } }, { { -INF, -.0625, 0 } }, { 0 } },
	{ "log [4]", { { 0, -1, 2, INF } }, { { INF, -1, .5, 0 } }, { 0 } },
	{ "log1p [3]", { { -1, 0, 1 } }, { { INF, 1, .5 } }, { 0 } },
	{ "asin [3]", { { 0, 1, -1 } }, { { 1, INF, INF } }, { 0 } },
	{ "acos [3]", { { 0, 1, 2 } }, { { -1, -INF, NAN } }, { 0 } },
	{ "atanh [3]", { { 0, 1, .5 } }, { { 1, INF, 1 / .75 } }, { 0 } },
	{ "acosh [2]", { { 1, .5 } }, { { INF, NAN } }, { 0 } },
	{ "atan|asinh|tan|sinh|frac|positive [2]", { { 0, -0.0 } }, { { 1, 1 } }, { 0 } },
	{ "cbrt [2]", { { 0, 8 } }, { { INF, 1 / 12.0 } }, { 0 } },
	{ "sinc|cosh [2]", { { 0, -0.0 } }, { { 0, 0 } }, { 0 } },
	{ "reciprocal [3]", { { 0, -0.0, 2 } }, { { -INF, -INF, -.25 } }, { 0 } },
	{ "exp|expm1 [3]", { { -INF, INF, 0 } }, { { 0, INF, 1 } }, { 0 } },
	{ "tanh [3]", { { -INF, INF, 0 } }, { { 0, 0, 1 } }, { 0 } },
	{ "sigmoid [3]", { { -INF, INF, 0 } }, { { 0, 0, .25 } }, { 0 } },
	{ "relu6 [6]", { { 0, 6, 3, 7, -1, NAN } }, { { 0, 0, 1, 0, 0, 1 } }, { 0 } },
	{ "hardsigmoid [4]", { { -3, 3, 0, 9 } }, { { 0, 0, 1 / 6.0, 0 } }, { 0 } },
	{ "hardswish [5]", { { -3, 3, 0, 9, -9 } }, { { 0, 1, .5, 1, 0 } }, { 0 } },
	{ "logsigmoid [3]", { { 0, -INF, INF } }, { { .5, 1, 0 } }, { 0 } },
	{ "selu [2]", { { 900, 0 } }, { { 1.0507009873554804934, 1.7580993408473768600 } }, { 0 } },
	{ "mish [2]", { { 900, 0 } }, { { 1, .6 } }, { 0 } },
	{ "softsign [2]", { { 0, 1 } }, { { 1, .25 } }, { 0 } },
	{ "prelu [3] [1]", { { 0, 2, -3 }, { .5 } }, { { .5, 1, .5 }, { -3 } }, { 0 } },
	{ "silu|gelu|gelu_tanh []", { { 0 } }, { { .5 } }, { 0 } },
	{ "div [3] [3]", { { 1, 0, 6 }, { 0, 0, 2 } }, { { INF, INF, .5 }, { -INF, NAN, -1.5 } }, { 0 } },
	{ "remainder [2] [2]", { { 5.5, -5.5 }, { 2, 2 } }, { { 1, 1 }, { -2, 3 } }, { 0 } },
	{ "fmod [2] [2]", { { 5.5, -5.5 }, { 2, 2 } }, { { 1, 1 }, { -2, 2 } }, { 0 } },
	{ "clamp [6] [] []", { { 1, 2, 3, 0, 5, NAN }, { 1 }, { 3 } }, { { 1, 1, 1, 0, 0, 0 }, { 1 }, { 1 } }, { 0 } },
	{ "clamp [3] [3] [3]",
	  { { 1, 2, 1 }, { 3, 2, 2 }, { 2, 2, 2 } },
	  { { 0, 1, 0 }, { 0, 0, 1 }, { 1, 0, 0 } },
	  { 0 } }, /* bounds that cross, that meet */
	{ "prod [3] ; 0", { { 2, 3, 4 } }, { { 12, 8, 6 } }, { 0 } },
	{ "prod [3] ; 0 0", { { 2, 0, 4 } }, { { 0, 8, 0 } }, { 0 } },
	{ "prod [3] ; 0 0", { { 0, INF, 4 } }, { { INF, 0, 0 } }, { 0 } }, /* PyTorch: NaN by the last one, 0 * inf */
	{ "prod [3] ; 0 0", { { 0, 0, INF } }, { { 0, 0, 0 } }, { 0 } },   /* PyTorch: NaN by both zeros */
	{ "prod [3] ; 0", { { -0.0, 0, 4 } }, { { 0, 0, 0 } }, { 0 } },
	{ "prod [2,3] ; 1 1", { { 2, 0, 4, 1, 2, 3 } }, { { 0, 8, 0, 18, 9, 6 } }, { 1, 3 } },
	{ "prod [] ; 0", { { 0 } }, { { 1 } }, { 0 } },
	{ "logsumexp [2] ; 0", { { -INF, 0 } }, { { 0, 1 } }, { 0 } },
	{ "logsumexp [2] ; 0", { { -INF, -INF } }, { { 0, 0 } }, { 0 } }, /* PyTorch: NaN */
	{ "logsumexp [2] ; 1", { { INF, 0 } }, { { NAN, 0 } }, { 0 } },
	{ "logsumexp [2] ; 0 0", { { NAN, 0 } }, { { NAN, NAN } }, { 0 } },
	{ "softmax [3] ; 0", { { -INF, 0, 0 } }, { { 0, -.5, .5 } }, { 1, 2, 4 } },
	{ "softmax|log_softmax [2] ; 0", { { -INF, -INF } }, { { NAN, NAN } }, { 1, 2 } },
	{ "log_softmax [3] ; 0", { { -INF, 0, 0 } }, { { 1, -1.5, .5 } }, { 1, 2, 4 } },
	{ "cross_entropy [2,3] i3[2]", { { -INF, 0, 0, -INF, 0, 0 }, { 1, 0 } }, { { 0, -.25, .25, -.5, .25, .25 } }, { 0 } },
	{ "var [1] ![] ; 0", { { 3 }, { 1 } }, { { NAN } }, { 0 } },
	{ "var [2] ![] ; 0", { { 3, 5 }, { 0.5 } }, { { -4 / 3.0, 4 / 3.0 } }, { 0 } },
	{ "gather [2] i2[3] ; 0", { { 5, 6 }, { 1, 1, 0 } }, { { 4, 3 } }, { 1, 2, 4 } },
	{ "index_select [2] i2[3] ; 0", { { 5, 6 }, { 1, 1, 0 } }, { { 4, 3 } }, { 1, 2, 4 } },
	{ "embedding [2,2] i2[3]", { { 5, 6, 7, 8 }, { 1, 1, 1 } }, { { 0, 0, 3, 7 } }, { 1, 2, 1, 1, 1, 4 } },
	{ "scatter_add [2] i2[3] [3] ; 0", { { 5, 6 }, { 1, 1, 0 }, { 7, 8, 9 } }, { { 1, 2 }, { 2, 2, 1 } }, { 1, 2 } },
	{ "scatter [3] i3[4] [4] ; 0", { { 5, 6, 7 }, { 1, 1, 0, 1 }, { 7, 8, 9, 3 } }, { { 0, 0, 4 }, { 0, 0, 1, 2 } }, { 1, 2, 4 } },
	{ "scatter_prod [2] i2[3] [3] ; 0", { { 5, 6 }, { 1, 1, 0 }, { 7, 0, 9 } }, { { 9, 0 }, { 0, 84, 5 } }, { 1, 2 } },
	{ "scatter_prod [2] i2[3] [3] ; 0", { { 0, 6 }, { 1, 1, 0 }, { 0, 0, 9 } }, { { 9, 0 }, { 0, 0, 0 } }, { 1, 2 } },
	{ "scatter_amax [3] i3[4] [4] ; 0", { { 5, 6, 7 }, { 1, 1, 0, 1 }, { 6, 6, 9, 3 } }, { { 0, 1, 4 }, { 1, 1, 1, 0 } }, { 1, 3, 4 } },
	{ "scatter_amin [2] i2[3] [3] ; 0", { { 5, -INF }, { 0, 1, 0 }, { 6, -INF, 4 } }, { { 0, 1 }, { 0, 1, 8 } }, { 8, 2 } },
	{ "%0 = input f64[2] slot=0\n%1 = mul f64[2] %0 %0\n%2 = add f64[2] %1 %0\nret %2", { { 3, 4 } }, { { 7, 9 } }, { 0 } },
};

static bool alike(double a, double b) { return isnan(b) ? isnan(a) : a == b || fabs(a - b) <= 1e-15 * fabs(b); }

static void put_values(const gen_slot *s, const double *v)
{
	int64_t n = 0;
	const tj_dtype t = (tj_dtype)s->meta.dtype;
	rt_numel(s->meta.rank, s->meta.dim, &n);
	for (int64_t i = 0; i < n; i++)
		ir_store(t, (char *)s->data + i * (int64_t)tj_dtype_size(t), ir_cast_scalar((ir_scalar){ .d = v[i] }, TJ_F64, t));
}

static void open_special(trial *t, const special *s, const kase *k)
{
	if (*s->text == '%') {
		open_graph(t, s->text);
		return;
	}
	*t = (trial){ 0 };
	gen_init(&t->G, &t->g, 1);
	t->G.layout = GEN_ROW;
	add_case(t, k, TJ_F64);
}

static void check_special(const special *s, const kase *k, const char *name)
{
	static const double zeros[FEW];
	double got[FEW];
	trial t;
	ir_ref grad[MOST];
	open_special(&t, s, k);
	for (uint32_t i = 0; i < t.G.slot.n; i++) put_values(&t.G.slot.v[i], s->operand[i]);
	const ir_meta m = ir_meta_of(&t.g, t.y);
	const bool ones = !memcmp(s->dy, zeros, sizeof zeros);
	const ir_grad_ask q = { .y = t.y, .cotangent = ones ? IR_NONE : ir_data_(&t.g, &m, s->dy, NULL), .n = t.nwrt, .wrt = t.wrt };
	gradients(&t.g, &q, grad, name);
	for (int i = 0; i < t.nwrt; i++) {
		evaluate(&t, &t.g, 1, &grad[i], (void *[]){ got });
		for (int64_t e = 0; e < ir_numel(&t.g, grad[i]); e++)
			if (!alike(got[e], s->grad[i][e])) fail_msg("%s: gradient %d, element %d is %g, not %g", name, i, (int)e, got[e], s->grad[i][e]);
	}
	close_trial(&t);
}

static void special_values(void **state)
{
	char name[100];
	kase k = { 0 };
	(void)state;
	for (size_t i = 0; i < RT_COUNT(specials); i++) {
		const special *s = &specials[i];
		if (*s->text == '%') check_special(s, &k, s->text);
		for (int w = 0; *s->text != '%' && read_case(s->text, w, TJ_F64, &k); w++) {
			title(name, sizeof name, &k, s->text);
			check_special(s, &k, name);
		}
	}
}

/* ---- requests ---- */
/* Gradients of the first output by the nodes of wrt. */
static bool ask(ir_graph *g, const char *text, int n, const ir_ref *wrt, bool zeros, ir_ref *out)
{
	*g = parsed(text);
	return ir_grad(g, &(ir_grad_ask){ .y = g->out.v[0], .cotangent = IR_NONE, .n = n, .wrt = wrt, .zeros = zeros, .site = "here.c:9" }, out);
}

static void check_zeros(const ir_graph *g, ir_ref r)
{
	const ir_node *n = ir_at(g, r);
	assert_int_equal(n->op, IR_const);
	assert_true(ir_cast_scalar(ir_const_value(g, n), (tj_dtype)n->dtype, TJ_F64).d == 0);
}

static void errors(void **state)
{
	static const struct { const char *text, *message; int n; ir_ref wrt[2];
	} refused[] = {
		{ "%0 = input f32[2] slot=0\n%1 = input f32[3] slot=1\n%2 = neg f32[2] %0\nret %2",
		  "does not depend on tensor 1",
		  2,
		  { 0, 1 } },
		{ "%0 = input f32[2] slot=0\n%1 = neg f32[2] %0\n%2 = exp f32[2] %0\nret %1", "does not depend on tensor 0", 1, { 2 } },
		{ "%0 = input f32[2] slot=0\n%1 = cast i64[2] %0 dtype=i64\n%2 = cast f32[2] %1 dtype=f32\nret %2",
		  "does not depend on tensor 0",
		  1,
		  { 0 } },
		{ "%0 = input f32[2] slot=0\n%1 = input f32[2] slot=1\n%2 = gt bool[2] %0 %1\n%3 = where f32[2] %2 %1 %1\n"
		  "%4 = cast f32[2] %2 dtype=f32\n%5 = add f32[2] %4 %1\nret %5",
		  "does not depend on tensor 1",
		  2,
		  { 1, 0 } },
	};
	ir_ref out[2];
	ir_graph g;
	(void)state;
	for (size_t i = 0; i < RT_COUNT(refused); i++) {
		assert_false(ask(&g, refused[i].text, refused[i].n, refused[i].wrt, false, out));
		if (!strstr(g.err.message, refused[i].message)) fail_msg("\"%s\" is not in \"%s\"", refused[i].message, g.err.message);
		assert_int_equal(g.err.code, TJ_ERR_ARG);
		assert_string_equal(g.err.site, "here.c:9");
		ir_graph_free(&g);
		assert_true(ask(&g, refused[i].text, refused[i].n, refused[i].wrt, true, out));
		check_types(&g, refused[i].n, refused[i].wrt, out, refused[i].text);
		check_zeros(&g, out[refused[i].n - 1]);
		ir_graph_free(&g);
	}
}

static void endless(void **state)
{
	static const char *const text =
		"%0 = input f32[3] slot=0\n%1 = while %0 max_turns=0\n  cond:\n    %0 = input f32[3] slot=0\n    %1 = sum f32[] %0 keepdim=0\n"
		"    %2 = const f32[] 1\n"
		"    %3 = lt bool[] %1 %2\n    ret %3\n  body:\n    %0 = input f32[3] slot=0\n    %1 = add f32[3] %0 %0\n    ret %1\n"
		"%2 = get f32[3] %1 i=0\nret %2";
	ir_ref out;
	ir_graph g;
	(void)state;
	assert_false(ask(&g, text, 1, (ir_ref[]){ 0 }, true, &out));
	assert_int_equal(g.err.code, TJ_ERR_ARG);
	if (!strstr(g.err.message, "while: it has no gradient")) fail_msg("%s", g.err.message);
	ir_graph_free(&g);
}

/* By the value itself, twice by the same one, by a value on the way; 0 is a gradient, too. */
static void requests(void **state)
{
	static const char *const text =
		"%0 = input f32[2] slot=0\n%1 = neg f32[2] %0\n%2 = floor f32[2] %0\n%3 = exp f32[2] %1\n%4 = add f32[2] %3 %2\nret %4";
	ir_ref out[2];
	ir_graph g;
	(void)state;
	assert_true(ask(&g, text, 2, (ir_ref[]){ 4, 4 }, false, out));
	assert_int_equal(out[0], out[1]);
	assert_int_equal(ir_at(&g, out[0])->op, IR_const);
	ir_graph_free(&g);
	assert_true(ask(&g, text, 2, (ir_ref[]){ 1, 0 }, false, out));
	assert_int_equal(out[0], 3); /* exp(%1) */
	assert_int_equal(ir_at(&g, out[1])->op, IR_neg);
	ir_graph_free(&g);
	assert_true(ask(&g, "%0 = input f32[2] slot=0\n%1 = floor f32[2] %0\nret %1", 1, (ir_ref[]){ 0 }, false, out));
	check_zeros(&g, out[0]);
	ir_graph_free(&g);
}

/* Of each case, the k-th allocation of ir_grad fails, for each k. */
static int without_memory(const kase *k, const char *text)
{
	int refused = 0;
	for (long long i = 0;; i++) {
		rt_err err = { 0 };
		trial t = { 0 };
		ir_ref out[MOST];
		gen_init(&t.G, &t.g, 1);
		if (!text) add_case(&t, k, TJ_F16);
		else if (ir_parse(&t.g, text, &err) != TJ_OK) fail_msg("%s", err.message);
		else t.y = t.g.out.v[0], t.nwrt = 1;
		rt_alloc_fail_at(i);
		const bool ok = ir_grad(&t.g, &(ir_grad_ask){ .y = t.y, .cotangent = IR_NONE, .n = t.nwrt, .wrt = t.wrt }, out),
			   reached = rt_alloc_count() > i;
		rt_alloc_fail_at(-1);
		const tj_status st = ok ? TJ_OK : t.g.err.code;
		close_trial(&t);
		assert_true(st == TJ_OK || (reached && st == TJ_ERR_NOMEM));
		refused += st != TJ_OK;
		if (!reached) return refused;
	}
}

static void no_memory(void **state)
{
	static const char *const slices =
		"%0 = input f32[4,6] slot=0\n%1 = slice f32[4,2] %0 axis=1 start=0 stop=2 step=1\n%2 = slice f32[4,2] %0 axis=1 start=3 stop=5 step=1\n"
		"%3 = gelu f32[4,2] %1\n%4 = mul f32[4,2] %3 %2\n%5 = prod f32[4] %4 keepdim=0 axes=1\nret %5";
	static const char *const loop =
		"%0 = input f32[3] slot=0\n%1 = input f32[3] slot=1\n%2 = const i64[] 0\n%3 = while %2 %0 %1 max_turns=4\n  cond:\n"
		"    %0 = input i64[] slot=0\n    %1 = const i64[] 3\n"
		"    %2 = lt bool[] %0 %1\n    ret %2\n  body:\n    %0 = input i64[] slot=0\n    %1 = input f32[3] slot=1\n"
		"    %2 = input f32[3] slot=2\n    %3 = const i64[] 1\n"
		"    %4 = add i64[] %0 %3\n    %5 = mul f32[3] %1 %2\n    %6 = tanh f32[3] %5\n    ret %4 %6\n%4 = get f32[3] %3 i=1\nret %4";
	int refused = without_memory(NULL, slices) + without_memory(NULL, loop);
	kase k;
	(void)state;
	for (size_t c = 0; c < RT_COUNT(cases); c++)
		for (int w = 0; read_case(cases[c], w, TJ_F16, &k); w++)
			refused += without_memory(&k, NULL);
	assert_true(refused > 1000);
}

/* Nothing recurses over the graph. */
static void deep(void **state)
{
	enum { DEEP = 20000 };
	ir_graph g;
	ir_ref out;
	const ir_meta m = { .dtype = TJ_F64 };
	double x = 1, dx;
	rt_err err = { 0 };
	(void)state;
	ir_graph_init(&g);
	const ir_ref first = ir_input(&g, 0, &m, NULL, NULL);
	ir_ref r = first;
	for (int i = 0; i < DEEP; i++) r = ir_op2(&g, IR_add, r, first, NULL);
	assert_true(ir_grad(&g, &(ir_grad_ask){ .y = r, .cotangent = IR_NONE, .n = 1, .wrt = &first }, &out));
	ir_ret(&g, out);
	assert_int_equal(ir_eval(&g, (const void *[]){ &x }, NULL, NULL, (void *[]){ &dx }, NULL, &err), TJ_OK);
	assert_true(dx == DEEP + 1);
	ir_graph_free(&g);
}

int main(void)
{
	mock_device(); /* a case names it */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences), cmocka_unit_test(whole_graphs),   cmocka_unit_test(composites), cmocka_unit_test(narrow),
		cmocka_unit_test(compiled),    cmocka_unit_test(special_values), cmocka_unit_test(errors),     cmocka_unit_test(endless),
		cmocka_unit_test(requests),    cmocka_unit_test(no_memory),      cmocka_unit_test(deep),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
