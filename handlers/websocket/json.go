package websocket

import "encoding/json"

// ReadJSON waits for a message and decodes it into v. The error is that of ReadMessage or of
// json.Unmarshal; after the latter the connection goes on.
func (c *Conn) ReadJSON(v any) error {
	_, p, err := c.ReadMessage()
	if err != nil {
		return err
	}
	return json.Unmarshal(p, v)
}

// WriteJSON sends v, encoded by json.Marshal, as a text.
func (c *Conn) WriteJSON(v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.WriteMessage(Text, p)
}
