//! Printer.
