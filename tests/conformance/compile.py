"""Compiles the cases with Triton, without a GPU: `compile.py FOLDER` writes NAME.ttir, NAME.ptx and NAME.json there.

What is there already and was made of the same kernel by the same Triton is kept. `names.json` lists the cases.
"""

import hashlib
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import traceback

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

import atomics  # noqa: F401
import control  # noqa: F401
import elementwise  # noqa: F401
import exchange  # noqa: F401
import functions  # noqa: F401
import memory  # noqa: F401
import products  # noqa: F401
import reductions  # noqa: F401
import scans  # noqa: F401
import shapes  # noqa: F401
from cases import CASES

def signature(case):
    """Types by name of parameter, in the kernel's order, and the attributes of those that are multiples of 16."""
    names = case["fn"].arg_names
    types, attributes = {}, {}
    args = iter(case["args"])
    for index, name in enumerate(names):
        if name in case["constants"]:
            types[name] = "constexpr"
            continue
        arg = next(args)
        if "buffer" in arg:
            types[name] = "*" + arg["buffer"]
            divides = case["aligned"]
        else:
            types[name] = arg["scalar"]
            divides = isinstance(arg["value"], int) and arg["value"] % 16 == 0 and case["aligned"]
        if divides:
            attributes[(index,)] = [["tt.divisibility", 16]]
    return types, attributes


def without_noinline(text, context):
    """A module of the text in which every function may be inlined: the emulator has no calls, so Triton's PTX is to have none;
    what our compiler reads keeps them."""
    with tempfile.NamedTemporaryFile("w", suffix=".ttir") as file:
        file.write(text.replace("noinline = true", "noinline = false"))
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    return module


def compile_case(name, folder):
    """Makes the files of one case unless they are there. Returns what went wrong, or None."""
    case = CASES[name]
    types, attributes = signature(case)
    shown = {key: value for key, value in case.items() if key != "fn"}
    shown["constants"] = {key: getattr(value, "__name__", str(value)) for key, value in case["constants"].items()}
    what = [triton.__version__, case["fn"].cache_key, types, str(attributes), shown["constants"], case["warps"], case["capability"], case["source"]]
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()
    meta = folder / f"{name}.json"
    old = json.loads(meta.read_text()) if meta.exists() else {}
    if old.get("key") == key:
        shown.update(key=key, shared=old["shared"], num_warps=old["num_warps"])
    else:
        constants = {(case["fn"].arg_names.index(key),): value for key, value in case["constants"].items()}
        source = ASTSource(case["fn"], types, constants, attributes)
        target = GPUTarget("cuda", case["capability"], 32)
        backend = make_backend(target)
        options = backend.parse_options({"num_warps": case["warps"], **source.parse_options()})
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        helpers = backend.get_codegen_implementation(options)
        try:
            module = source.make_ir(target, options, helpers, backend.get_module_map(), context)
            stages, facts = {}, {"target": target, **options.__dict__}
            backend.add_stages(stages, options, source.language)
            if case["source"]:
                (folder / f"{name}.ttir").write_text(str(module))
            for stage in ("ttir", "ttgir", "llir", "ptx"):
                module = stages[stage](module, facts)
                if stage == "ptx" or (stage == "ttir" and not case["source"]):
                    (folder / f"{name}.{stage}").write_text(str(module))
                if stage == "ttir" and "tt.call" in str(module):
                    module = stages[stage](without_noinline(str(module), context), facts)
        except Exception:
            return f"{name}: {traceback.format_exc(limit=-3)}"
        shown.update(key=key, shared=facts["shared"], num_warps=facts["num_warps"])
    # A whole file or none: another process may be reading.
    temporary = folder / f"{name}.{os.getpid()}.json.new"
    temporary.write_text(json.dumps(shown, indent=1))
    temporary.replace(meta)
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:] or list(CASES)
    with multiprocessing.Pool() as pool:
        failed = [fault for fault in pool.starmap(compile_case, [(name, folder) for name in wanted], 4) if fault]
    (folder / "names.json").write_text(json.dumps(list(CASES), indent=1))
    for fault in failed:
        print(fault, file=sys.stderr)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
