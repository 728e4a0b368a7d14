"""Rust, compiled by rustc without crates."""
