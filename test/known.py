# SPDX-License-Identifier: MIT
"""Values of layers from PyTorch, for test/unit/known.inc:  python3 test/known.py > test/unit/known.inc

The operands are value(i, salt) of test/layers.h, so that only results are stored. Needs torch; the tests do not."""
import math
import textwrap

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
print("/* SPDX-License-Identifier: MIT */")
print("/* Made by test/known.py with PyTorch %s; f64. */" % torch.__version__.split("+")[0])


def x(salt, *shape):
    n = math.prod(shape)
    return torch.tensor([((i * 7919 + salt * 104729 + 17) % 241 - 120) / 100 for i in range(n)]).reshape(shape)


def known(name, t):
    v = ["NAN" if a != a else ("-" if a < 0 else "") + "INFINITY" if math.isinf(a) else "%.17g" % a for a in t.flatten().tolist()]
    text = "static const double known_%s[] = { %s };" % (name, ", ".join(v))
    print(textwrap.fill(text, 140, subsequent_indent="\t", break_long_words=False, break_on_hyphens=False))


# ---- norms ----
mean, var = x(3, 3).clone(), x(4, 3).abs() + 0.5
known("batch_norm", F.batch_norm(x(0, 4, 3, 2, 3), mean, var, x(1, 3), x(2, 3), True, 0.1, 1e-5))
known("batch_mean", mean)
known("batch_var", var)
known("batch_norm_later", F.batch_norm(x(0, 4, 3, 2, 3), mean, var, x(1, 3), x(2, 3), False, 0.1, 1e-3))
known("batch_norm_2", F.batch_norm(x(0, 5, 3), None, None, None, None, True))
mean, var = x(3, 3).clone(), x(4, 3).abs() + 0.5
known("instance_norm", F.instance_norm(x(0, 4, 3, 2, 3), mean, var, x(1, 3), x(2, 3), True, 0.3, 1e-5))
known("instance_mean", mean)
known("instance_var", var)
known("instance_norm_later", F.instance_norm(x(0, 4, 3, 2, 3), mean, var, x(1, 3), x(2, 3), False))
known("instance_norm_alone", F.instance_norm(x(0, 2, 3, 5)))
known("group_norm", F.group_norm(x(0, 2, 6, 2, 2), 3, x(1, 6), x(2, 6), 1e-5))
known("group_norm_2", F.group_norm(x(0, 2, 6), 2, None, None, 1e-3))
known("layer_norm", F.layer_norm(x(0, 3, 2, 4), (2, 4), x(1, 2, 4), x(2, 2, 4), 1e-5))
known("layer_norm_alone", F.layer_norm(x(0, 3, 2, 4), (2, 4), None, None, 1e-5))
known("rms_norm", x(0, 3, 2, 4) * torch.rsqrt(x(0, 3, 2, 4).square().mean((1, 2), keepdim=True) + 1e-3) * x(1, 2, 4))
known("local_response_norm", F.local_response_norm(x(0, 2, 5, 3), 3, 0.3, 0.75, 1.5))
known("local_response_norm_4", F.local_response_norm(x(0, 2, 6, 2, 2), 4, 0.5, 0.5, 1.0))

# ---- attention ----
q, k, v = x(0, 2, 3, 4, 5), x(1, 2, 3, 6, 5), x(2, 2, 3, 6, 3)
yes = x(3, 2, 1, 4, 6) > -0.5
known("attention", F.scaled_dot_product_attention(q, k, v))
known("attention_bool", F.scaled_dot_product_attention(q, k, v, yes))
known("attention_float", F.scaled_dot_product_attention(q, k, v, x(3, 4, 6)))
known("attention_causal", F.scaled_dot_product_attention(q, k, v, is_causal=True))
known("attention_last", F.scaled_dot_product_attention(q, k, v, torch.ones(4, 6, dtype=torch.bool).tril(2)))
known("attention_scale", F.scaled_dot_product_attention(q, k, v, scale=0.7))
known("attention_2d", F.scaled_dot_product_attention(x(0, 4, 5), x(1, 6, 5), x(2, 6, 3)))
known("attention_grouped", F.scaled_dot_product_attention(x(0, 2, 6, 4, 5), *[t.repeat_interleave(2, 1) for t in (k, v)], x(3, 6, 4, 6)))

