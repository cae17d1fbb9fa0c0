-- Weighted round robin with the interface of lua-resty-balancer, which Debian lacks. nodes: id to weight.
local _M = {}
local mt = { __index = _M }

function _M.new(_, nodes)
  local self = setmetatable({}, mt)
  self:reinit(nodes)
  return self
end

function _M.reinit(self, nodes)
  self.nodes, self.sequence, self.at = {}, {}, 0
  for id, weight in pairs(nodes) do
    self.nodes[id] = weight
    for _ = 1, weight do
      self.sequence[#self.sequence + 1] = id
    end
  end
  if #self.sequence > 0 then
    self.at = math.random(#self.sequence)
  end
end

function _M.find(self)
  if #self.sequence == 0 then
    return nil
  end
  self.at = self.at % #self.sequence + 1
  return self.sequence[self.at]
end

return _M
