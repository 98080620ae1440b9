-- Sends METHOD to the paths in PATHS one after the other, each with BODY ("%d" in it: a number).
local paths, n = {}, 0
for line in io.lines(os.getenv("PATHS")) do paths[#paths + 1] = line end
local method, body, key = os.getenv("METHOD"), os.getenv("BODY"), os.getenv("KEY")
local first = tonumber(os.getenv("FIRST"))

request = function()
  local headers = { ["Authorization"] = "Bearer " .. key }
  local text = nil
  if body ~= "" then
    headers["Content-Type"] = "application/json"
    text = body:gsub("%%d", tostring(first + n))
  end
  local path = paths[n % #paths + 1]
  n = n + 1
  return wrk.format(method, path, headers, text)
end
