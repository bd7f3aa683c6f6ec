//! How often each operation occurs, with the type that Triton's text gives it: in a function, and in that text.

use std::collections::BTreeMap;

use tilewright::tile::{Func, OpKind, Type};

pub type Histogram = BTreeMap<String, i64>;

/// Operations whose types stand on another line, or nowhere.
const UNTYPED: &[&str] =
    &["tt.reduce", "tt.reduce.return", "scf.for", "scf.if", "scf.yield", "cf.cond_br", "tt.return"];

/// Of a function. Constants are left out: they are free, and which of them are one is a matter of form.
pub fn of_func(func: &Func) -> Histogram {
    let mut histogram = Histogram::new();
    func.walk(&mut |op| {
        let data = func.op(op);
        let result = || func.ty(data.results[0]);
        let operand = |index: usize| func.ty(data.operands[index]);
        let parent = func.parent_op(data.block).map(|parent| func.op(parent).kind.name());
        let (name, ty): (String, Option<Type>) = match &data.kind {
            OpKind::Constant(_) => return,
            // Triton's text leaves out the yield of a region without values.
            OpKind::Yield if data.operands.is_empty() => return,
            OpKind::Yield if parent == Some("tt.reduce") => ("tt.reduce.return".to_owned(), None),
            OpKind::CmpI(compare) => (format!("arith.cmpi {}", compare.name()), Some(operand(0))),
            OpKind::CmpF(compare) => (format!("arith.cmpf {}", compare.name()), Some(operand(0))),
            OpKind::Load { .. } | OpKind::Store { .. } => (data.kind.name().to_owned(), Some(operand(0))),
            OpKind::ProgramId(axis) => {
                (format!("tt.get_program_id {}", ["x", "y", "z"][*axis as usize]), Some(result()))
            }
            OpKind::Dot { precision, .. } => (format!("tt.dot {}", precision.name()), Some(result())),
            kind => (kind.name().to_owned(), data.results.first().map(|&result| func.ty(result))),
        };
        let key = match ty.filter(|_| !UNTYPED.contains(&name.as_str())) {
            Some(ty) => format!("{name} : {ty}"),
            None => name,
        };
        *histogram.entry(key).or_default() += 1;
    });
    histogram
}

/// Of Triton's text.
pub fn of_text(text: &str) -> Histogram {
    let mut histogram = Histogram::new();
    for line in text.lines().filter_map(|line| line.split(" loc(").next()) {
        let Some(key) = key_of_line(line.trim()) else { continue };
        *histogram.entry(key).or_default() += 1;
    }
    histogram
}

fn key_of_line(line: &str) -> Option<String> {
    let statement = if line.starts_with('%') { line.split_once(" = ")?.1 } else { line };
    let statement = statement.replace('"', "");
    let mut words = statement.split([' ', '(']);
    let mut name = words.next()?.to_owned();
    let dialect = name.split('.').next()?;
    if !["tt", "arith", "math", "scf", "cf"].contains(&dialect) || name == "arith.constant" || name == "tt.func" {
        return None;
    }
    if UNTYPED.contains(&name.as_str()) {
        return Some(name);
    }
    // What distinguishes operations of one name.
    match name.as_str() {
        "arith.cmpi" | "arith.cmpf" | "tt.get_program_id" => {
            name = format!("{name} {}", words.next()?.trim_matches(','))
        }
        "tt.dot" => {
            let precision = statement.split("inputPrecision = ").nth(1).and_then(|rest| rest.split(' ').next());
            name = format!("tt.dot {}", precision.unwrap_or("ieee"));
        }
        _ => {}
    }
    let types = statement.rsplit_once(" : ")?.1;
    let ty = if let Some((_, to)) = types.rsplit_once(" -> ") {
        to
    } else if let Some((_, to)) = types.rsplit_once(" to ") {
        to
    } else if name == "tt.addptr" {
        types.split(", ").next()?
    } else if name == "arith.select" {
        types.rsplit(", ").next()?
    } else {
        types
    };
    Some(format!("{name} : {}", ty.trim()))
}

/// Where two histograms differ.
pub fn difference(ours: &Histogram, theirs: &Histogram) -> Vec<String> {
    let mut keys: Vec<_> = ours.keys().chain(theirs.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| ours.get(*key) != theirs.get(*key))
        .map(|key| format!("  {:>4} {:>4}  {key}", ours.get(key).unwrap_or(&0), theirs.get(key).unwrap_or(&0)))
        .collect()
}

/// Name, type, divisibility of each parameter.
pub fn parameters_of_func(func: &Func) -> Vec<(String, String, Option<u32>)> {
    func.params.iter().map(|param| (param.name.clone(), param.ty.to_string(), param.divisibility)).collect()
}

/// The same of Triton's text.
pub fn parameters_of_text(text: &str) -> Vec<(String, String, Option<u32>)> {
    let line = text.lines().find(|line| line.contains("tt.func public")).expect("a kernel");
    line.split('%')
        .skip(1)
        .map(|param| {
            let (name, rest) = param.split_once(": ").expect("a typed parameter");
            let ty = rest.split(" {").next().unwrap().split(" loc(").next().unwrap();
            let divisibility =
                rest.split("tt.divisibility = ").nth(1).map(|n| n.split(' ').next().unwrap().parse().unwrap());
            (name.to_owned(), ty.to_owned(), divisibility)
        })
        .collect()
}
