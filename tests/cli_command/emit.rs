//! `emit`, `list`, `inspect`, `completions`, and the command line itself.

use std::fs;

use tilewright::generate;
use tilewright::ptx::{self, Arch, ModuleMeta, Statistics};

use crate::support::{Folder, Run, command, tilewright};

fn words(text: &str) -> Run {
    tilewright(text.split_whitespace())
}

#[test]
fn emit_prints_what_the_library_makes() {
    let settings = [("n", "32"), ("rank", "4")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let module = generate::emit("potrf_warp", &settings.into_iter().collect(), Arch::Sm90a).unwrap();
    let line = "emit potrf_warp --arch sm_90a --set n=32 --set rank=4";
    assert_eq!(words(line).ended_with(0).stdout, module.ptx);

    let meta = words(&format!("{line} --meta")).ended_with(0).stdout;
    assert_eq!(serde_json::from_str::<ModuleMeta>(&meta).unwrap(), module.meta);

    let folder = Folder::new();
    let file = folder.path("k.ptx");
    assert_eq!(words(&format!("{line} -o {file}")).ended_with(0).stdout, "");
    assert_eq!(fs::read_to_string(file).unwrap(), module.ptx);
    assert_eq!(folder.names(), ["k.ptx"]);
}

#[test]
fn every_kernel_is_listed_and_can_be_emitted_as_listed() {
    let list = words("list").ended_with(0).stdout;
    for kernel in generate::kernels() {
        assert!(list.contains(&format!("{}: {}\n", kernel.name, kernel.summary)), "{list}");
        let mut line = format!("emit {}", kernel.name);
        for setting in kernel.settings {
            assert!(list.contains(&setting.allowed.to_string()) && list.contains(setting.meaning), "{list}");
            if setting.default.is_none() {
                line.push_str(&format!(" --set {}={}", setting.name, setting.allowed.values()[0]));
            }
        }
        let arch = kernel.targets[0];
        if arch != Arch::Sm80 {
            line.push_str(&format!(" --arch {arch}"));
        }
        let text = words(&line).ended_with(0).stdout;
        assert_eq!(ptx::parse(&text).unwrap().target, [arch.name()]);
    }
}

#[test]
fn inspect_shows_what_the_library_counts() {
    let folder = Folder::new();
    let file = folder.path("k.ptx");
    words(&format!("emit potrf_rows --arch sm_90a --set n=40 -o {file}")).ended_with(0);
    let text = words(&format!("inspect {file}")).ended_with(0).stdout;
    let statistics = &Statistics::of(&ptx::parse(&fs::read_to_string(&file).unwrap()).unwrap())[0];
    assert!(text.starts_with("PTX 8.0 for sm_90a\n"), "{text}");
    let has = |words: &[&str]| {
        let is_it = |line: &str| line.split_whitespace().eq(words.iter().copied());
        assert!(text.lines().any(is_it), "no line {words:?}: {text}");
    };
    has(&["entry", &statistics.name]);
    has(&[".reqntid", "64"]);
    has(&["static", "shared", &statistics.shared_bytes.to_string(), "bytes"]);
    has(&[&statistics.instructions.to_string(), "instructions"]);
    assert_eq!(statistics.params.len(), 8);
    for (index, (ty, name)) in statistics.params.iter().enumerate() {
        has(&[&[index.to_string().as_str()], ty.split(' ').collect::<Vec<_>>().as_slice(), &[name]].concat());
    }
    assert!(statistics.mix.contains_key("fma.f32"));
    for (group, count) in &statistics.mix {
        has(&[&count.to_string(), group]);
    }
}

#[test]
fn completions_name_the_subcommands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = words(&format!("completions {shell}")).ended_with(0).stdout;
        for subcommand in ["factor", "emit", "list", "inspect", "run", "compile"] {
            assert!(script.contains(subcommand), "{shell} {subcommand}");
        }
    }
}

#[test]
fn help_and_version_are_no_errors() {
    assert!(words("--version").ended_with(0).stdout.starts_with("tilewright "));
    assert!(words("--help").ended_with(0).stdout.contains("Exit codes: 0"));
    let help = words("run --help").ended_with(0).stdout;
    assert!(help.contains("buf:TYPE:COUNT=random") && help.contains("Example"), "{help}");
}

#[test]
fn bad_usage_is_refused_in_one_line() {
    for (line, said) in [
        ("", "requires a subcommand"),
        ("frob", "unrecognized subcommand 'frob'"),
        ("factor", "required arguments were not provided: --output <OUT.npy>; <IN.npy>"),
        ("factor a.npy", "--output <OUT.npy>"),
        ("factor a.npy -o b.npy --device abacus", "invalid value 'abacus'"),
        ("factor a.npy -o b.npy --precision half", "possible values: full, fast"),
        ("emit", "<KERNEL>"),
        ("emit potrf --set n=3", "unknown kernel `potrf`: expected one of potrf_warp"),
        ("emit potrf_warp", "needs the setting `n`: order of the matrices, from 1 to 32"),
        ("emit potrf_warp --set m=3", "no setting `m`: expected one of n, rank, warps"),
        ("emit potrf_warp --set n=33", "n = 33 is not allowed: it must be from 1 to 32"),
        ("emit potrf_warp --set n=3 --set rank=3", "rank = 3 is not allowed: it must be one of 1, 2, 4"),
        ("emit potrf_warp --set n=-1", "n = `-1` is not a whole number"),
        ("emit potrf_warp --set n=3 --set n=4", "the setting `n` is given twice"),
        ("emit potrf_warp --set n", "expected NAME=VALUE"),
        ("emit potrf_warp --set n=3 --arch sm_12", "unknown target `sm_12`: expected one of sm_80, sm_90a"),
        ("emit potrf_warp --set n=3 -o /none/k.ptx", "there is no folder /none"),
        ("inspect /none.ptx", "there is no such file"),
        ("completions csh", "invalid value 'csh'"),
    ] {
        words(line).refused(said);
    }
}

#[test]
fn text_that_is_no_ptx_is_refused_with_its_line() {
    let folder = Folder::new();
    let header = ".version 8.0\n.target sm_80\n.address_size 64\n";
    let missing = folder.file("missing.ptx", format!("{header}.entry k() {{\n  add.s32 %r1 %r2;\n}}\n"));
    words(&format!("inspect {missing}"))
        .refused_with_excerpt("missing.ptx: line 5, column 15: expected `,` or `;`", &["add.s32 %r1 %r2;", "ptx:5:15"]);
    let open = folder.file("open.ptx", format!("{header}.entry k() {{ ret;"));
    words(&format!("inspect {open}")).refused_with_excerpt("expected `}`", &[".entry k()"]);
    let empty = folder.file("empty.ptx", "");
    words(&format!("inspect {empty}")).refused("empty.ptx: line 1, column 1: the module has no `.version` directive");
    let binary = folder.file("binary.ptx", [0x7f, 0xff, 0x00]);
    words(&format!("inspect {binary}")).refused("not text: byte 1 is not UTF-8");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_takes_nothing_is_an_error() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    Run::of(command().arg("list").stdout(full())).refused("cannot write to standard output: ");
    words("emit potrf_warp --set n=3 -o /dev/full").refused("cannot write /dev/full: ");
}

#[test]
fn a_closed_pipe_is_quiet() {
    for line in ["list", "emit potrf_block --set n=192", "completions bash", "--help"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = Run::of(command().args(line.split(' ')).stdout(writer));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}");
    }
}
