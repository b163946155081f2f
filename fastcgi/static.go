package fastcgi

import "strings"

// sendAccel sends the file that the script names, with the script's header fields.
func (c *call) sendAccel() int {
	c.answer.file, c.answer.path = strings.Clone(c.answer.file), strings.Clone(c.answer.path)
	c.close() // another route may wait for a connection to the same application
	status, sent := c.m.accel.Send(c.req, c.resp, c.answer.file, c.answer.path, c.answer.status)
	if !sent {
		c.m.log.Error("fastcgi: file of X-Accel-Redirect or X-Sendfile not sent",
			"request_id", c.req.ID(), "script", c.target.Name,
			"file", c.answer.file+c.answer.path, "status", status)
		c.resp.Clear()
	}
	return status
}
