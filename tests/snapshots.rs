//! What the templates emit, in normal form, as snapshots: a change of meaning shows in the diff, a change of names or
//! comments does not. One small specialisation of each template in full. (`generated/` holds the standard ones, with their
//! summaries.)

use insta::{assert_snapshot, with_settings};
use tilewright::generate::{Specialisation, standard};
use tilewright::ptx::{Arch, Statistics, parse, print};
use tilewright::template::{MicroPotrf, Operand, PanelSolve, PotrfBlock, PotrfDiag, PotrfRows, PotrfWarp, SchurWgmma};

fn summary(specialisation: &Specialisation, arch: Arch) -> String {
    let module = specialisation.instantiate(arch).unwrap();
    Statistics::of(&parse(&module.ptx).unwrap())[0].to_string()
}

#[test]
fn normal_form_of_each_template() {
    let small = [
        Specialisation::PotrfWarp(PotrfWarp { n: 6, rank: 4, warps: 2 }),
        Specialisation::PotrfWarp(PotrfWarp { n: 3, rank: 1, warps: 1 }),
        Specialisation::PotrfRows(PotrfRows { n: 33, rank: 2 }),
        Specialisation::PotrfBlock(PotrfBlock { n: 65, block: 8, warps: 4 }),
        Specialisation::PotrfDiag(PotrfDiag { warps: 8 }),
        Specialisation::PanelSolve(PanelSolve { warps: 2, products: 3, planes: 2 }),
        Specialisation::SchurWgmma(SchurWgmma { operand: Operand::F16x3, columns: 128, stages: 2, promote: 1 }),
        Specialisation::MicroPotrf(MicroPotrf { rank: 4, warps: 1 }),
    ];
    for specialisation in small {
        let module = specialisation.instantiate(Arch::Sm90a).unwrap();
        let name = module.meta.kernels[0].name.clone();
        with_settings!({ description => summary(&specialisation, Arch::Sm90a), omit_expression => true }, {
            assert_snapshot!(name, print(&parse(&module.ptx).unwrap()));
        });
    }
}

/// The targets differ in their directives alone: a template uses nothing that only some of its targets have.
#[test]
fn targets_share_their_instructions() {
    for specialisation in standard() {
        let body = |arch| {
            let text = print(&parse(&specialisation.instantiate(arch).unwrap().ptx).unwrap());
            text.split_once("\n{").map(|(_, body)| body.to_owned()).unwrap()
        };
        let targets = specialisation.info().targets;
        assert!(targets.iter().all(|&arch| body(arch) == body(targets[0])));
    }
}
