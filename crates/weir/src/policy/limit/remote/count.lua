-- Counts the requests of one call, in their order, by the clock of this server. A request names some counts: it is charged to all of
-- them or, if one has too little left, to none.
--
-- KEYS  the counts, as the requests name them
-- ARGV  number of definitions; of each: kind, a, b, c, and 0 if it refuses nothing (then it is charged only if it has enough left, and
--       keeps the others from nothing)
--       then of each request: number of counts; of each: definition, cost, tokens wanted (at least the cost)
--         kind 1  fixed window from the first request: a = quota, b = window in us
--         kind 2  fixed window aligned with the epoch: likewise
--         kind 3  sliding window of two counters:      likewise
--         kind 4  token bucket: a = burst, b = time in which one token comes back, c = such units of time in a us
--         kind 5  requests in flight: a = quota, b = us until what a worker holds ends unless it says so again (hold.lua), c = the worker
--       a cost of 0 looks and charges nothing
--
-- Returns four numbers for each count that a request names:
--   tokens taken; 0: too little left; -1: enough, but another count has too little, or nothing was asked for
--   what is left, us until more is left, and: after a refusal us until the cost would be there; after a charge the mark that refund.lua wants
--
-- State: 'end count' (1), 'number count' (2), 'number count before' (3), 'us used' (4), 'worker:end:held worker:end:held' (5).
local floor, ceil, match = math.floor, math.ceil, string.match
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local found = redis.call('MGET', unpack(KEYS))
local states, changed, reply = {}, {}, {}

-- The state of a count at this moment.
local function look(i, d)
  local key = KEYS[i]
  local s = states[key]
  if not s then
    local a, b, c
    if found[i] and d[1] ~= 5 then a, b, c = match(found[i], '^(%d+) (%d+) ?(%d*)$') end
    s = { tonumber(a) or 0, tonumber(b) or 0, tonumber(c) or 0, d = d }
    states[key] = s
    if d[1] == 5 then
      s.holds = {}
      for id, ends, held in string.gmatch(found[i] or '', '(%d+):(%d+):(%d+)') do
        ends, held = tonumber(ends), tonumber(held)
        -- The clock was set back, or another server took over.
        if ends > now + d[3] then ends = now + d[3]; s.back = true end
        if ends > now and held > 0 then
          s.holds[tonumber(id)] = { ends, held }
          s[2] = s[2] + held
        end
      end
    end
  end
  local kind, b = d[1], d[3]
  if kind == 1 then
    if s[1] <= now then s[1] = now + b; s[2] = 0 end
    -- The clock was set back, or another server took over: no window is longer than its length. `back`: what is corrected is stored even
    -- if nothing is charged, or each later look would find the same.
    if s[1] > now + b then s[1] = now + b; s.back = true end
  elseif kind == 2 then
    local number = floor(now / b)
    if s[1] < number then s[1] = number; s[2] = 0 end
    if s[1] > number + 1 then s[1] = number + 1; s.back = true end
  elseif kind == 5 then
    if s.back then changed[key] = s end
    return s
  elseif kind == 3 then
    local number = floor(now / b)
    if s[1] == number - 1 then
      s[1] = number; s[3] = s[2]; s[2] = 0
    elseif s[1] < number then
      s[1] = number; s[2] = 0; s[3] = 0
    elseif s[1] > number + 1 then
      s[1] = number + 1; s.back = true
    end
  else
    if s[1] < now then
      s[2] = s[2] - (now - s[1]) * d[4]
      if s[2] < 0 then s[2] = 0 end
    elseif s[1] > now then
      s.back = true
    end
    s[1] = now
  end
  if s.back then changed[key] = s end
  return s
end

local function elapsed(s, d)
  local e = now - s[1] * d[3]
  if e < 0 then return 0 end
  return e
end

local function left(s, d)
  local kind, a, b = d[1], d[2], d[3]
  local n
  if kind <= 2 or kind == 5 then
    n = a - s[2]
  elseif kind == 3 then
    n = a - s[2] - ceil(s[3] * (b - elapsed(s, d)) / b)
  else
    n = floor((a * b - s[2]) / b)
  end
  if n < 0 then return 0 end
  return n
