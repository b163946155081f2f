// The suite's server listens on all addresses; for a test, loopback will do.
const net = require('net')
const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port) {
  return listen.call(this, Number(port), '127.0.0.1')
}
