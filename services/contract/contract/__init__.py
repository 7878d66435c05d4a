"""One contract suite for every service of a kind: files of cases, run against any base URL. See README.md."""
