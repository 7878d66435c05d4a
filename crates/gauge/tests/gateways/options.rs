//! What the options of `gauge convert` add, given to the real programs.

use std::fs;
use std::process::Command;

use gauge::gateway::{self, Options, Placement, Settings, Tls};
use testkit::Certificates;
use testkit::ports::Port;

use crate::{APIS, api, model, policies};

#[test]
fn every_option_passes_the_own_check_of_each_gateway_that_is_here() {
    let certificates = Certificates::localhost();
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let (cert, key) = (text(&certificates.certificate()), text(&certificates.key()));
    // HAProxy reads the key there.
    fs::copy(&key, format!("{cert}.key")).expect("a copy of the key");
    let tls = Some(Tls { cert, key });
    let settings = Settings { access_log: true, health: Some("/healthz".to_owned()), tls, ..Settings::default() };
    let mut checked = Vec::new();
    for file in APIS.map(|(_, file)| file).into_iter().chain([policies::API]) {
        let mut settings = settings.clone();
        // Its description needs what the options check.
        if file == policies::API {
            settings.policies = policies::all();
        }
        let options = Options { settings, ..Options::default() };
        let model = model(&api(file), &options);
        for gateway in gateway::all() {
            let Some(program) = gateway.locate() else { continue };
            let (folder, port) = (tempfile::tempdir().expect("a folder"), Port::free());
            let mut place = Placement::new(port.address(), folder.path());
            let others: Vec<Port> = gateway.extra_ports().iter().map(|_| Port::free()).collect();
            place.extra = others.iter().map(|port| port.address().port()).collect();
            let Ok(written) = gateway::written(*gateway, &model, &place) else { continue };
            for file in &written.files {
                let path = folder.path().join(&file.path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
                fs::write(path, &file.text).expect("a file is written");
            }
            let Some(check) = gateway.check(&program, &place) else { continue };
            drop((port, others));
            let command =
                Command::new(&check.argv[0]).args(&check.argv[1..]).envs(check.env).current_dir(&folder).output();
            let output = command.expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} {file}: {said}", gateway.name());
            checked.push(gateway.name());
        }
    }
    eprintln!("checked: {checked:?}");
}
