//! `docs/gauge-command.md` has the help of every command. `WEIR_UPDATE=1` writes it anew.

use std::path::Path;

use testkit::manual;

#[test]
fn the_page_has_the_help_of_every_command() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gauge-command.md");
    let commands = manual::commands(env!("CARGO_BIN_EXE_gauge"), "gauge");
    assert!(commands.matches("\n## `gauge").count() > 6, "{commands}");
    manual::assert_generated(&page, &commands);
}
