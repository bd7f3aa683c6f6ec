"""The table of cases, and how a case is declared.

A case is a kernel of ours with its types and extents fixed. `compile.py` has Triton compile it; `main.rs` runs Triton's
PTX and ours on the same inputs and holds the outputs to the rule that each output names here.
"""

import zlib

CASES = {}

BITS = {"kind": "bits"}
"""Equal bits; any NaN equals any NaN."""


def ulp(count, why, flush=False):
    """At most `count` units in the last place apart; with `flush`, singles below 2**-124 are as good as 0."""
    return {"kind": "ulp", "most": count, "flush": flush, "why": why}


def near(absolute, relative, why):
    """|a - b| <= absolute + relative * |b|."""
    return {"kind": "near", "absolute": absolute, "relative": relative, "why": why}


def buf(dtype, count, fill):
    """An input. `fill` names a distribution of `inputs.rs`: "any", "normal", "whole:LOW:HIGH", "real:LOW:HIGH", ..."""
    return {"buffer": dtype, "count": count, "fill": fill}


def out(dtype, count, rule=BITS, fill="pattern"):
    """An output, held to `rule`; what it holds before is `fill`."""
    return {"buffer": dtype, "count": count, "fill": fill, "rule": rule}


def scalar(dtype, value):
    """A number passed by value."""
    return {"scalar": dtype, "value": value}


def case(name, fn, args, grid=(1, 1, 1), warps=4, aligned=True, capability=90, source=False, **constants):
    """Declares a case. `args` are those of `fn` that are not constants, in its order; `capability` is
    what Triton compiles for; with `source` ours compiles what Triton has before any of its passes, where all functions are called."""
    if name in CASES:
        raise ValueError(f"two cases are called {name}")
    grid = tuple(grid) + (1,) * (3 - len(grid))
    CASES[name] = dict(
        name=name, fn=fn, args=args, grid=grid, warps=warps, aligned=aligned, constants=constants, group=fn.__module__,
        capability=capability, source=source, seed=zlib.crc32(name.encode()),
    )
