"""What this process is doing with requests: which are admitted, which fail, how many are in flight."""

from dataclasses import dataclass

from .errors import ApiError, overloaded
from .settings import Settings


@dataclass(slots=True)
class Load:
    in_flight: int = 0
    admitted: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0

    def admit(self, settings: Settings) -> None:
        """Takes a place in flight, which `Paced` gives back; raises the response of a request that gets none."""
        if settings.concurrency and self.in_flight >= settings.concurrency:
            self.refused += 1
            raise overloaded()
        self.admitted += 1
        k, rate = self.admitted, settings.error_rate
        if k * rate // 1_000_000 > (k - 1) * rate // 1_000_000:
            self.failed += 1
            raise ApiError(settings.error_status, "simulated error", type="server_error", code="simulated_error")
        self.in_flight += 1
