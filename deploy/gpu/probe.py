#!/usr/bin/env python3
"""Measures what a GPU can do: large products, copies, and the operations that internal/model/torch and internal/neighbors/knn/device issue,
beside what could replace them. Sizes are those of preset base with 96 pairs, and of a group's tile. Numbers are medians of
milliseconds, by events. With --small it shows on a processor that it runs, and no more."""

import argparse
import json
import time

import torch
import torch.nn.functional as F

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("--device", default="cuda")
p.add_argument("--small", action="store_true")
p.add_argument("--out", default="")
p.add_argument("--only", default="", help="sections, comma separated: " + "ceilings,attention,block,adamw,select,tile,launch,copies")
a = p.parse_args()
dev, cuda = torch.device(a.device), a.device.startswith("cuda")
torch.manual_seed(1)
results = {}
B, L, H, D = (96, 257, 12, 64) if not a.small else (2, 17, 2, 8)
W, M = H * D, 4 * H * D


def sync():
    if cuda:
        torch.cuda.synchronize()


def timed(fn, warm=3, turns=15):
    for _ in range(warm):
        fn()
    sync()
    times = []
    for _ in range(turns if not a.small else 2):
        if cuda:
            x, y = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            x.record(); fn(); y.record(); y.synchronize()
            times.append(x.elapsed_time(y))
        else:
            t = time.perf_counter(); fn(); times.append(1e3 * (time.perf_counter() - t))
    return sorted(times)[len(times) // 2]


def row(name, ms, note=""):
    results[name] = ms
    print(f"{name:58s} {ms:9.3f} ms  {note}", flush=True)


def section(name):
    def run(fn):
        if a.only and name not in a.only.split(","):
            return
        try:
            fn()
        except Exception as e:  # a section that fails must not cost the others
            print(f"{name}: {type(e).__name__}: {e}", flush=True)
        if cuda:
            torch.cuda.empty_cache()
    return run


def randn(*shape, dtype=torch.bfloat16, grad=False):
    return torch.randn(*shape, device=dev, dtype=torch.float32).to(dtype).requires_grad_(grad)


@section("ceilings")
def _():
    n = 1 << (30 if not a.small else 16)
    x, y = torch.empty(n, device=dev, dtype=torch.float32).normal_(), torch.empty(n, device=dev, dtype=torch.float32)
    ms = timed(lambda: y.copy_(x)); row("copy", ms, f"{8 * n / ms / 1e9:.2f} TB/s read and written")
    del x, y
    s = 8192 if not a.small else 64
    shapes = [("square", s, s, s), ("vit fc1", B * L, W, M), ("vit fc2", B * L, M, W), ("vit qkv", B * L, W, 3 * W), ("vit proj", B * L, W, W), ("text fc1", 96 * 14, W, M)]
    for name, m, k, n in shapes:
        x, y = randn(m, k), randn(n, k)
        ms = timed(lambda: F.linear(x, y)); row(f"bf16 {name} {m}x{k}x{n}", ms, f"{2 * m * k * n / ms / 1e9:.0f} TFLOP/s")
    x, y = randn(s, s, dtype=torch.float32), randn(s, s, dtype=torch.float32)
    ms = timed(lambda: F.linear(x, y), 1, 3); row("float32 square", ms, f"{2 * s**3 / ms / 1e9:.0f} TFLOP/s: what PRECISION=float32 gets")
    torch.backends.cuda.matmul.allow_tf32 = True
    ms = timed(lambda: F.linear(x, y), 1, 3); row("tf32 square", ms, f"{2 * s**3 / ms / 1e9:.0f} TFLOP/s")
    torch.backends.cuda.matmul.allow_tf32 = False


def plain(q, k, v, mask=None):  # internal/model/torch/attention.hh, before PyTorch 2.4
    scores = torch.matmul(q, k.transpose(2, 3)).float() * D**-0.5
    if mask is not None:
        scores = scores + mask
    return torch.matmul(torch.softmax(scores, 3).to(torch.bfloat16), v)


def heads(packed, parts):
    return [x.reshape(x.size(0), x.size(1), H, D).transpose(1, 2) for x in packed.chunk(parts, 2)]


@section("attention")
def _():
    packed, g = randn(B, L, 3 * W, grad=True), randn(B, L, W)

    def forward(f):
        return f(*heads(packed, 3)).transpose(1, 2).reshape(B, L, W)

    def both(f):
        packed.grad = None
        forward(f).backward(g)

    def quiet(f):
        with torch.no_grad():
            forward(f)
    sdpa = F.scaled_dot_product_attention
    for name, f in (("plain", plain), ("sdpa", sdpa)):
        row(f"vit self-attention {name}, no grad", timed(lambda: quiet(f)))
        row(f"vit self-attention {name}, forward and back", timed(lambda: both(f)))
    n, t = (288, 14) if not a.small else (4, 5)
    q, kv, go = randn(n, t, W, grad=True), randn(n, L, 2 * W, grad=True), randn(n, t, W)

    def cross(f):
        q.grad = kv.grad = None
        qq = q.reshape(n, t, H, D).transpose(1, 2)
        f(qq, *heads(kv, 2)).transpose(1, 2).reshape(n, t, W).backward(go)
    for name, f in (("plain", plain), ("sdpa", sdpa)):
        row(f"cross-attention of 288 pairs {name}, forward and back", timed(lambda: cross(f)))


@section("block")
def _():
    # A ViT block as internal/model/torch issues it for bf16 on a GPU (weights cast in every call, norms in and out of
    # float32, residual stream in float32), and a lean one.
    w = {n: randn(o, i, dtype=torch.float32, grad=True) for n, o, i in (("qkv", 3 * W, W), ("proj", W, W), ("fc1", M, W), ("fc2", W, M))}
    for v in w.values():
        v.data.mul_(0.02)
    b = {n: torch.zeros(v.size(0), device=dev, requires_grad=True) for n, v in w.items()}
    ln = [torch.ones(W, device=dev, requires_grad=True), torch.zeros(W, device=dev, requires_grad=True)]
    x0, g = randn(B, L, W, dtype=torch.float32, grad=True), randn(B, L, W, dtype=torch.float32)

    def linear(n, x):
        return F.linear(x.to(torch.bfloat16), w[n].to(torch.bfloat16), b[n].to(torch.bfloat16))

    def block(x, attention, norm_type, stream):
        y = F.layer_norm(x.float(), (W,), *ln, 1e-6) if norm_type == torch.float32 else F.layer_norm(x, (W,), ln[0].to(x.dtype), ln[1].to(x.dtype), 1e-6)
        x = x + linear("proj", attention(*heads(linear("qkv", y), 3)).transpose(1, 2).reshape(B, L, W)).to(stream)
        y = F.layer_norm(x.float(), (W,), *ln, 1e-6) if norm_type == torch.float32 else F.layer_norm(x, (W,), ln[0].to(x.dtype), ln[1].to(x.dtype), 1e-6)
        return x + linear("fc2", F.gelu(linear("fc1", y))).to(stream)
    flops = 3 * 2 * B * (4 * L * W * W + 2 * L * W * M + 2 * L * L * W)
    for name, f, norm, stream in (("plain", plain, torch.float32, torch.float32), ("with sdpa", F.scaled_dot_product_attention, torch.float32, torch.float32),
                                  ("sdpa, all in bfloat16", F.scaled_dot_product_attention, torch.bfloat16, torch.bfloat16)):
        x1 = x0.detach().to(stream).requires_grad_(True)

        def both():
            for t in [x1, *w.values(), *b.values(), *ln]:
                t.grad = None
            block(x1, f, norm, stream).backward(g.to(stream))

        def quiet():
            with torch.no_grad():
                block(x1, f, norm, stream)
        ms = timed(both); row(f"vit block {name}, forward and back", ms, f"{flops / ms / 1e9:.0f} TFLOP/s; times 12: {12 * ms:.1f} ms of a step")
        ms = timed(quiet); row(f"vit block {name}, no grad", ms, f"{B / (12 * ms) * 1e3:.0f} images/s of 256 pixels if 12 of them were all")
    torch.use_deterministic_algorithms(True)
    for fill in (True, False):
        torch.utils.deterministic.fill_uninitialized_memory = fill
        x1 = x0

        def both():
            for t in [x1, *w.values(), *b.values(), *ln]:
                t.grad = None
            block(x1, plain, torch.float32, torch.float32).backward(g)
        row(f"vit block plain, deterministic, empty filled: {fill}", timed(both))
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@section("adamw")
def _():
    sizes = [W] * 8 + [W * W] * 4 + [M, W * M, W * M]  # of a block, and all of its biases and norms
    n = 24 if not a.small else 1
    ps = [torch.zeros(s, device=dev) for _ in range(n) for s in sizes] + [torch.zeros(30522 * W if not a.small else 10, device=dev)]
    gs, ms_, vs = ([torch.full_like(p, 1e-3) for p in ps] for _ in range(3))
    steps = [torch.ones((), device=dev) for _ in ps]
    note = f"{len(ps)} tensors, {sum(p.numel() for p in ps) / 1e6:.0f} M values"

    def each():  # internal/model/torch/adamw.hh, before PyTorch 2.4
        for p, g, m, v in zip(ps, gs, ms_, vs):
            p.mul_(0.999); m.mul_(0.9).add_(g, alpha=0.1); v.mul_(0.999).addcmul_(g, g, value=0.001)
            p.addcdiv_(m, v.sqrt().div_(0.03).add_(1e-8), value=-1e-4)
    row("adamw, tensor by tensor", timed(each, 1, 5), note)
    row("adamw, fused", timed(lambda: torch._fused_adamw_(ps, gs, ms_, vs, [], steps, lr=1e-4, beta1=0.9, beta2=0.999, weight_decay=0.02, eps=1e-8, amsgrad=False, maximize=False)), note)

    def average():
        for p, m in zip(ps, ms_):
            m.copy_(m * 0.995 + p * 0.005)
    row("momentum encoder, tensor by tensor", timed(average, 1, 5))
    row("momentum encoder, foreach", timed(lambda: torch._foreach_lerp_(ms_, ps, 0.005)))
    row("weights to bfloat16, tensor by tensor", timed(lambda: [p.to(torch.bfloat16) for p in ps], 1, 5))
    halves = [p.to(torch.bfloat16) for p in ps]
    row("weights to bfloat16, foreach", timed(lambda: torch._foreach_copy_(halves, ps)))


@section("select")
def _():
    n, k, width = (96, 288, 257 * 1536) if not a.small else (4, 12, 64)
    x, index, g = randn(n, width, grad=True), torch.arange(k, device=dev) % n, randn(k, width)

    def both():
        x.grad = None
        torch.index_select(x, 0, index).backward(g)
    row("an image's keys to its 3 pairs, forward and back", timed(both), "6 times a step")
    torch.use_deterministic_algorithms(True)
    row("the same, deterministic", timed(both))
    torch.use_deterministic_algorithms(False)


@section("tile")
def _():
    rows, columns, fold = (1 << 14, 1 << 16, 32) if not a.small else (64, 256, 4)
    x, y = (torch.nn.functional.normalize(torch.randn(r, 256, device=dev), dim=1).half() for r in (rows, columns))
    ms = timed(lambda: F.linear(x, y)); row("tile: products", ms, f"{2 * rows * columns * 256 / ms / 1e9:.0f} TFLOP/s")
    t = F.linear(x, y)
    by_row = lambda: torch.amax(t.reshape(rows, fold, columns // fold), 1)
    ms = timed(by_row); row("tile: maxima by rows", ms, f"{2 * rows * columns / ms / 1e9:.2f} TB/s")
    half = t[: rows // 2]
    row("tile: maxima by rows, half a tile, twice", 2 * timed(lambda: torch.amax(half.reshape(rows // 2, fold, columns // fold), 1)), "below 2^31 bytes")
    row("tile: maxima by columns", timed(lambda: torch.amax(t.reshape(fold, rows // fold, columns), 0)))
    maxima = by_row().float()
    for k in (5, 10):
        row(f"tile: topk {k} of the maxima", timed(lambda: torch.topk(maxima, k, 1)), "after tiles 0, 1, 2, 4, 8 and so on")
    floors = torch.topk(maxima, 5, 1).values[:, 4:]
    row("tile: which maxima reach the floor", timed(lambda: torch.nonzero(maxima >= floors)), "waits for the device")
    if rows * columns // fold >= 32:
        c = torch.amax(t.reshape(fold, rows // fold, columns), 0).float().T
        high = c.max(1, keepdim=True).values
        row("tile: settle, one of k1 = 5", timed(lambda: torch.sum(c > high, 1, keepdim=True)))


@section("launch")
def _():
    x, n = torch.zeros(1024, device=dev), 2000
    def many():
        for _ in range(n):
            x.add_(1)
    row("a kernel of 1,024 values, from Python", timed(many, 1, 5) / n)
    def waits():
        for _ in range(100):
            x[0].item()
    t = time.perf_counter(); waits(); row("item(), device idle", 10 * (time.perf_counter() - t))
    if cuda:
        g = torch.cuda.CUDAGraph()
        many()
        with torch.cuda.graph(g):
            for _ in range(n):
                x.add_(1)
        row("the same kernel, in a graph", timed(g.replay, 1, 5) / n)


@section("copies")
def _():
    n = 96 * 3 * 256 * 256 if not a.small else 1000
    for kind, host in (("pageable", torch.randn(n)), ("pinned", torch.randn(n).pin_memory() if cuda else torch.randn(n))):
        d = torch.empty(n, device=dev)
        ms = timed(lambda: d.copy_(host, non_blocking=True)); row(f"96 images of 256 pixels, float32, {kind}", ms, f"{4 * n / ms / 1e6:.1f} GB/s")
    u8 = torch.randint(0, 255, (n,), dtype=torch.uint8)
    u8 = u8.pin_memory() if cuda else u8
    row("the same as bytes, and to float32 there", timed(lambda: u8.to(dev, non_blocking=True).float().mul_(1 / 255)))
    from_there = torch.randn(1 << (26 if not a.small else 10), device=dev)
    ms = timed(lambda: from_there.cpu(), 1, 3); row("256 MB to pageable memory (checkpoints)", ms, f"{from_there.nbytes / ms / 1e6:.1f} GB/s")


if cuda:
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
if a.out:
    with open(a.out, "w") as f:
        json.dump({"torch": torch.__version__, "device": torch.cuda.get_device_name() if cuda else "cpu", "ms": results}, f, indent=1)
