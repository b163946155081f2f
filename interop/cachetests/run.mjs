// Runs the suite through the server at the URL of the first argument, all of it or the one test that
// the second argument names, and writes a line of JSON for each test: its id and kind, what the suite
// calls its result, and the reason it gives.
import fetch from 'node-fetch'
import { getResults, runTests } from 'http-cache-tests/client/runner.mjs'
import { determineTestResult } from 'http-cache-tests/lib/display.mjs'
import surrogate from 'http-cache-tests/tests/surrogate-control.mjs'
import tests from 'http-cache-tests/tests/index.mjs'

const [base, only] = process.argv.slice(2)
const words = { '✅': 'pass', '⛔️': 'fail', '⚠️': 'fail', Y: 'yes', N: 'no', '🔹': 'setup', '⁉️': 'harness', '⚪️': 'dependency', '↻': 'retry', '-': 'untested' }
tests.push(surrogate)

const chosen = []
for (const suite of tests) {
  const some = suite.tests.filter(t => !t.browser_only && (!only || t.id === only))
  some.forEach(t => { t.dump = Boolean(only) })
  chosen.push({ ...suite, tests: some })
}
await runTests(chosen, fetch, false, base)
const results = getResults()
for (const suite of chosen) {
  for (const t of suite.tests) {
    const word = words[determineTestResult(tests, t.id, results, !only)[2]]
    const why = results[t.id] === true ? '' : String((results[t.id] || [])[1])
    console.log(JSON.stringify({ suite: suite.id, id: t.id, kind: t.kind || 'required', result: word, why }))
  }
}