def many_heads(q, k, v, heads, **o):
    e = q.shape[-1]
    q, k, v = [t.transpose(0, 1) for t in (q, k, v)]
    bias_k, bias_v = o.pop("bias_k", None), o.pop("bias_v", None)
    y = F.multi_head_attention_forward(q, k, v, e, heads, x(3, 3 * e, e), x(4, 3 * e), bias_k, bias_v, False, 0.0, x(5, e, e), x(6, e),
                                       need_weights=False, **o)
    return y[0].transpose(0, 1)


q, k, v = x(0, 2, 4, 6), x(1, 2, 5, 6), x(2, 2, 5, 6)
padding = torch.tensor([[False, False, False, True, True], [False, True, False, False, False]])
known("heads", many_heads(q, k, v, 2))
known("heads_self", many_heads(q, q, q, 3, attn_mask=torch.ones(4, 4, dtype=torch.bool).triu(1)))
known("heads_padding", many_heads(q, k, v, 2, key_padding_mask=padding))
known("heads_mask", many_heads(q, k, v, 2, key_padding_mask=padding, attn_mask=x(7, 4, 4, 5)))
known("heads_bool", many_heads(q, k, v, 2, attn_mask=x(7, 4, 5) < -0.5))
known("heads_bias", many_heads(q, k, v, 2, key_padding_mask=padding, bias_k=x(8, 1, 1, 6), bias_v=x(9, 1, 1, 6)))

# ---- losses ----
a, b = x(0, 4, 3), x(1, 4, 3)
p, t = torch.sigmoid(a), torch.sigmoid(b)
sign = torch.where(b > 0, 1.0, -1.0)
for r in ("none", "mean", "sum"):
    known("mse_" + r, F.mse_loss(a, b, reduction=r))
known("l1", F.l1_loss(a, b))
known("smooth_l1", F.smooth_l1_loss(a, b, beta=0.5, reduction="none"))
known("huber", F.huber_loss(a, b, delta=0.5, reduction="none"))
known("bce", F.binary_cross_entropy(p, t, x(2, 3).abs(), reduction="none"))
known("bce_ends", F.binary_cross_entropy(torch.tensor([0.0, 1, 0, 1]), torch.tensor([0.0, 1, 1, 0]), reduction="none"))
known("bce_logits", F.binary_cross_entropy_with_logits(a * 9, t, x(2, 3).abs(), pos_weight=x(3, 3).abs(), reduction="none"))
known("kl", F.kl_div(a, t, reduction="batchmean"))
known("kl_log", F.kl_div(a, b, reduction="none", log_target=True))
known("kl_zero", F.kl_div(a[0], torch.tensor([0.0, 0.5, 0.5]), reduction="none"))
known("poisson", F.poisson_nll_loss(a, t * 5, True, full=True, reduction="none"))
known("poisson_plain", F.poisson_nll_loss(p, t * 5, False, eps=1e-3, reduction="sum"))
known("gaussian", F.gaussian_nll_loss(a, b, p, full=True, reduction="none"))
known("gaussian_row", F.gaussian_nll_loss(a, b, p[:, :1], eps=0.5))
known("hinge", F.hinge_embedding_loss(a, sign, margin=0.5, reduction="none"))
known("soft_margin", F.soft_margin_loss(a, sign, reduction="none"))
known("ranking", F.margin_ranking_loss(a, b, sign.flip(0), margin=0.2, reduction="none"))
known("cosine", F.cosine_embedding_loss(a, b, torch.tensor([1, -1, -1, 1]), margin=0.1, reduction="none"))
known("triplet", F.triplet_margin_loss(a, b, x(2, 4, 3), margin=1.0, reduction="none"))
known("triplet_swap", F.triplet_margin_loss(a, b, x(2, 4, 3), margin=1.5, p=3, swap=True, reduction="none"))
c, y, w = x(0, 3, 4, 2), torch.tensor([[0, 3], [2, 2], [1, 0]]), x(5, 4).abs() + 0.1
known("nll", F.nll_loss(c, y, w))
known("nll_ignore", F.nll_loss(c, y, w, ignore_index=2, reduction="none"))
known("nll_one", F.nll_loss(x(0, 4), torch.tensor(2)))
known("ce", F.cross_entropy(c, y))
known("ce_rows", F.cross_entropy(x(0, 3, 4), y[:, 0]))
known("ce_all", F.cross_entropy(c, y, w, ignore_index=2, label_smoothing=0.2))
known("ce_smooth", F.cross_entropy(c, y, label_smoothing=0.2, ignore_index=2, reduction="none"))
known("ce_sum", F.cross_entropy(c, y, w, label_smoothing=0.1, reduction="sum"))
known("ce_probable", F.cross_entropy(c, torch.softmax(x(1, 3, 4, 2), 1), w, label_smoothing=0.3))
known("multi_margin", F.multi_margin_loss(x(0, 3, 4), y[:, 1], p=2, margin=0.8, weight=w, reduction="none"))
known("multi_margin_one", F.multi_margin_loss(x(0, 4), torch.tensor(2)))
many = torch.tensor([[3, 0, -1, 1], [-1, 2, 2, 2], [1, 2, 3, 0]])
known("multilabel_margin", F.multilabel_margin_loss(x(0, 3, 4), many, reduction="none"))
known("multilabel_soft", F.multilabel_soft_margin_loss(x(0, 3, 4), (x(1, 3, 4) > 0).double(), w, reduction="none"))

