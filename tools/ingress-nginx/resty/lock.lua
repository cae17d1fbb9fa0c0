-- A lock in a shared dictionary with the interface of lua-resty-lock, which Debian lacks.
local _M = {}
local mt = { __index = _M }

function _M.new(_, dict)
  return setmetatable({ dict = ngx.shared[dict] }, mt)
end

function _M.lock(self, key)
  local added, err = self.dict:add(key, true, 1)
  if not added then
    return nil, err == "exists" and "timeout" or err
  end
  self.key = key
  return 0
end

function _M.unlock(self)
  self.dict:delete(self.key)
  return 1
end

return _M
