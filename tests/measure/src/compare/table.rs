//! The table of the comparison.

use super::way::Way;

/// The rows, in the order in which their first cells were filled.
#[derive(Debug, Default)]
pub struct Table(Vec<Row>);

#[derive(Debug)]
struct Row {
    name: String,
    cells: [Option<String>; Way::ALL.len()],
}

impl Table {
    /// Fills a cell.
    pub fn put(&mut self, row: &str, way: Way, text: String) {
        println!("bed: {way}: {row}: {text}");
        let at = self.0.iter().position(|known| known.name == row).unwrap_or_else(|| {
            self.0.push(Row { name: row.into(), cells: [const { None }; Way::ALL.len()] });
            self.0.len() - 1
        });
        for (cell, of) in self.0[at].cells.iter_mut().zip(Way::ALL) {
            if of == way {
                *cell = Some(text.clone());
            }
        }
    }

    /// The table in Markdown, with one line for each row.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| |");
        for way in Way::ALL {
            text += &format!(" {way} |");
        }
        text += &format!("\n|---|{}\n", "---|".repeat(Way::ALL.len()));
        for row in &self.0 {
            text += &format!("| {} |", row.name);
            for cell in &row.cells {
                text += &format!(" {} |", cell.as_deref().unwrap_or("–").replace('|', "\\|"));
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_in_its_row_and_column() {
        let mut table = Table::default();
        table.put("one", Way::ByHand, "a|b".into());
        table.put("two", Way::Ours, "c".into());
        table.put("one", Way::Ours, "d".into());
        let text = table.markdown();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| | etcd-lun | second disk, documented | iSCSI by hand |");
        assert_eq!(lines[1], "|---|---|---|---|");
        assert_eq!(lines[2..], ["| one | d | – | a\\|b |", "| two | c | – | – |"]);
    }
}