# ---- linear layers, cells, bags ----
known("linear", F.linear(x(0, 2, 3, 4), x(1, 5, 4), x(2, 5)))
known("bilinear", F.bilinear(x(0, 3, 4), x(1, 3, 2), x(2, 5, 4, 2), x(3, 5)))
for name, gates, make in (("rnn", 1, torch.nn.RNNCell), ("lstm", 4, torch.nn.LSTMCell), ("gru", 3, torch.nn.GRUCell)):
    cell = make(4, 5)
    with torch.no_grad():
        for salt, w in enumerate((cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)):
            w.copy_(x(3 + salt, *w.shape))
        if name == "lstm":
            h, c = cell(x(0, 3, 4), (x(1, 3, 5), x(2, 3, 5)))
            known("lstm_h", h)
            known("lstm_c", c)
        else:
            known(name, cell(x(0, 3, 4), x(1, 3, 5)))
        if name == "rnn":
            cell.nonlinearity = "relu"
            known("rnn_relu", cell(x(0, 3, 4), x(1, 3, 5)))
ids, table, starts = torch.tensor([[1, 0, 4], [2, 2, 4]]), x(0, 5, 3), torch.tensor([0, 2, 2, 5])
for mode in ("sum", "mean", "max"):
    known("bag_" + mode, F.embedding_bag(ids, table, mode=mode))
    known("bag_pads_" + mode, F.embedding_bag(ids, table, mode=mode, padding_idx=4))
    known("bag_offsets_" + mode, F.embedding_bag(ids.flatten(), table, starts, mode=mode))
    known("bag_offsets_pads_" + mode, F.embedding_bag(ids.flatten(), table, starts, mode=mode, padding_idx=2))
known("bag_weights", F.embedding_bag(ids, table, mode="sum", per_sample_weights=x(1, 2, 3)))
known("bag_offsets_weights", F.embedding_bag(ids.flatten(), table, starts, mode="sum", per_sample_weights=x(1, 6)))

