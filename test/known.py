"""Values of layers from PyTorch, for test/unit/known.inc:  python3 test/known.py > test/unit/known.inc

The operands are value(i, salt) of test/layers.h, so that only results are stored. Needs torch; the tests do not."""
import math
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
print("/* Made by test/known.py with PyTorch %s; f64. */" % torch.__version__.split("+")[0])


def x(salt, *shape):
    n = math.prod(shape)
    return torch.tensor([((i * 7919 + salt * 104729 + 17) % 241 - 120) / 100 for i in range(n)]).reshape(shape)


def known(name, t):
    v = t.flatten().tolist()
    print("static const double known_%s[] = { %s };" % (name, ", ".join("NAN" if a != a else ("-" if a < 0 else "") + "INFINITY" if math.isinf(a) else "%.17g" % a for a in v)))


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
