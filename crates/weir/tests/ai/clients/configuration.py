#!/usr/bin/env python3
"""Writes the configuration that the official clients are run against: configuration.py SIMULATOR_URL KEYS_FILE.

A model's name begins with `o` where its provider speaks OpenAI's API, with `a` where it speaks Anthropic's, with `g` where it speaks Gemini's: a
client of one API is translated at the others. What follows is a fault that a client has to notice."""

import json
import sys

FAULTS = {
    "": "sim",
    "-slow": "sim-tokens5000-gap20",
    "-silent": "sim-f8",
    "-cut": "sim-f10",
    "-error": "sim-f22",
    "-malformed": "sim-f20",
    "-endless": "sim-f24",
    "-uncounted": "sim-f27",
    "-limited": "sim-f3",
    "-broken": "sim-f5",
    "-overloaded": "sim-f6",
    "-long": "sim-f12",
    "-filtered": "sim-f13",
}
# Well from its second call on, which the client has to send: a model for each test.
for client in ("openai-python", "openai-node", "anthropic-python", "anthropic-node"):
    for form in ("whole", "stream"):
        FAULTS[f"-once-{client}-{form}"] = f"sim-f5-once-{client}-{form}"


def main() -> None:
    url, keys = sys.argv[1:]
    models = {}
    for name, provider in (("o", "openai"), ("a", "anthropic"), ("g", "gemini")):
        for fault, served in FAULTS.items():
            # Each provider's model of its own, so that their calls are counted apart.
            served_by = f"{provider}-limited" if fault == "-limited" else provider
            candidate = {"provider": served_by, "model": f"{served}-{name}" if fault else served, "max_output": 64}
            models[name + fault] = {"candidates": [candidate], "attempts": 1}
    upstreams = {"sim": {"targets": [url]}}
    providers = {}
    for api in ("openai", "anthropic", "gemini"):
        # A key that a provider limits rests: the others' must not.
        for name in (api, f"{api}-limited"):
            providers[name] = {"api": api, "upstream": "sim", "keys": [f"sk-{name}-0123456789"]}
    # The field of each API's clients.
    places = ["header:X-API-Key", "header:X-Goog-Api-Key", "bearer"]
    configuration = {
        "listen": "127.0.0.1:0",
        "workers": 1,
        "auth": {"keys": {"api_key": {"in": places, "store": {"file": keys}}}},
        "upstreams": upstreams,
        "providers": providers,
        "models": models,
        "routes": [
            {"name": name, "match": {"path": path}, "ai": {}, "auth": "keys"}
            for name, path in (("ai", "/v1/*"), ("gemini", "/v1beta/*"))
        ],
    }
    # JSON is YAML too.
    print(json.dumps(configuration, indent=2))


if __name__ == "__main__":
    main()
