-- Each connection waits a fixed time between an answer and its next request: close to one rate for every system, as long as none is busy.
-- PACE_MS: milliseconds.
local pace = tonumber(os.getenv("PACE_MS"))

function delay()
  return pace
end
