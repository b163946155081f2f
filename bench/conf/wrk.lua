-- The counters as one line of JSON: wrk's own text rounds them.
done = function(summary, latency, requests)
   local e = summary.errors
   io.write(string.format('\nbench {"requests":%d,"microseconds":%d,"connect":%d,"read":%d,"write":%d,"status":%d}\n',
      summary.requests, summary.duration, e.connect, e.read, e.write, e.status))
end
{{if gt .Depth 1}}
-- So many requests in one write. wrk counts them in the text that init makes and waits for as many
-- answers. Without it request stays wrk's own, and no Lua runs while measuring.
init = function(args)
   all = string.rep(wrk.format(), {{.Depth}})
end
request = function() return all end
{{end}}