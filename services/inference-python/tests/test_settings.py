import pytest
from app.errors import ApiError
from app.load import Load
from app.settings import BadSetting, Settings

from .conftest import run


def test_environment_sets_and_headers_override():
    settings = Settings.from_env(
        {"SIM_TOKENS": "7", "SIM_ERROR_RATE": "0.25", "SIM_SEED": "4294967295", "PATH": "/bin"}
    )
    assert settings == Settings(tokens=7, error_rate=250_000, seed=4294967295)
    assert settings.for_request({}) is settings
    assert settings.for_request({"X-Sim-Tokens": "9", "X-Sim-Latency-Ms": "0"}).tokens == 9


@pytest.mark.parametrize("text", ["", " 1", "+1", "-1", "1.5", "1e3", "0", "100001", "٣", "0x1", "99999999999"])
def test_whole_numbers_are_digits_within_bounds(text):
    with pytest.raises(BadSetting, match=r"^SIM_TOKENS must be a whole number from 1 to 100000$"):
        Settings.from_env({"SIM_TOKENS": text})


@pytest.mark.parametrize(
    ("text", "millionths"), [("0", 0), ("1", 1_000_000), ("1.0", 1_000_000), ("0.1", 100_000), ("0.000001", 1)]
)
def test_rates_are_exact(text, millionths):
    assert Settings.from_env({"SIM_ERROR_RATE": text}).error_rate == millionths


@pytest.mark.parametrize("text", ["", "1.000001", "2", ".5", "0.", "0.0000001", "1e-3", "-0", "nan", "50%"])
def test_bad_rates_are_refused(text):
    with pytest.raises(BadSetting, match=r"^X-Sim-Error-Rate must be a number from 0 to 1 with at most 6 decimals$"):
        Settings().for_request({"X-Sim-Error-Rate": text})


@pytest.mark.parametrize(
    ("variable", "value"), [("PORT", "65536"), ("PORT", "http"), ("SIM_LATENCY_MS", "fast"), ("SIM_SEED", "4294967296")]
)
def test_a_bad_variable_stops_the_start(variable, value):
    process = run(**{variable: value})
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (64, "")
    assert err.startswith(f"error: {variable} must be a whole number from ")


@pytest.mark.parametrize(
    ("rate", "failing"), [("0.25", [4, 8, 12]), ("0.3", [4, 7, 10]), ("1", list(range(1, 13))), ("0", [])]
)
def test_failures_are_spread_by_the_counter(rate, failing):
    load, settings = Load(), Settings.from_env({"SIM_ERROR_RATE": rate})
    failed = []
    for k in range(1, 13):
        try:
            load.admit(settings)
        except ApiError:
            failed.append(k)
    assert failed == failing
    assert (load.admitted, load.failed, load.in_flight) == (12, len(failing), 12 - len(failing))
