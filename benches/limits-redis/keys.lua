-- Requests of many API keys in turn: KEYS of them (20), with PREFIX in front of a number.
local keys = tonumber(os.getenv("KEYS") or "20")
local prefix = os.getenv("PREFIX") or "key-"
local requests, at = {}, 0

function init()
  for key = 1, keys do
    requests[key] = wrk.format("GET", "/api/add?lhs=1&rhs=2", { ["X-API-KEY"] = prefix .. key })
  end
  at = math.random(0, keys - 1)
end

function request()
  at = at % keys + 1
  return requests[at]
end

-- Answers by status class, for whom 429 is no error.
local threads = {}
function setup(thread) table.insert(threads, thread) end
statuses = {}
function response(status) statuses[status] = (statuses[status] or 0) + 1 end
function done(summary)
  local total = {}
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("statuses") or {}) do total[status] = (total[status] or 0) + count end
  end
  for status, count in pairs(total) do print("status " .. status .. " " .. count) end
end
