//! Every template over its whole range: the text parses, and it agrees with the metadata beside it.

use tilewright::generate::{Specialisation, standard};
use tilewright::ptx::model::{Item, Space, Statement, Variable};
use tilewright::ptx::{Arch, DType, Module, ParamMeta, parse};
use tilewright::template::{MicroPotrf, Operand, PanelSolve, PotrfBlock, PotrfDiag, PotrfRows, PotrfWarp, SchurWgmma};

/// Each order of each template, with the parameters in turn.
fn specialisations() -> impl Iterator<Item = Specialisation> {
    let pick = |n: u32, values: &[u32]| values[n as usize % values.len()];
    let warp = (1..=32).flat_map(move |n| {
        [1, 2, 4].map(|rank| Specialisation::PotrfWarp(PotrfWarp { n, rank, warps: pick(n, &[1, 2, 4]) }))
    });
    let rows = (33..=64).map(move |n| Specialisation::PotrfRows(PotrfRows { n, rank: pick(n, &[1, 2, 4]) }));
    let block = (65..=192).map(move |n| {
        Specialisation::PotrfBlock(PotrfBlock { n, block: pick(n, &[8, 16, 32]), warps: pick(n, &[4, 8]) })
    });
    let micro = [2, 4]
        .into_iter()
        .flat_map(|rank| [1, 2, 4].map(|warps| Specialisation::MicroPotrf(MicroPotrf { rank, warps })));
    let diag = [4, 8].map(|warps| Specialisation::PotrfDiag(PotrfDiag { warps }));
    let panel = [2, 4, 8].into_iter().flat_map(|warps| {
        let ways = [(3, 2), (3, 1), (1, 2), (1, 1)];
        ways.map(|(products, planes)| Specialisation::PanelSolve(PanelSolve { warps, products, planes }))
    });
    let schur = Operand::ALL.into_iter().flat_map(|operand| {
        let ways = [(128, 2, 0), (128, 3, 1), (128, 2, 8), (256, 2, 0)];
        ways.map(|(columns, stages, promote)| SchurWgmma { operand, columns, stages, promote })
    });
    let schur = schur.map(Specialisation::SchurWgmma);
    warp.chain(rows).chain(block).chain(diag).chain(panel).chain(schur).chain(micro).chain(standard())
}

fn variables(statements: &[Statement], found: &mut Vec<Variable>) {
    for statement in statements {
        match statement {
            Statement::Variable(variable) => found.push(variable.clone()),
            Statement::Block(inner) => variables(inner, found),
            _ => {}
        }
    }
}

fn agrees(declared: &Variable, meta: &ParamMeta) -> bool {
    let ty = match (meta.pointer, meta.ty) {
        (true, _) | (false, DType::I64) => "u64",
        (false, DType::I32) => "u32",
        (false, other) => panic!("{}: no kernel takes a {other} value yet", meta.name),
    };
    let pointer = meta.pointer.then_some((Some(Space::Global), Some(meta.align)));
    declared.ty == ty && declared.pointer == pointer
}

fn check(module: &Module, arch: Arch) {
    let meta = &module.meta.kernels[0];
    let program = parse(&module.ptx).unwrap_or_else(|fault| panic!("{}: {fault}", meta.name));
    assert_eq!(program.target, [arch.name()]);
    assert_eq!(format!("{}.{}", program.version.0, program.version.1), arch.ptx_version());
    let entries: Vec<_> = program.entries().collect();
    assert_eq!(entries.len(), 1);
    let entry = entries[0];
    assert_eq!(entry.name, meta.name);
    assert_eq!(entry.directive("reqntid"), Some([32 * meta.num_warps].as_slice()));
    assert_eq!(entry.params.len(), meta.params.len());
    for (declared, meta) in entry.params.iter().zip(&meta.params) {
        assert!(agrees(declared, meta), "{}: {declared:?}", meta.name);
    }
    let mut inner = Vec::new();
    variables(entry.body.as_deref().unwrap_or_default(), &mut inner);
    let declared: u64 = inner.iter().filter(|variable| variable.space == Space::Shared).map(Variable::bytes).sum();
    assert_eq!(declared, u64::from(meta.static_shared), "{}", meta.name);
    let dynamic = program
        .items
        .iter()
        .any(|item| matches!(item, Item::Variable(variable) if variable.linkage.as_deref() == Some("extern")));
    assert_eq!(dynamic, meta.shared > 0, "{}", meta.name);
    // Static shared memory over 48 KiB is refused by every target.
    assert!(meta.static_shared <= 48 * 1024 && meta.shared + meta.static_shared <= arch.max_shared_bytes());
}

#[test]
fn text_and_metadata_agree_for_every_order_and_target() {
    for specialisation in specialisations() {
        for &arch in specialisation.info().targets {
            check(&specialisation.instantiate(arch).unwrap(), arch);
        }
    }
}

#[test]
fn the_same_parameters_give_the_same_bytes() {
    for specialisation in standard() {
        let module = specialisation.instantiate(Arch::Sm90a).unwrap();
        assert_eq!(module, specialisation.instantiate(Arch::Sm90a).unwrap());
        assert!(module.ptx.is_ascii() && !module.ptx.contains('\r') && module.ptx.ends_with("}\n"));
    }
}

#[test]
fn different_parameters_have_different_entries() {
    let mut names: Vec<_> = specialisations()
        .map(|specialisation| {
            (
                specialisation.instantiate(specialisation.info().targets[0]).unwrap().meta.kernels[0].name.clone(),
                specialisation,
            )
        })
        .collect();
    names.sort_by(|left, right| left.0.cmp(&right.0));
    for pair in names.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1, "{} twice", pair[0].0);
    }
}

#[test]
fn metadata_has_the_keys_that_tritons_launcher_reads() {
    let module = PotrfWarp { n: 32, rank: 4, warps: 4 }.instantiate(Arch::Sm90a).unwrap();
    let json = serde_json::to_value(&module.meta.kernels[0]).unwrap();
    for key in [
        "name",
        "shared",
        "num_warps",
        "num_ctas",
        "tmem_size",
        "global_scratch_size",
        "global_scratch_align",
        "profile_scratch_size",
        "profile_scratch_align",
    ] {
        assert!(json.get(key).is_some(), "{key} is missing");
    }
}
