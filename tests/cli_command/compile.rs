//! `compile`.

use crate::support::{Folder, Run, tilewright};

fn words(text: &str) -> Run {
    tilewright(text.split_whitespace())
}

/// Twice what stands in `x`, to `y`.
fn kernel(name: &str) -> String {
    format!(
        "  tt.func public @{name}(%x: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %y: !tt.ptr<f32>, %n: i32) {{
    %range = tt.make_range {{start = 0 : i32, end = 128 : i32}} : tensor<128xi32>
    %limit = tt.splat %n : i32 -> tensor<128xi32>
    %mask = arith.cmpi slt, %range, %limit : tensor<128xi32>
    %from = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %source = tt.addptr %from, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %value = tt.load %source, %mask : tensor<128x!tt.ptr<f32>>
    %sum = arith.addf %value, %value : tensor<128xf32>
    %to = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %place = tt.addptr %to, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %place, %sum, %mask : tensor<128x!tt.ptr<f32>>
    tt.return
  }}
"
    )
}

fn module(functions: &[&str]) -> String {
    format!("module {{\n{}}}\n", functions.iter().map(|name| kernel(name)).collect::<String>())
}

#[cfg(not(feature = "llvm"))]
#[test]
fn a_build_without_llvm_says_how_to_get_the_compiler() {
    let folder = Folder::new();
    let file = folder.file("k.ttir", module(&["twice"]));
    words(&format!("compile {file}"))
        .refused("no tile compiler: build it where LLVM 22 is installed with `cargo install");
}

#[cfg(feature = "llvm")]
mod with_llvm {
    use std::fs;
    use std::io::Write;
    use std::process::Stdio;

    use tilewright::compile::{Options, compile};
    use tilewright::ptx::{Arch, ModuleMeta, TritonMeta};
    use tilewright::ttir;

    use super::*;
    use crate::support::command;

    #[test]
    fn compile_writes_what_the_library_makes() {
        let folder = Folder::new();
        let text = module(&["twice"]);
        let options = Options { num_warps: 2, num_stages: 4, ..Options::new(Arch::Sm90a) };
        let made = compile(ttir::read(&text).unwrap().kernels().next().unwrap(), &options).unwrap();
        let file = folder.file("k.ttir", &text);
        let line = format!("compile {file} --arch sm_90a --num-warps 2 --num-stages 4");
        assert_eq!(words(&line).ended_with(0).stdout, made.ptx);

        let (ptx, json) = (folder.path("k.ptx"), folder.path("k.json"));
        assert_eq!(words(&format!("{line} -o {ptx} --meta {json}")).ended_with(0).stdout, "");
        assert_eq!(fs::read_to_string(ptx).unwrap(), made.ptx);
        let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        assert_eq!(serde_json::from_value::<TritonMeta>(json.clone()).unwrap(), made.triton_meta());
        let ours: ModuleMeta = serde_json::from_value(json["tilewright"].clone()).unwrap();
        assert_eq!(ours, made.into_module().meta);
        let params: Vec<_> = ours.kernels[0].params.iter().map(|p| (p.name.as_str(), p.constant, p.align)).collect();
        assert_eq!(params, [("x", true, 16), ("y", false, 4), ("n", true, 4)]);
        assert_eq!(folder.names(), ["k.json", "k.ptx", "k.ttir"]);
    }

    #[test]
    fn standard_input_and_one_of_several_kernels() {
        let folder = Folder::new();
        let text = module(&["first", "second"]);
        let file = folder.file("two.ttir", &text);
        let mut child = command()
            .args(["compile", "-", "--kernel", "second"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let read = String::from_utf8(output.stdout).unwrap();
        assert!(read.contains(".entry second(") && !read.contains("first"), "{read}");
        assert_eq!(words(&format!("compile {file} --kernel second")).ended_with(0).stdout, read);
        words(&format!("compile {file}")).refused("several kernels: name one of first, second with --kernel");
        words(&format!("compile {file} --kernel third")).refused("no kernel `third`: it has first, second");
    }

    #[test]
    fn faults_of_the_text_are_shown_in_it() {
        let folder = Folder::new();
        let bad = folder.file("bad.ttir", module(&["k"]).replace("arith.addf %value", "arith.addf %nothing"));
        words(&format!("compile {bad}"))
            .refused_with_excerpt("line 9, column", &["arith.addf %nothing", "bad.ttir:9:"]);
        let text = "module {\n  tt.func public @k(%p: !tt.ptr<f32>) {\n    tt.print \" p\" {hex = false, isSigned = \
                    array<i32>}\n    tt.return\n  }\n}\n";
        let unsupported = folder.file("print.ttir", text);
        words(&format!("compile {unsupported}"))
            .refused_with_excerpt("not supported by the tile compiler", &["tt.print", "print.ttir:3:"]);
        let call = "    tt.call @f(%n) : (i32) -> ()\n    tt.return\n  }\n";
        let calls = |name: &str, inner: &str| {
            let own = format!("  tt.func private @f(%n: i32) {{\n{inner}    tt.return\n  }}\n");
            folder.file(
                name,
                module(&["k"])
                    .replace("    tt.return\n  }\n", call)
                    .replace("module {\n", &format!("module {{\n{own}")),
            )
        };
        words(&format!("compile {}", calls("called.ttir", ""))).ended_with(0);
        words(&format!("compile {}", calls("recursion.ttir", "    tt.call @f(%n) : (i32) -> ()\n")))
            .refused_with_excerpt("`@f` calls itself", &["tt.call @f", "recursion.ttir:3:"]);
        let good = folder.file("good.ttir", module(&["k"]));
        for (line, said) in [
            (format!("compile {good} --num-warps 3"), "num_warps = 3: a program has 1, 2, 4"),
            (format!("compile {good} --num-stages 0"), "num_stages = 0"),
            (format!("compile {good} {good}"), "only with --c"),
            (format!("compile {good} -o /none/k.ptx"), "there is no folder /none"),
            (format!("compile {}", folder.path("none.ttir")), "there is no such file"),
            (format!("compile {}", folder.file("empty.ttir", "module {}\n")), "it has no kernel"),
            (format!("compile {good} --also-general"), "--c <FOLDER>"),
            (format!("compile {good} --c {} --name int", folder.path("c")), "`int` cannot name a C function"),
            (format!("compile {good} {good} --c {}", folder.path("c")), "0 and 1 are for sm_80 and take the same"),
        ] {
            words(&line).refused(said);
        }
        assert!(!folder.names().contains(&"c".to_owned()), "a refused call writes nothing");
    }

    #[test]
    fn c_is_written_for_every_specialisation() {
        let folder = Folder::new();
        let file = folder.file("k.ttir", module(&["twice"]));
        let out = folder.path("deep/c");
        words(&format!("compile {file} --arch sm_90a --arch sm_80 --also-general --c {out}")).ended_with(0);
        let header = fs::read_to_string(format!("{out}/twice.h")).unwrap();
        for line in [
            "0: sm_90a, 4 warp(s); x aligned to 16, y aligned to 4",
            "1: sm_90a, 4 warp(s); x aligned to 4, y aligned to 4",
            "2: sm_80, 4 warp(s); x aligned to 16, y aligned to 4",
            "3: sm_80, 4 warp(s); x aligned to 4, y aligned to 4",
            "    CUdeviceptr y,\n    int32_t n,\n    twice_error *error);",
        ] {
            assert!(header.contains(line), "no `{line}`: {header}");
        }
        let source = fs::read_to_string(format!("{out}/twice.c")).unwrap();
        assert_eq!(source.matches(".visible .entry twice(").count(), 4);
    }
}
