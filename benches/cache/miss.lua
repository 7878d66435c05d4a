-- A path that nobody asked for before; PREFIX chooses the route.
local prefix = os.getenv("PREFIX") or "/miss/"
local run = os.time() .. "-" .. tostring({}):sub(8)
local count = 0
request = function()
  count = count + 1
  return wrk.format("GET", prefix .. run .. "/" .. count)
end
