#!/usr/bin/env python3
"""Rewrites .sqlx, the committed description of the query, against a PostgreSQL with the migrations applied.

With --check it changes nothing and fails when what is committed is not what PostgreSQL says.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import stack  # noqa: E402  found through the path above


def contents(directory: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.glob("query-*.json")}


def main(check: bool) -> int:
    work = pathlib.Path(tempfile.mkdtemp(prefix="producers-sqlx-"))
    work.chmod(0o755)
    fresh = work / "sqlx"
    fresh.mkdir()
    postgres = stack.Postgres(work / "postgres", durable=False)
    try:
        postgres.start()
        stack.migrate(postgres.url)
        # The macro runs only where the crate is compiled anew: a value that was never seen before makes sure of that.
        env = {
            **os.environ,
            "PRODUCER_SQLX_PREPARE": str(work),
            "DATABASE_URL": postgres.url,
            "SQLX_OFFLINE_DIR": str(fresh),
        }
        subprocess.run(["cargo", "check", "-q", "--locked", "-p", "producer-core"], cwd=stack.ROOT, env=env, check=True)
        committed = HERE / ".sqlx"
        if contents(fresh) == contents(committed) != {}:
            print("the committed query data is current")
            return 0
        if check:
            print(
                "error: services/producer/rust-core/.sqlx is not what PostgreSQL says; run: make producers-sqlx",
                file=sys.stderr,
            )
            return 1
        shutil.rmtree(committed, ignore_errors=True)
        shutil.copytree(fresh, committed)
        print("made services/producer/rust-core/.sqlx again")
        return 0
    finally:
        postgres.stop("immediate")
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
