/** The library client_golang of Prometheus: its client of the HTTP API, and its sender of remote write 2.0. */
import { test } from 'node:test'
import { startNode } from './node.ts'
import { cached, lacking, runChecks } from './program.ts'

const PROGRAM = 'bin/client-golang'

test('client_golang sends, and asks all that it can', { skip: lacking('client-golang', PROGRAM) }, async (t) => {
  const node = await startNode({ plugins: ['remote_write', 'promql', 'exemplars'] })
  t.after(() => node.stop())
  await runChecks(t, cached(PROGRAM), [node.url])
})