end

-- us until so much may be spent of a sliding window if nobody else comes.
local function fades(s, d, cost)
  local b, e = d[3], elapsed(s, d)
  local room = d[2] - cost
  local function at(count, room)
    if count == 0 then return b end
    local t = floor(room * b / count)
    if t > b then return b end
    return t
  end
  if room < 0 then
    if s[2] > 0 then return 2 * b - e elseif s[3] > 0 then return b - e else return 0 end
  elseif s[2] <= room then
    local t = b - at(s[3], room - s[2]) - e
    if t < 0 then return 0 end
    return t
  end
  return (b - e) + (b - at(s[2], room))
end

local function reset(s, d)
  local kind, b = d[1], d[3]
  if kind == 1 then return s[1] - now end
  if kind == 2 then return (s[1] + 1) * b - now end
  if kind == 3 then return fades(s, d, left(s, d) + 1) end
  -- When a request ends is not known.
  if kind == 5 then return 0 end
  if s[2] == 0 then return 0 end
  local spare = d[2] * b - s[2]
  if spare < 0 then spare = 0 end
  return ceil((b - spare % b) / d[4])
end

local function retry(s, d, cost)
  local kind = d[1]
  if kind <= 2 or kind == 5 then return reset(s, d) end
  if kind == 3 then return fades(s, d, cost) end
  local price, full = cost * d[3], d[2] * d[3]
  -- Who asks for more than there can be waits until the bucket is full, and is refused again.
  if price > full then return ceil(s[2] / d[4]) end
  return ceil((s[2] + price - full) / d[4])
end

local definitions = {}
local at = 2
for i = 1, tonumber(ARGV[1]) do
  definitions[i] = { tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]) }
  at = at + 5
end

local key, n = 0, 0
while ARGV[at] do
  local counts = tonumber(ARGV[at])
  local fits = true
  local asked = {}
  for i = 1, counts do
    local from = at + 3 * i - 2
    local d, cost = definitions[tonumber(ARGV[from])], tonumber(ARGV[from + 1])
    local s = look(key + i, d)
    local spare = left(s, d)
    asked[i] = { s, d, cost, tonumber(ARGV[from + 2]), spare }
    if spare < cost and d[5] ~= 0 then fits = false end
  end
  for i = 1, counts do
    local s, d, cost, wanted, spare = unpack(asked[i])
    if fits and wanted > 0 and spare >= cost then
      local taken = wanted
      if taken > spare then taken = spare end
      local mark
      if d[1] == 4 then
        s[2] = s[2] + taken * d[3]
        mark = now
      else
        s[2] = s[2] + taken
        mark = s[1]
        if d[1] == 5 then
          local own = s.holds[d[4]]
          s.holds[d[4]] = { now + d[3], (own and own[2] or 0) + taken }
        end
      end
      changed[KEYS[key + i]] = s
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = taken, spare - taken, reset(s, d), mark
    elseif spare < cost then
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, spare, reset(s, d), retry(s, d, cost)
    else
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = -1, spare, reset(s, d), 0
    end
    n = n + 4
  end
  key = key + counts
  at = at + 1 + 3 * counts
end

for name, s in pairs(changed) do
  local d = s.d
  local kind, text, us = d[1]
  if kind == 5 then
    local parts = {}
    us = 0
    for id, hold in pairs(s.holds) do
      parts[#parts + 1] = string.format('%.0f:%.0f:%.0f', id, hold[1], hold[2])
      if hold[1] - now > us then us = hold[1] - now end
    end
    text = table.concat(parts, ' ')
  elseif kind == 3 then
    text = string.format('%.0f %.0f %.0f', s[1], s[2], s[3])
    us = (s[1] + 2) * d[3] - now
  else
    text = string.format('%.0f %.0f', s[1], s[2])
    if kind == 4 then us = s[2] / d[4] else us = reset(s, d) end
  end
  us = ceil(us / 1000)
  if us < 1 then us = 1 end
  redis.call('SET', name, text, 'PX', string.format('%.0f', us))
end
return reply
