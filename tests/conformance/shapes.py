"""Views, permutations, joins."""

import triton
import triton.language as tl

from cases import buf, case, out

M, K = 16, 32


@triton.jit
def moved(a, b, o, OP: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    x = tl.load(a + i * K + j)
    y = tl.load(b + i * K + j)
    at = tl.arange(0, M * K)
    if OP == "trans":
        tl.store(o + tl.arange(0, K)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(x))
    elif OP == "reshape":
        tl.store(o + at, tl.reshape(x, (M * K,)))
    elif OP == "reshape_two":
        tl.store(o + tl.arange(0, K)[:, None] * M + tl.arange(0, M)[None, :], tl.reshape(x, (K, M)) + 1)
    elif OP == "ravel":
        tl.store(o + at, tl.ravel(x + y))
    elif OP == "permute":
        z = tl.permute(tl.reshape(x, (M, 4, K // 4)), (1, 2, 0))
        p = (tl.arange(0, 4)[:, None, None] * (K // 4) + tl.arange(0, K // 4)[None, :, None]) * M + tl.arange(0, M)[None, None, :]
        tl.store(o + p, z)
    elif OP == "join":
        z = tl.join(x, y)
        tl.store(o + (i * K + j)[:, :, None] * 2 + tl.arange(0, 2)[None, None, :], z)
    elif OP == "interleave":
        tl.store(o + i * 2 * K + tl.arange(0, 2 * K)[None, :], tl.interleave(x, y))
    elif OP == "split":
        u, v = tl.split(tl.reshape(x, (M, K // 2, 2)))
        p = o + i * (K // 2) + tl.arange(0, K // 2)[None, :]
        tl.store(p, u - v)
        tl.store(p + M * K // 2, v)
    elif OP == "flip":
        tl.store(o + i * K + j, tl.flip(x, 1))
    elif OP == "broadcast":
        z = tl.broadcast_to(tl.sum(x, 1)[:, None], (M, K)) + tl.max(y, 0)[None, :]
        tl.store(o + i * K + j, z)
    elif OP == "expand":
        z = tl.expand_dims(tl.expand_dims(tl.max(x, 1), 0), 2)
        tl.store(o + tl.arange(0, 1)[:, None, None] + tl.arange(0, M)[None, :, None] + tl.arange(0, 1)[None, None, :], z)
    elif OP == "sort":
        tl.store(o + i * K + j, tl.sort(x, 1))
    elif OP == "sort_down":
        tl.store(o + i * K + j, tl.sort(x, 1, descending=True))
    elif OP == "topk":
        tl.store(o + i * 8 + tl.arange(0, 8)[None, :], tl.topk(x, 8, 1))
    elif OP == "swizzle":
        p, q = tl.swizzle2d(i, j, M, K, 4)
        tl.store(o + p * K + q, x)
    elif OP == "view_chain":
        z = tl.trans(tl.reshape(tl.trans(x), (M, K)))
        tl.store(o + tl.arange(0, K)[:, None] * M + tl.arange(0, M)[None, :], z * 2)


MOVES = ["trans", "reshape", "reshape_two", "ravel", "permute", "join", "interleave", "split", "flip", "broadcast", "expand", "sort",
         "sort_down", "topk", "swizzle", "view_chain"]
for op in MOVES:
    case(f"shape_{op}", moved, [buf("i32", M * K, "any"), buf("i32", M * K, "any"), out("i32", 2 * M * K)], OP=op, M=M, K=K)
for op in ["trans", "join", "interleave", "split", "sort", "flip"]:
    case(f"shape_{op}_fp16", moved, [buf("fp16", M * K, "normal"), buf("fp16", M * K, "normal"), out("fp16", 2 * M * K)], OP=op, M=M, K=K)
    for warps in [1, 8]:
        case(f"shape_{op}_{warps}warps", moved, [buf("fp32", M * K, "normal"), buf("fp32", M * K, "normal"), out("fp32", 2 * M * K)], warps=warps, OP=op,
             M=M, K=K)
for op in ["trans", "permute", "join", "split"]:
    case(f"shape_{op}_i8", moved, [buf("i8", M * K, "any"), buf("i8", M * K, "any"), out("i8", 2 * M * K)], OP=op, M=M, K=K)


@triton.jit
def catenated(a, b, o, N: tl.constexpr):
    at = tl.arange(0, N)
    z = tl.cat(tl.load(a + at), tl.load(b + at), can_reorder=True)
    tl.store(o, tl.sum(z, 0))
    tl.store(o + 1, tl.max(z, 0))


case("cat", catenated, [buf("i32", 256, "any"), buf("i32", 256, "any"), out("i32", 2)], N=256)


@triton.jit
def zeros(o, M: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    j = tl.arange(0, K)[None, :]
    tl.store(o + i * K + j, tl.zeros((M, K), tl.float32) + tl.full((M, K), 2.5, tl.float32))
    tl.store(o + M * K + i * K + j, (i + j).to(tl.float32))


case("constants", zeros, [out("fp32", 2 * M * K)], M=M, K=K)
