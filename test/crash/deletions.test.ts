import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../support/until.ts'
import { Deletions } from './deletions.ts'
import { failure, type ServerProcess } from './server.ts'

t.test('an answer that no operation may get is told with its text, however late the loop asks for it', async (t) => {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(500, { 'content-type': 'application/json' }).end('{"error":"an internal error","code":"DATABASE_ERROR"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const deletions = new Deletions(join(temporaryFolder(t), 'lives'), BigInt(Date.now()) * 1_000_000n, { done: 0, undone: 0 })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const running = deletions.start({ url, seed: 1, pauseMs: 1, finalDrops: false })
  await until('the client has ended', () => !process.getActiveResourcesInfo().includes('ProcessWrap'))
  await setTimeout(10) // a rejection that nobody handles ends the process in the turn after
  await t.rejects(running, /bad 500 .*an internal error.*DATABASE_ERROR/)
})

t.test('a failure has the errors that the server has logged long before its last words', async (t) => {
  const line = (n: number) => `2026-01-01T00:00:00.000Z INFO  storage: ${n}`
  const error = '2026-01-01T00:00:00.000Z ERROR http: a request has failed err="the cause"\n    at frame (file.ts:1:1)'
  const server = { output: [error, ...Array.from({ length: 1000 }, (_, n) => line(n))].join('\n') } as ServerProcess
  const { message } = failure('seed 1', new Error('it was answered 500'), server)
  t.match(message, /^seed 1: it was answered 500\n/)
  t.match(message, error, 'with its frames')
  t.ok(message.endsWith(line(999)))
  t.notMatch(message, line(1))
})
