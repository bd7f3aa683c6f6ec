//! Columns of text.

use std::fmt;

/// Rows whose cells are padded to the width of their column.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    /// A table whose rows start `indent` spaces in.
    pub(super) fn new(indent: usize) -> Self {
        Self { rows: Vec::new(), indent }
    }

    /// Adds a row.
    pub(super) fn row<C: fmt::Display>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(|cell| cell.to_string()).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (cell, &width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:width$}  "));
            }
            writeln!(formatter, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_clean() {
        let mut table = Table::new(2);
        table.row(["a", "bb", "c"]);
        table.row(["ααα", "b"]);
        assert_eq!(table.to_string(), "  a    bb  c\n  ααα  b\n");
    }
}
