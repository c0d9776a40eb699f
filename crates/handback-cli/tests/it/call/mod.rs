//! `handback call` against a real server, over every surface.

mod asking;
mod broken;
mod demo;
mod identified;
mod pages;
mod strange;
mod surfaces;
mod world;
