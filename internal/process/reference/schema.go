package main

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"
)

type object = map[string]any

// schema is a JSON Schema, of draft 7, which editors know. A route is of one module, or has a
// handler; each of these is a schema of its own, since draft 7 has no other way to refuse keys that
// are no module's.
func schema(tables []*table) string {
	definitions := object{}
	var route *table
	for _, t := range tables {
		if t.name == "[[site.route]]" {
			route = t
		}
	}
	variant := func(t *table, without string) object {
		properties := propertiesOf(route)
		delete(properties, without)
		if t != nil {
			maps.Copy(properties, propertiesOf(t))
			properties["module"] = object{"const": t.module, "description": "what answers"}
		}
		return object{"type": "object", "properties": properties, "additionalProperties": false}
	}
	routes := []any{variant(nil, "module")}
	for _, t := range tables[1:] {
		switch {
		case t.module != "":
			routes = append(routes, variant(t, "handler"))
		case t != route:
			definitions[id(t)] = object{"type": "object", "properties": propertiesOf(t),
				"additionalProperties": false}
		}
	}
	definitions[id(route)] = object{"anyOf": routes}
	text, err := json.MarshalIndent(object{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"$comment":    notice,
		"title":       "lwango.conf",
		"type":        "object",
		"properties":  propertiesOf(tables[0]),
		"definitions": definitions,

		"additionalProperties": false,
	}, "", "\t")
	if err != nil {
		panic(err) // of maps and strings only
	}
	return string(text) + "\n"
}

func id(t *table) string { return strings.Trim(t.name, "[]") }

func propertiesOf(t *table) object {
	all := object{}
	for _, k := range t.keys {
		of := k.schemaOf(k.typ)
		all[k.name] = object{"allOf": []any{of}, "description": plain(k.text) + " (" + k.facts() + ")"}
	}
	return all
}

// reference is for a string that may stand for anything.
var reference = object{"type": "string", "pattern": `\$\{`}

func (k key) schemaOf(t reflect.Type) object {
	switch {
	case t == durationType:
		of := object{"type": "string", "pattern": `^[+-]?([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|\$\{`}
		if k.tag.Get("min") == "-1" {
			return object{"anyOf": []any{object{"const": -1}, of}}
		}
		return of
	case t == sizeType:
		return object{"anyOf": []any{object{"type": "integer"},
			object{"type": "string", "pattern": `^[0-9]+ *([KkMmGgTt]?[Ii]?[Bb])?$|\$\{`}}}
	case reflect.PointerTo(t).Implements(textType):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return k.schemaOf(t.Elem())
	case reflect.Slice:
		elem := k.schemaOf(t.Elem())
		return object{"anyOf": []any{elem, object{"type": "array", "items": elem}}}
	case reflect.Map:
		if isTable(t.Elem()) { // keys that are checked where they are used
			return object{"type": "object", "additionalProperties": object{"type": "object"}}
		}
		return object{"type": "object", "additionalProperties": k.schemaOf(t.Elem())}
	case reflect.Struct:
		of := object{"$ref": "#/definitions/" + id(k.sub)}
		if hasSwitch(t) {
			return object{"anyOf": []any{object{"type": "boolean"}, of}}
		}
		return of
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		if words := strings.Fields(k.tag.Get("oneof")); len(words) > 0 {
			return object{"anyOf": []any{object{"enum": words}, reference}}
		}
		return object{"type": "string"}
	}
	of := object{"type": "integer"}
	for tag, name := range map[string]string{"min": "minimum", "max": "maximum"} {
		if n, err := strconv.ParseInt(k.tag.Get(tag), 10, 64); err == nil {
			of[name] = n
		}
	}
	return of
}
