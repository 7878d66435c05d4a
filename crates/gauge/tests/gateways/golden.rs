//! What every adapter writes for three APIs, file by file, with its commands and notes. `UPDATE_GOLDEN=1 cargo test -p gauge --test
//! gateways golden` writes the files anew; read what changed before you commit it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gauge::gateway::{self, Gateway, Model, Options, Placement, Policies, Program, Rate, Ready, Settings, Tls};
use gauge::profile::token::{Algorithm, Jwt};
use gauge::profile::{KeyAuth, Profile};

use crate::{APIS, api, model, policies};

/// Everything that an adapter says, by file name; what is no file of the gateway's is in `gauge.txt`.
fn outcome(gateway: &dyn Gateway, model: &Model) -> BTreeMap<String, String> {
    let mut place = Placement::new("127.0.0.1:8080".parse().expect("an address"), "/srv/gateway");
    place.extra = (8081..).take(gateway.extra_ports().len()).collect();
    (place.cpus, place.memory) = (2, Some(1 << 30));
    if let Err(why) = gateway.profile(&model.settings.profile) {
        return BTreeMap::from([("gauge.txt".to_owned(), format!("not supported: {why}\n"))]);
    }
    let written = match gateway::written(gateway, model, &place) {
        Ok(written) => written,
        Err(error) => return BTreeMap::from([("gauge.txt".to_owned(), format!("error: {error}\n"))]),
    };
    let mut out: BTreeMap<String, String> =
        written.files.iter().map(|file| (file.path.clone(), without_secret(&file.text))).collect();
    assert_eq!(out.len(), written.files.len(), "{}: two files of one name", gateway.name());
    let program = Program { path: PathBuf::from("/bin/PROGRAM") };
    let words = |command: gateway::Command| {
        let env = command.env.iter().map(|(name, value)| format!("{name}={value}"));
        env.chain(command.argv).collect::<Vec<_>>().join(" ")
    };
    let mut told = format!("start: {}\n", words(gateway.command(&program, &place)));
    if let Some(check) = gateway.check(&program, &place) {
        told += &format!("check: {}\n", words(check));
    }
    told += &match gateway.ready(&place) {
        Ready::Tcp(address) => format!("ready: {address} accepts\n"),
        Ready::Http { address, path, status } => format!("ready: GET {address}{path} is {status}\n"),
    };
    for note in &written.notes {
        told += &format!("note: {note}\n");
    }
    out.insert("gauge.txt".to_owned(), told);
    out
}

/// Tyk's secret, which is another one each time.
fn without_secret(text: &str) -> String {
    match text.split_once("\"secret\": \"") {
        Some((before, after)) => {
            assert!(after.len() > 33 && after[..32].bytes().all(|c| c.is_ascii_hexdigit()), "{text}");
            format!("{before}\"secret\": \"SECRET{}", &after[32..])
        }
        None => text.to_owned(),
    }
}

fn files(folder: &Path, below: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let name = format!("{below}{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() { files(&path, &format!("{name}/"), found) } else { assert!(found.insert(name)) }
    }
}

/// One of each, small enough to be read.
fn profiles() -> Vec<Profile> {
    let small = |profile| match profile {
        Profile::KeyAuth(auth) => Profile::KeyAuth(KeyAuth { keys: 2, ..auth }),
        Profile::Jwt(jwt) => Profile::Jwt(Jwt { algorithm: Algorithm::HS256, ..jwt }),
        other => other,
    };
    Profile::all()
        .into_iter()
        .filter(|profile| !matches!(profile, Profile::PassThrough | Profile::Life(_)))
        .map(small)
        .collect()
}

/// What the other set does not show: any origin, an address as the client, a minute, no retries.
fn some() -> Policies {
    Policies {
        cors: vec!["*".to_owned()],
        limit: Some(Rate { requests: 1000, seconds: 60 }),
        retries: Some(0),
        ..Policies::default()
    }
}

#[test]
fn every_gateway_writes_what_its_golden_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/gateways");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut expected = BTreeSet::new();
    let mut different = Vec::new();
    let plain = APIS.map(|(name, file)| (name.to_owned(), file, Profile::PassThrough));
    let profiles = profiles().into_iter().map(|profile| (format!("profile-{}", profile.name()), APIS[0].1, profile));
    let text = str::to_owned;
    let options = Settings {
        access_log: true,
        health: Some(text("/healthz")),
        tls: Some(Tls { cert: text("/etc/gateway/site.pem"), key: text("/etc/gateway/site.key") }),
        ..Settings::default()
    };
    let settings = Settings::of_profile;
    let plain = plain.into_iter().chain(profiles).map(|(name, file, profile)| (name, file, settings(profile)));
    let more = [
        (text("options"), APIS[0].1, options),
        (text("policies"), policies::API, Settings { policies: policies::all(), ..Settings::default() }),
        (text("policies-some"), policies::API, Settings { policies: some(), ..Settings::default() }),
    ];
    for (name, file, settings) in plain.chain(more) {
        let model = model(&api(file), &Options { settings, ..Options::default() });
        for gateway in gateway::all() {
            for (file, text) in outcome(*gateway, &model) {
                let golden = format!("{name}/{}/{file}", gateway.name());
                let path = folder.join(&golden);
                if update {
                    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
                    fs::write(&path, &text).expect("a file is written");
                } else if fs::read_to_string(&path).unwrap_or_default() != text {
                    different.push(format!("{golden} should be:\n{text}"));
                }
                expected.insert(golden);
            }
        }
    }
    let mut found = BTreeSet::new();
    files(&folder, "", &mut found);
    for golden in found.difference(&expected) {
        if update {
            fs::remove_file(folder.join(golden)).expect("a file is removed");
        } else {
            different.push(format!("{golden} should not be there"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert_eq!(gateway::all().len(), 11);
}
