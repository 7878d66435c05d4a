-- POST of JSON: BODY is the body ({"prompt":"hello"}), TOKEN a bearer token, when the path needs one.
--   wrk -t6 -c200 -d30s -s load/wrk/post.lua http://127.0.0.1:8080/infer/node
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BODY") or '{"prompt":"hello"}'
if os.getenv("TOKEN") then wrk.headers["Authorization"] = "Bearer " .. os.getenv("TOKEN") end

-- wrk counts 2xx and 3xx as good. An answer that is not 200 or 201 is said by its status.
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init() others = {} end
function response(status)
  if status ~= 200 and status ~= 201 then others[status] = (others[status] or 0) + 1 end
end
function done()
  local all = {}
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("others")) do all[status] = (all[status] or 0) + count end
  end
  for status, count in pairs(all) do io.write(string.format("  status %d: %d\n", status, count)) end
end