# ---- shuffles, columns, pools ----
known("pixel_shuffle", F.pixel_shuffle(x(0, 2, 8, 2, 3), 2))
known("pixel_unshuffle", F.pixel_unshuffle(x(0, 2, 2, 4, 6), 2))
known("channel_shuffle", torch.nn.ChannelShuffle(2)(x(0, 2, 6, 2, 2)))
opts = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2))
cols = F.unfold(x(0, 2, 3, 5, 6), (3, 2), **opts)
known("im2col", cols)
known("col2im", F.fold(x(1, *cols.shape), (5, 6), (3, 2), **opts))
known("lp_pool", F.lp_pool2d(x(0, 2, 3, 5, 6), 2, (3, 2), stride=2, ceil_mode=True))
known("lp_pool_1d", F.lp_pool1d(x(0, 2, 3, 7).abs(), 3, 3, stride=2))
y, at = F.max_pool2d(x(0, 2, 3, 5, 6), (3, 2), (2, 1), (1, 0), (1, 2), return_indices=True)
known("pool", y)
known("pool_at", at)
y, at = F.max_pool2d(x(0, 2, 3, 5, 6), 2, return_indices=True)
known("unpool", F.max_unpool2d(y, at, 2, output_size=(5, 6)))
y, at = F.max_pool3d(x(0, 3, 4, 5, 6), 2, 2, return_indices=True)
known("pool_3d_at", at)

# ---- interpolate, grid_sample ----
a = x(0, 1, 2, 5, 4)
known("resize_nearest", F.interpolate(a, (8, 3)))
known("resize_exact", F.interpolate(a, (8, 3), mode="nearest-exact"))
known("resize_area", F.interpolate(a, (3, 3), mode="area"))
known("resize_scale", F.interpolate(a, scale_factor=(1.7, 0.8), mode="bilinear"))
known("resize_scale_nearest", F.interpolate(a, scale_factor=(1.7, 0.8)))
for name, mode in (("linear", "bilinear"), ("cubic", "bicubic")):
    for align in (0, 1):
        known("resize_%s_%d" % (name, align), F.interpolate(a, (8, 3), mode=mode, align_corners=bool(align)))
        known("resize_%s_anti_%d" % (name, align),
              F.interpolate(x(0, 1, 2, 9, 7), (4, 8), mode=mode, align_corners=bool(align), antialias=True))
known("resize_1d", F.interpolate(x(0, 2, 1, 4), 7, mode="linear"))
known("resize_3d", F.interpolate(x(0, 1, 1, 3, 2, 4), (2, 5, 3), mode="trilinear", align_corners=True))
known("resize_one", F.interpolate(a, (1, 1), mode="bilinear", align_corners=True))
grid = x(1, 2, 3, 4, 2) * 1.3
for name, mode in (("linear", "bilinear"), ("nearest", "nearest"), ("cubic", "bicubic")):
    for padding in ("zeros", "border", "reflection"):
        for align in (0, 1):
            known("grid_%s_%s_%d" % (name, padding, align), F.grid_sample(x(0, 2, 3, 4, 5), grid, mode, padding, bool(align)))
known("grid_3d", F.grid_sample(x(0, 2, 1, 3, 4, 2), x(1, 2, 2, 3, 1, 3) * 1.2, "bilinear", "reflection", False))
known("grid_one", F.grid_sample(x(0, 1, 1, 1, 3), x(1, 1, 2, 2, 2) * 1.3, "bilinear", "reflection", True))
for align in (0, 1):
    known("affine_%d" % align, F.affine_grid(x(0, 2, 2, 3), (2, 1, 3, 4), bool(align)))
    known("affine_3d_%d" % align, F.affine_grid(x(0, 1, 3, 4), (1, 1, 2, 3, 1), bool(align)))

# ---- ctc ----
lp = torch.log_softmax(x(0, 8, 3, 5) * 2, 2)
lab, steps, count = torch.tensor([[1, 2, 2, 3], [4, 1, 0, 0], [3, 3, 3, 3]]), torch.tensor([8, 5, 6]), torch.tensor([4, 2, 4])
known("ctc", F.ctc_loss(lp, lab, steps, count, reduction="none"))
known("ctc_zero", F.ctc_loss(lp, lab, steps, count, zero_infinity=True))
labels = torch.tensor([[1, 4, 3], [0, 1, 4], [3, 3, 1]])
known("ctc_blank", F.ctc_loss(lp, labels, torch.tensor([8, 8, 7]), torch.tensor([3, 0, 2]), blank=2, reduction="sum"))
