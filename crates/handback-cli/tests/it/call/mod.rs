//! `handback call` against a real server, over every surface.

mod asking;
mod broken;
mod demo;
mod pages;
mod surfaces;
mod world;
