//! `list`: the kernels that can be generated.

use std::io::Write;

use super::table::Table;
use super::{Failure, Outcome};
use crate::generate;

pub(super) fn run(out: &mut dyn Write) -> Result<Outcome, Failure> {
    for (index, kernel) in generate::kernels().iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}: {}", kernel.name, kernel.summary)?;
        let mut table = Table::new(2);
        table.row(["setting", "default", "allowed", "meaning"]);
        for setting in kernel.settings {
            let default = setting.default.map_or_else(|| "(must be set)".to_owned(), |value| value.to_string());
            table.row([setting.name, &default, &setting.allowed.to_string(), setting.meaning]);
        }
        write!(out, "{table}")?;
    }
    Ok(Outcome::Fine)
}
