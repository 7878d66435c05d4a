-- POST with 1 KiB of JSON; the answer has 1 KiB too.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"text":"' .. string.rep("x", 1024 - 11) .. '"}'
