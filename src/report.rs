//! Figures as text: compsize's table, rows of files and directories, and JSON. Pure: what comes out is a string, or
//! lines on a writer that the caller owns.

mod json;
mod rows;
mod size;
mod table;
mod uuid;

pub use json::{Document, JsonRow, figures};
pub use rows::{Column, Rows};
pub use size::{Units, size};
pub use table::{nothing, table};
pub use uuid::uuid;
